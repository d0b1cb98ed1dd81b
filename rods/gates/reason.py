"""Why a gate stays shut, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """What a gate objects to; turns and calls are counted from 0, None where it is the whole task's or turn's."""

    text: str
    turn: int | None = None
    call: int | None = None

    def __str__(self) -> str:
        if self.turn is None:
            return self.text
        return f"turn {self.turn}{'' if self.call is None else f', call {self.call}'}: {self.text}"
