"""Gate 3 (004 Appendix G): no ground-truth argument is so long that a policy could not write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rods.config import Gates
from rods.gates.reason import Reason
from rods.tasks import Task


def arguments(task: Task, gates: Gates) -> list[Reason]:
    """Why the arguments are too large; empty when none is. Texts and lists inside lists and objects count too."""
    return [
        Reason(f"{call.name}: {name} {fault}", turn, index)
        for turn, calls in enumerate(task.calls)
        for index, call in enumerate(calls)
        for name, value in call.arguments.items()
        for fault in _faults(value, gates)
    ]


def _faults(value: Any, gates: Gates) -> Iterator[str]:
    if isinstance(value, str) and len(value) > gates.max_string:
        yield f"has {len(value)} characters, at most {gates.max_string} are allowed"
    elif isinstance(value, (list, tuple)):
        if len(value) > gates.max_list:
            yield f"has {len(value)} elements, at most {gates.max_list} are allowed"
        for item in value:
            yield from _faults(item, gates)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _faults(item, gates)
