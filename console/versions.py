"""The versions of what the policy was shown, step by step: when they changed, in what, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rods.buffers.state import ClosedStep
from rods.config import Config
from rods.extension import extensions
from rods.rules.curriculum import stage_rules


@dataclass(frozen=True, slots=True)
class InterfaceVersion:
    """What the policy was shown from `step` on. `added` and `removed`: components of the interface and what they say,
    against the version before. `why`: what called for the change (rods.extension.Extension.cause)."""

    step: int
    stage: int
    version: str
    added: dict[str, str]
    removed: dict[str, str]
    why: dict[str, Any] | None

    @property
    def reason(self) -> str:
        """`why` in words; empty where nothing called for the change."""
        return str(self.why["reason"]) if self.why else ""


class InterfaceVersions:
    """Follows the live steps of a run; `found` are the versions that they have shown, in order."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.evolves = any(extension.follows(stage) for extension in extensions() for stage in config.curriculum.stages)
        self.found: list[InterfaceVersion] = []
        self._there: list[dict[str, str]] = []  # the components of each version
        self._causes: dict[int, dict[str, Any]] = {}  # what a step has changed for the next one, where it has

    def add(self, step: ClosedStep, after: Mapping[str, Any]) -> None:
        """Takes the next live step, and what interfaces are told after it (rods.extension.shown_next). Versions of
        later steps, which a start has dropped, are forgotten."""
        self.forget(step.step - 1)
        for extension in extensions():
            if (cause := extension.cause(step.record)) is not None:
                self._causes[step.step] = dict(cause)
        if not step.records or (self.found and self.found[-1].version == step.records[0]["interface"]):
            return
        rules, dialect = stage_rules(self._config.curriculum, step.stage), self._config.policy.dialect
        now: dict[str, str] = {}
        for extension in extensions():
            now |= extension.components(rules, dialect, extension.before(after.get(extension.name), step.record))
        there = self._there[-1] if self._there else {}
        why = self._causes.get(step.step - 1)
        self.found.append(
            InterfaceVersion(
                step.step,
                step.stage,
                step.records[0]["interface"],
                {name: now[name] for name in sorted(now.keys() - there.keys())},
                {name: there[name] for name in sorted(there.keys() - now.keys())},
                why if why and why["component"] in now.keys() ^ there.keys() else None,
            )
        )
        self._there.append(now)

    def forget(self, last: int) -> None:
        """Drops the versions and the changes of steps beyond `last`."""
        while self._causes and next(reversed(self._causes)) > last:
            self._causes.popitem()
        while self.found and self.found[-1].step > last:
            self.found.pop()
            self._there.pop()
