"""usage.<process>.jsonl: what every call of a language model cost, and what a run's variants cost
together.

`UsageLog` is handed to the client as its sink. Nobody waits for a record; a kill loses those that
were on their way to the disk. What is on record is what budgets begin with.

`costs` folds the daemon's log. Every call names its stage and the variant that pays for it
(`account`: pick, `#`, index): so an accepted variant's cost is known with all that failed on the
way to it, and with its own calls alone (004 Appendix N gives the latter).
"""

import asyncio
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from rods.buffers.log.record_bytes import now, record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import GroupCommit, LogWriter
from rods.buffers.run.runfolder import EXPANDED, usage as log_name
from rods.canonical import JsonObject
from rods.llm.records import Usage


class UsageLog:
    """The one writer of a process's log of calls: an async context manager that is called with each
    `Usage`.

    `tokens` and `requests` are what the calls on record have used, this start's included."""

    def __init__(self, run: Path, process: str, *, part_bytes: int = 0) -> None:
        """`part_bytes`: as for LogWriter."""
        self._part_bytes = part_bytes
        self.path = run / log_name(process)
        self.process = process
        self.tokens = self.requests = 0

    async def __aenter__(self) -> Self:
        self._writer = await asyncio.to_thread(self._open)
        self._commit = GroupCommit(lambda: self._writer)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            self._commit.close()
            self.check()
        finally:
            self._writer.close()

    def __call__(self, usage: Usage) -> None:
        """Takes one call down. Raises what stopped an earlier write (a full disk, for instance)."""
        fields = {"process": self.process, "time": now(), **usage.as_json()}
        self._commit.append(record("call", number=self._commit.seq + 1, **fields))
        self._add(usage.tokens_in + usage.tokens_out, usage.requests)

    def check(self) -> None:
        """Raises what stopped an earlier write, if anything did."""
        if self._commit.failure is not None:
            raise self._commit.failure

    def _open(self) -> LogWriter:
        for call in read(self.path):
            self._add(call["tokens_in"] + call["tokens_out"], call["requests"])
        return LogWriter(self.path, part_bytes=self._part_bytes)

    def _add(self, tokens: int, requests: int) -> None:
        self.tokens += tokens
        self.requests += requests


@dataclass(slots=True)
class Spent:
    """Calls, tokens, and the seconds that the last attempts took, added up over calls in flight
    side by side."""

    calls: int = 0
    failed: int = 0  # of these, without an answer
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def add(self, call: JsonObject) -> None:
        self.calls += 1
        self.failed += call["outcome"] in ("failed", "refused", "budget", "cancelled")
        self.tokens_in += call["tokens_in"]
        self.tokens_out += call["tokens_out"]
        self.seconds += call["seconds"]

    def per(self, count: int) -> dict[str, float]:
        """Each figure by `count`; nothing by zero."""
        names = ("calls", "tokens_in", "tokens_out", "seconds") if count else ()
        return {name: round(getattr(self, name) / count, 3) for name in names}


@dataclass(slots=True)
class Costs:
    """`stages`: all calls. `path`: those of accepted variants. `models`: the number of all calls by
    endpoint. `played`: the calls of models that play tasks, by role, which are none of these.
    `busy`: the seconds in which at least one call was in flight, by endpoint: what its GPUs were
    kept for."""

    accepted: int = 0
    variants: int = 0  # that any call was made for
    stages: dict[str, Spent] = field(default_factory=dict)
    path: dict[str, Spent] = field(default_factory=dict)
    models: Counter[str] = field(default_factory=Counter)
    played: dict[str, Spent] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        calls, on_path = (
            sum(spent.calls for spent in stages.values()) for stages in (self.stages, self.path)
        )
        return {
            "accepted": self.accepted,
            "variants": self.variants,
            "calls": calls,
            "calls_per_accepted": _ratio(calls, self.accepted),
            "calls_on_the_path": _ratio(on_path, self.accepted),
            "busy_seconds_per_accepted": _ratio(sum(self.busy.values()), self.accepted),
            "stages": {
                stage: {
                    "calls": spent.calls,
                    "failed": spent.failed,
                    "per_accepted": spent.per(self.accepted),
                    "on_the_path": self.path.get(stage, Spent()).per(self.accepted),
                }
                for stage, spent in self.stages.items()
            },
            "endpoints": {
                name: {"calls": count, "busy_seconds": round(self.busy[name], 1)}
                for name, count in self.models.items()
            },
            "played": {role: asdict(spent) for role, spent in self.played.items()},
        }


def costs(folder: Path) -> Costs:
    """Reads the logs of the run `folder`; all zero where no model has been asked."""
    accepted = {f"{record['pick']}#{record['index']}" for record in read(folder / EXPANDED)}
    total = Costs()
    for process in players(folder):
        for call in read(folder / log_name(process)):
            total.played.setdefault(call["stage"], Spent()).add(call)
    accounts: set[str] = set()
    spans: dict[str, list[tuple[float, float]]] = {}
    for call in read(folder / log_name("daemon")):
        accounts.add(call["account"])
        total.stages.setdefault(call["stage"], Spent()).add(call)
        if call["account"] in accepted:
            total.path.setdefault(call["stage"], Spent()).add(call)
        total.models[call["backbone"]] += 1
        spans.setdefault(call["backbone"], []).append(
            (call["time"] - call["seconds"], call["time"])
        )
    total.accepted = len(accepted & accounts)
    total.variants = len(accounts)
    total.busy = {name: covered(pieces) for name, pieces in spans.items()}
    return total


def callers(folder: Path) -> set[str]:
    """The processes with a log of calls."""
    return {file.name.split(".")[1] for file in folder.glob(log_name("*"))}


def players(folder: Path) -> list[str]:
    """Those with a log of calls of models that play: all but the daemon."""
    return sorted(callers(folder) - {"daemon"})


def covered(spans: list[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    total = 0.0
    end = float("-inf")
    for begin, finish in sorted(spans):
        total += max(0.0, finish - max(begin, end))
        end = max(end, finish)
    return total


def _ratio(number: float, count: int) -> float | None:
    return round(number / count, 2) if count else None
