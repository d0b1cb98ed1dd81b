"""Which attempts of a run count, by the starts in its observations. A start drops what earlier
attempts did beyond its `from_step`; what is left is *live*."""

import math
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import Any

from rods.buffers.log.parts import last_record, records_with
from rods.buffers.log.record_bytes import Record
from rods.errors import CorruptLogError

START = b'"kind":"start"'


class AttemptHistory:
    """The starts of a run, in order: which attempt's steps still count."""

    def __init__(self) -> None:
        self.attempt = 0  # the latest; 0 before the first start
        self._limits: dict[int, int] = {}  # attempt → the last of its steps that later starts kept

    def add(self, start: Record) -> bool:
        """Takes a `start` record; False when it was known."""
        attempt = start["attempt"]
        from_step = start["from_step"]
        if attempt <= self.attempt:
            return False
        for earlier in range(attempt):
            self._limits[earlier] = min(from_step, self._limits.get(earlier, from_step))
        self.attempt = attempt
        return True

    def limit(self, attempt: int) -> float:
        """The last step of `attempt` and of those before it that later starts have kept; infinite
        for the latest."""
        return self._limits.get(attempt, math.inf)

    def keeps(self, attempt: int, step: int) -> bool:
        """Whether no later start has dropped what `attempt` did at `step`."""
        return step <= self.limit(attempt)

    def counts(self, record: Record) -> bool:
        """Whether no later start has dropped `record`, which names its attempt and step."""
        return self.keeps(record["attempt"], record["step"])

    def as_json(self) -> Any:
        return [self.attempt, sorted(self._limits.items())]

    @staticmethod
    def from_json(state: Any) -> "AttemptHistory":
        history = AttemptHistory()
        history.attempt = state[0]
        history._limits = dict(state[1])
        return history


def known_starts(
    path: Path,
    starts: AttemptHistory | None = None,
    skip: Container[str] = frozenset(),
    latest: float = math.inf,
) -> AttemptHistory:
    """Adds to `starts` (default: none) those in a log of observations up to that of the attempt
    `latest`, but for the parts named in `skip`: folds that know them beforehand read the log once,
    however often it was rewound. Relies on records being compact JSON (docs/protocol.md)."""
    starts = starts or AttemptHistory()
    for found in records_with(path, START, skip):
        if found["kind"] == "start":
            starts.add(found)
        if starts.attempt >= latest:
            break
    return starts


def last_of_live(path: Path) -> Record:
    """The last record of the live part of a log of observations; empty where there is none, or
    none to be believed, as whoever reads up to there will say."""
    with suppress(FileNotFoundError, CorruptLogError):
        return last_record(path)[0] or {}
    return {}
