"""Failures that repeat, mined from the records of rollouts (000 Appendix C.3): a fold over group records.

A kind of failure is *due*, worth asking about, at the step at which it has occurred in `feedback.rollouts` rollouts of
`feedback.tasks` tasks. That step depends on the records alone, so that everybody who folds them agrees on what is due,
and in which order: by that step, then by tool and pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rods.config import Feedback

KEPT = 4_096  # kinds of failure that are counted; what is met first after so many is not
EXAMPLES = 3  # shapes of arguments, and tasks beyond those that are needed


@dataclass(slots=True)
class MinedFailure:
    """Calls of `tool` that were refused in words of one `pattern`: in how many rollouts, how many calls, in which tasks
    (the first few), with arguments of which shapes (the first few). `due`: the step that made it due; 0: not yet."""

    tool: str
    pattern: str
    rollouts: int = 0
    calls: int = 0
    last: int = 0  # the latest step with one
    due: int = 0
    tasks: list[str] = field(default_factory=list)
    shapes: list[dict[str, str]] = field(default_factory=list)


class Mining:
    """Counts failures; `apply` takes the groups of live steps in their order."""

    def __init__(self, rules: Feedback) -> None:
        self._rules = rules
        self._found: dict[tuple[str, str], MinedFailure] = {}

    def apply(self, step: int, groups: Iterable[Mapping[str, Any]]) -> None:
        """The group records of a closed step."""
        for group in groups:
            for rollout in group.get("rollouts", ()):
                for failed in rollout.get("failures", ()):
                    self._count(step, group["task"], failed)

    def due(self) -> list[MinedFailure]:
        """What is worth asking about, in order; at most `feedback.texts` kinds."""
        found = sorted(
            (one for one in self._found.values() if one.due), key=lambda one: (one.due, one.tool, one.pattern)
        )
        return found[: self._rules.texts]

    def __iter__(self) -> Any:
        """All kinds, the commonest first."""
        return iter(sorted(self._found.values(), key=lambda one: (-one.rollouts, one.tool, one.pattern)))

    def state(self) -> Any:
        """What a snapshot keeps, as JSON can say it."""
        return [asdict(one) for one in self._found.values()]

    def load(self, state: Any) -> None:
        self._found = {(one["tool"], one["pattern"]): MinedFailure(**one) for one in state}

    def _count(self, step: int, task: str, failed: Mapping[str, Any]) -> None:
        key = failed["tool"], failed["pattern"]
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= KEPT:
                return
            known = self._found[key] = MinedFailure(*key)
        known.rollouts += 1
        known.calls += failed.get("count", 1)
        known.last = step
        if task not in known.tasks and len(known.tasks) < self._rules.tasks + EXAMPLES:
            known.tasks.append(task)
        shapes = failed.get("shapes")
        if shapes and shapes not in known.shapes and len(known.shapes) < EXAMPLES:
            known.shapes.append(dict(shapes))
        if not known.due and known.rollouts >= self._rules.rollouts and len(known.tasks) >= self._rules.tasks:
            known.due = step
