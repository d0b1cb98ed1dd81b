"""What aimed synthesis adds to the core."""

from typing import Any

from rods.extension import Aims, Extension
from rods.family.aiming.settings import Aiming


class AimedSynthesis(Extension):
    name = "aiming"
    sections = {"aiming": Aiming()}

    def validate(self, config: Any) -> None:
        rules = config.aiming
        if not rules.enabled:
            return
        if rules.soften_below > rules.harden_above:
            raise ValueError(
                "aiming.soften_below lies above aiming.harden_above: no seed may go both ways"
            )
        # without these the gate that holds a variant to its direction is missing, or most operators
        # have no way
        if (
            not config.gates.profile
            or not config.pipeline.adversarial
            or config.pipeline.functions != "other"
        ):
            needs = (
                'gates.profile = true, pipeline.adversarial = true and pipeline.functions = "other"'
            )
            raise ValueError(f"aiming.enabled needs {needs}")

    def aims(self, config: Any) -> Aims | None:
        from rods.family.aiming.picking import Directions

        return Directions(config) if config.aiming.enabled else None

    def verify(self, run: Any, findings: Any, *, replay: bool) -> None:
        from rods.family.aiming.auditing import verify

        if run.config.aiming.enabled:
            verify(run, findings, replay=replay)


EXTENSION = AimedSynthesis()
