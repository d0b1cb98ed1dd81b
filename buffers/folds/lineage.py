"""Which attempt's steps are live (DESIGN §4, *Start*): a later start drops what earlier attempts did beyond its
`from_step`. Nothing is deleted; folds leave it out."""

from __future__ import annotations

import math
from collections.abc import Container
from pathlib import Path
from typing import Any

import orjson

from buffers.log.parts import segments
from buffers.log.records import Record, is_record
from buffers.log.tail import BLOCK

MARK = b'"kind":"start"'


class Lineage:
    """The starts of a run, in order."""

    def __init__(self) -> None:
        self.attempt = 0  # the latest; 0 before the first start
        self._limits: dict[int, int] = {}  # attempt → the last of its steps that later starts kept

    def add(self, start: Record) -> bool:
        """Takes a `start` record; False when it was known."""
        attempt, from_step = start["attempt"], start["from_step"]
        if attempt <= self.attempt:
            return False
        for earlier in range(self.attempt + 1):
            self._limits[earlier] = min(from_step, self._limits.get(earlier, from_step))
        self.attempt = attempt
        return True

    def limit(self, attempt: int) -> float:
        """The last step of `attempt` and of those before it that later starts have kept; infinite for the latest."""
        return self._limits.get(attempt, math.inf)

    def live(self, attempt: int, step: int) -> bool:
        """Whether what `attempt` did at `step` still counts."""
        return step <= self.limit(attempt)

    def as_json(self) -> Any:
        return [self.attempt, sorted(self._limits.items())]

    @staticmethod
    def from_json(state: Any) -> Lineage:
        found = Lineage()
        found.attempt, found._limits = state[0], dict(state[1])
        return found


def known_starts(path: Path, lineage: Lineage | None = None, skip: Container[str] = frozenset()) -> Lineage:
    """Adds to `lineage` (default: an empty one) the starts in a log of observations, but for the parts named in `skip`.
    They are found without parsing the rest: folds that know them beforehand read the log once, however often it was
    rewound. Relies on records being compact JSON (docs/protocol.md)."""
    lineage = lineage or Lineage()
    for part in segments(path):
        if part.name in skip:
            continue
        with part.open("rb") as file:
            rest = b""
            while data := file.read(BLOCK):
                data = rest + data
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                position = data.find(MARK, 0, end)
                while position >= 0:
                    line = data[data.rfind(b"\n", 0, position) + 1 : data.find(b"\n", position)]
                    if is_record(line) and (record := orjson.loads(line))["kind"] == "start":
                        lineage.add(record)
                    position = data.find(MARK, position + 1, end)
    return lineage
