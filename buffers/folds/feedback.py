"""The fold of feedback.jsonl and dropped.jsonl: which failures agents were asked about, and which texts are in force.

The daemon continues from it after a start: what was approved or given up is never asked about again, and every question
that was put counts as an attempt, answered or not, unless the record says that no endpoint answered it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from buffers.log.records import Record
from buffers.log.tail import Tail
from buffers.run.runfolder import DROPPED, FEEDBACK
from rods.interfaces.approved import Approved, ApprovedText


@dataclass(slots=True)
class FeedbackCase:
    """A kind of failure that somebody was asked about. `questions` were put, `attempts` of them count; `objection` is
    what the last one that was answered met with."""

    failure: str
    environment: str
    tool: str
    pattern: str
    questions: int = 0
    attempts: int = 0
    objection: str = ""
    objected: str = ""  # the text that was objected to
    state: Literal["open", "approved", "given_up", "dropped"] = "open"
    text: str = ""
    why: str = ""  # why it was given up or dropped

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class FeedbackFold:
    """Follows both logs."""

    def __init__(self, folder: Path, *, strict: bool = False) -> None:
        self.cases: dict[str, FeedbackCase] = {}
        self._approved: list[tuple[int, ApprovedText]] = []  # with its seq
        self._dropped: list[tuple[int, str]] = []  # with its seq
        self._tail, self._drops = Tail(folder / FEEDBACK, strict=strict), Tail(folder / DROPPED, strict=strict)

    @property
    def seqs(self) -> tuple[int, int]:
        """The highest seqs of the two logs below which no seq is missing among those read."""
        return self._tail.seq, self._drops.seq

    def poll(self) -> None:
        """Reads on. Drops come first: what they name is durable before them, and is there when it is looked up."""
        drops = list(self._drops.records())
        for record in self._tail.records():
            self.apply(record, record["seq"])
        for record in drops:
            self.apply(record, record["seq"])

    def apply(self, record: Record, seq: int) -> None:
        kind = record["kind"]
        if kind not in ("asked", "unanswered", "objected", "approved", "given_up", "dropped"):
            return
        case = self.cases.get(record["failure"])
        if case is None:
            names = (record.get(name, "") for name in ("failure", "environment", "tool", "pattern"))
            case = self.cases[record["failure"]] = FeedbackCase(*names)
        if kind == "asked":
            case.questions, case.attempts = record["number"], case.attempts + 1
        elif kind == "unanswered":
            case.attempts -= 1
        elif kind == "objected":
            case.objection, case.objected = record["why"], record["text"]
        elif kind == "approved":
            case.state, case.text = "approved", record["text"]
            self._approved.append((seq, ApprovedText(case.environment, case.tool, case.pattern, case.text)))
        else:
            case.state, case.why = ("dropped" if kind == "dropped" else "given_up"), record["why"]
            if kind == "dropped":
                self._dropped.append((seq, case.failure))

    def in_force(self, seqs: tuple[int, int], *, in_place: bool) -> Approved:
        """The texts that were approved, and not dropped, up to these seqs of the two logs."""
        gone = {failure for seq, failure in self._dropped if seq <= seqs[1]}
        texts = (text for seq, text in self._approved if seq <= seqs[0] and text.failure not in gone)
        return Approved(tuple(sorted(texts, key=lambda one: one.failure)), in_place)
