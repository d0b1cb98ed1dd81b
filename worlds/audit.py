"""`rods data audit FILE`: near duplicates among the tasks of a file, and between it and other files.

A training task that matches a held-out one would teach what is to be measured. Inside one file that is how the data
were given: listed, no fault. Between files it is a leak.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rods.canonical import canonical
from rods.gates.similarity import Match, SimilarityIndex, held_out_index
from rods.tasks import HELD_OUT_SPLITS, AnyTask, Task

LISTED = 20  # pairs of a kind, in the lines for a terminal


@dataclass(frozen=True, slots=True)
class Pair:
    """A task of the file and one that it matches, by these rules; `file` when that one stands elsewhere."""

    task: str
    other: str
    rules: tuple[str, ...]
    file: str = ""

    def as_json(self) -> dict[str, Any]:
        place = {"file": self.file} if self.file else {}
        return {"task": self.task, "other": self.other, "rules": list(self.rules), **place}


@dataclass(frozen=True, slots=True)
class Audit:
    """`overlaps` are training tasks of the file that match its own held-out tasks, `duplicates` tasks of one side that
    match an earlier one of the same side; `leaks` training tasks that match held-out tasks of other files, `repeats`
    tasks that match training tasks there. `turns[type]`: held-out turns of several calls, and how many of them make
    the calls of a training turn of that type. `names` are ids in words, where tasks have some."""

    subject: str
    tasks: int
    held_out: int
    overlaps: tuple[Pair, ...]
    duplicates: tuple[Pair, ...]
    turns: Mapping[str, tuple[int, int]]
    leaks: tuple[Pair, ...]
    repeats: tuple[Pair, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Overlaps and duplicates inside the file are listed, a leak is a fault."""
        return not self.leaks

    def as_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "tasks": self.tasks,
            "held_out": self.held_out,
            "turns": {kind: {"held_out": number, "twins": twins} for kind, (number, twins) in self.turns.items()},
            **{
                kind: [pair.as_json() for pair in getattr(self, kind)]
                for kind in ("overlaps", "duplicates", "leaks", "repeats")
            },
        }

    def lines(self) -> list[str]:
        """What a person reads: counts, and under each the first pairs."""
        twins = ", ".join(f"{kind} {twins} of {number}" for kind, (number, twins) in self.turns.items())
        return [
            f"{self.subject}: {self.tasks} tasks, {self.held_out} of them held out",
            *self._listed("held-out tasks that a training task of the file matches", self.overlaps),
            *([f"held-out turns of several calls that a training turn makes, too: {twins}"] if twins else []),
            *self._listed("near duplicates inside a side of the split", self.duplicates),
            *self._listed("LEAKS: held-out tasks of other files that a training task matches", self.leaks),
            *self._listed("training tasks of other files that a task matches", self.repeats),
        ]

    def _listed(self, what: str, pairs: Sequence[Pair]) -> Iterator[str]:
        rules = Counter(rule.partition(" ")[0] for pair in pairs for rule in dict.fromkeys(pair.rules))
        told = f" ({', '.join(f'{rule} {count}' for rule, count in rules.items())})" if rules else ""
        yield f"{what}: {len({pair.other for pair in pairs})}{told}"
        for pair in pairs[:LISTED]:
            names = (self.names.get(task, task) for task in (pair.task, pair.other))
            yield f"  {' ~ '.join(names)}: {', '.join(pair.rules)}{f' [{pair.file}]' if pair.file else ''}"
        if len(pairs) > LISTED:
            yield f"  … and {len(pairs) - LISTED} more (--json has all)"


def audit(tasks: Sequence[AnyTask], against: Sequence[tuple[str, Sequence[AnyTask]]], subject: str) -> Audit:
    """Compares `tasks` with each other, and with those of the other files (by name) in `against`."""
    training = [task for task in tasks if task.split not in HELD_OUT_SPLITS]
    held_out = [task for task in tasks if task.split in HELD_OUT_SPLITS]
    own = held_out_index(tasks)
    duplicates: list[Pair] = []
    for side in (training, held_out):
        index = SimilarityIndex()
        for task in side:
            duplicates += _pairs(task, index.matches(task))
            index.add(task)
    leaks: list[Pair] = []
    repeats: list[Pair] = []
    for name, others in against:
        measured = held_out_index(others)
        taught = SimilarityIndex(other for other in others if other.split not in HELD_OUT_SPLITS)
        for task in training:
            leaks += _pairs(task, _matches(measured, task), name)
        for task in tasks:
            repeats += _pairs(task, _matches(taught, task), name)
    everybody = [*tasks, *(other for _, others in against for other in others)]
    return Audit(
        subject,
        len(tasks),
        len(held_out),
        tuple(pair for task in training for pair in _pairs(task, own.matches(task))),
        tuple(duplicates),
        _twin_turns(training, held_out),
        tuple(leaks),
        tuple(repeats),
        {task.id: str(task.provenance["id"]) for task in everybody if "id" in task.provenance},
    )


def _pairs(task: AnyTask, matches: Iterable[Match], file: str = "") -> list[Pair]:
    """The matches of a task, one pair a partner."""
    rules: dict[str, list[str]] = {}
    for match in matches:
        turn = "" if match.turn is None else f" of turn {match.turn}"
        rules.setdefault(match.other, []).append(f"{match.rule}{turn}")
    return [Pair(task.id, other, tuple(matched), file) for other, matched in rules.items()]


def _matches(index: SimilarityIndex, task: AnyTask) -> list[Match]:
    """All matches; a task that stands in `index` itself matches itself, too."""
    return ([Match("ground_truth", task.id)] if task.id in index else []) + list(index.matches(task))


def _twin_turns(training: Sequence[AnyTask], held_out: Sequence[AnyTask]) -> dict[str, tuple[int, int]]:
    """By type: the held-out turns of more than one call, and those whose calls a training turn makes one by one."""
    known = {(task.type, calls) for task in training for calls in _several(task)}
    turns: dict[str, tuple[int, int]] = {}
    for task in held_out:
        number, twins = turns.get(task.type, (0, 0))
        calls = _several(task)
        turns[task.type] = number + len(calls), twins + sum((task.type, turn) in known for turn in calls)
    return turns


def _several(task: AnyTask) -> list[bytes]:
    truth = task.calls if isinstance(task, Task) else ()
    return [canonical([call.as_json() for call in calls]) for calls in truth if len(calls) > 1]
