"""The versions of what the policy was shown, step by step: when they changed, in what, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from buffers.state import ClosedStep
from rods.config import Component, Config
from rods.interfaces.seal import words
from rods.rules.curriculum import stage_rules


@dataclass(frozen=True, slots=True)
class InterfaceVersion:
    """What the policy was shown from `step` on. `added` and `removed`: components of an evolving interface and what
    they say, against the version before. `why`: the change that the labels called for (rods.rules.evolution.Change)."""

    step: int
    stage: int
    version: str
    added: dict[Component, str]
    removed: dict[Component, str]
    why: dict[str, Any] | None

    @property
    def reason(self) -> str:
        """`why` in words; empty where the labels called for nothing."""
        if not self.why:
            return ""
        said = "appears" if self.why["shown"] else "goes"
        return (
            f"{self.why['component']} {said}: its labels made up {self.why['share']:.1%} of {self.why['labels']:,} in "
            "the last steps"
        )


class InterfaceVersions:
    """Follows the live steps of a run; `found` are the versions that they have shown, in order."""

    def __init__(self, config: Config) -> None:
        self._curriculum, self._brief = config.curriculum, config.policy.dialect == "compact"
        self.evolves = any(stage.evolving for stage in config.curriculum.stages)
        self.found: list[InterfaceVersion] = []
        self._there: list[frozenset[Component]] = []  # the components of each version
        self._changes: dict[int, Any] = {}  # what a step has changed for the next one, where it has

    def add(self, step: ClosedStep, after: frozenset[Component]) -> None:
        """Takes the next live step, and the evolving components that are shown after it. Versions of later steps,
        which a start has dropped, are forgotten."""
        self.forget(step.step - 1)
        if (change := step.record.get("evolved")) is not None:
            self._changes[step.step] = change
        if not step.records or (self.found and self.found[-1].version == step.records[0]["interface"]):
            return
        rules, shown = stage_rules(self._curriculum, step.stage), after ^ {change["component"]} if change else after
        now = frozenset(name for name in rules.components if name in shown or name not in rules.evolving)
        there: frozenset[Component] = self._there[-1] if self._there else frozenset()
        new, gone = ({name: words(name, self._brief) for name in sorted(some)} for some in (now - there, there - now))
        why = self._changes.get(step.step - 1)
        self.found.append(
            InterfaceVersion(
                step.step,
                step.stage,
                step.records[0]["interface"],
                new,
                gone,
                why if why and why["component"] in now ^ there else None,
            )
        )
        self._there.append(now)

    def forget(self, last: int) -> None:
        """Drops the versions and the changes of steps beyond `last`."""
        while self._changes and next(reversed(self._changes)) > last:
            self._changes.popitem()
        while self.found and self.found[-1].step > last:
            self.found.pop()
            self._there.pop()
