"""What SEAL adds to the configuration: which components of its learning interface a stage shows,
and when they come and go."""

from typing import Literal, get_args

from pydantic import Field, model_validator

from rods.section import AtLeastOne, Section, Share

# The components of SEAL's learning interface (002 §3.3, Appendix D; family/seal/interface.py).
Cue = Literal["required", "allowed", "format", "note"]
ErrorHint = Literal["malformed", "missing", "unknown_argument", "mistyped", "unknown_tool"]
Guideline = Literal["cautious_call", "active_response", "state_aware", "scope", "response_format"]
Component = Literal[Cue, ErrorHint, Guideline]
CUES: tuple[Component, ...] = get_args(Cue)
ERROR_HINTS: tuple[Component, ...] = get_args(ErrorHint)
GUIDELINES: tuple[Component, ...] = get_args(Guideline)
SEAL: dict[str, tuple[Component, ...]] = {
    "seal-active": CUES,
    "seal-full": CUES + ERROR_HINTS + GUIDELINES,
}


class SealStage(Section):
    """Keys of a curriculum stage."""

    interface: str = ""  # of the stage itself
    without: tuple[Component, ...] = ()  # interface=seal-…: components of it that are left out
    # interface=seal-…: which of its components are shown only while the labels of the last steps
    # call for them
    evolve: Literal["none", "guidelines", "all"] = "guidelines"

    @property
    def components(self) -> tuple[Component, ...]:
        """What its learning interface may show, in the order of the presets; empty for any other
        interface."""
        return tuple(name for name in SEAL.get(self.interface, ()) if name not in self.without)

    @property
    def evolving(self) -> tuple[Component, ...]:
        """Those of them that are shown only while the labels call for them."""
        kinds = {"none": (), "guidelines": GUIDELINES, "all": self.components}[self.evolve]
        return tuple(name for name in self.components if name in kinds)

    @model_validator(mode="after")
    def _switches(self) -> "SealStage":
        preset = SEAL.get(self.interface)
        if preset is None:
            if self.interface.startswith("seal"):
                raise ValueError(
                    f"interface = {self.interface!r} is none; there are {', '.join(SEAL)}"
                )
            if self.without or self.evolve != "guidelines":
                raise ValueError(
                    "without and evolve switch components of interface = seal-active or seal-full"
                )
            return self
        if strangers := [name for name in self.without if name not in preset]:
            raise ValueError(f"{self.interface} has no {', '.join(strangers)} to be without")
        if not self.components:
            raise ValueError(
                f"{self.interface} without all of its components changes nothing: leave it out"
            )
        return self


class SealCurriculum(Section):
    """Keys of [curriculum]."""

    evolve_steps: AtLeastOne = 10  # an evolving interface reads the labels of so many steps
    # a component appears when its labels' share comes to this
    evolve_above: float = Field(0.10, gt=0, le=1)
    evolve_below: Share = 0.05  # and goes when it falls below this

    @model_validator(mode="after")
    def _hysteresis(self) -> "SealCurriculum":
        if self.evolve_below >= self.evolve_above:
            raise ValueError(
                "evolve_below must lie below evolve_above, or shares between switch every step"
            )
        return self
