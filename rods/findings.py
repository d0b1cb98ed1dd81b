"""What a probe found out about something outside: an endpoint, a file system, an installation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One question and its answer. `ok` None: no fault, but good to know. `remedy` says what to do about it."""

    name: str
    ok: bool | None
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        mark = {True: "ok", None: "note", False: "FAIL"}[self.ok]
        return f"{mark:<4} {self.name}: {self.text}" + (f" → {self.remedy}" if self.remedy else "")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
