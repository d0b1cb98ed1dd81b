"""The fold of feedback.jsonl and dropped.jsonl, from which the daemon continues: which failures
agents were asked about, and which texts are in force. Every question counts as an attempt, unless
no endpoint answered it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rods.buffers.audit.rederivation import Findings
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import Damage, Record
from rods.buffers.log.tail import Tail, read
from rods.buffers.run.run import Run
from rods.canonical import JsonMapping, JsonObject
from rods.family.feedback.gates import GroundTruthValues, failing, feedback_faults
from rods.family.feedback.hints import Approved, ApprovedText, failure_id
from rods.family.feedback.settings import DROPPED, FEEDBACK, by_agents, settings_of


@dataclass(slots=True)
class FeedbackCase:
    """A kind of failure that somebody was asked about. `questions` were put, `attempts` of them
    count; `objection` is what the last one that was answered met with."""

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


NOT_ASKED = FeedbackCase("", "", "", "")  # about a failure


class FeedbackFold:
    """Follows both logs."""

    def __init__(self, folder: Path, *, strict: bool = False) -> None:
        self.cases: dict[str, FeedbackCase] = {}
        self._approved: list[tuple[int, ApprovedText]] = []  # with its seq
        self._dropped: list[tuple[int, str]] = []  # with its seq
        self._tail = Tail(folder / FEEDBACK, strict=strict)
        self._drops = Tail(folder / DROPPED, strict=strict)

    @property
    def seqs(self) -> tuple[int, int]:
        """The highest seqs of the two logs below which no seq is missing among those read."""
        return self._tail.seq, self._drops.seq

    def poll(self) -> None:
        """Reads on. Drops come first: what they name is durable before them, and is there when it
        is looked up."""
        drops = list(self._drops.records())
        for record in (*self._tail.records(), *drops):
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
            case.questions = record["number"]
            case.attempts = case.attempts + 1
        elif kind == "unanswered":
            case.attempts -= 1
        elif kind == "objected":
            case.objection = record["why"]
            case.objected = record["text"]
        elif kind == "approved":
            case.state = "approved"
            case.text = record["text"]
            self._approved.append(
                (seq, ApprovedText(case.environment, case.tool, case.pattern, case.text))
            )
        else:
            case.state = "dropped" if kind == "dropped" else "given_up"
            case.why = record["why"]
            if kind == "dropped":
                self._dropped.append((seq, case.failure))

    def in_force(self, seqs: tuple[int, int], *, in_place: bool) -> Approved:
        """The texts that were approved, and not dropped, up to these seqs of the two logs."""
        gone = {failure for seq, failure in self._dropped if seq <= seqs[1]}
        texts = (
            text for seq, text in self._approved if seq <= seqs[0] and text.failure not in gone
        )
        return Approved(tuple(sorted(texts, key=lambda text: text.failure)), in_place)


class FeedbackNotes:
    """What the records that open epochs say of feedback: how far its logs were read, fixed by the
    first record of the epoch, and the version of the texts that are in force."""

    def __init__(self, run: Run, *, strict: bool = False) -> None:
        self._path = run.path
        self._in_place = settings_of(run.config).form == "in_place"
        self._fold = FeedbackFold(run.path, strict=strict)

    def files(self) -> Iterable[Path]:
        return (*segments(self._path / FEEDBACK), *segments(self._path / DROPPED))

    def poll(self) -> None:
        self._fold.poll()

    def fields(self, stage: Any, fixed: JsonMapping) -> JsonObject:
        if stage.feedback != "agents":
            return {}
        first = fixed.get("feedback")
        seqs = self._fold.seqs if first is None else (first["approved"], first["dropped"])
        texts = self._fold.in_force(seqs, in_place=self._in_place)
        note = {
            "approved": seqs[0],
            "dropped": seqs[1],
            "texts": len(texts.texts),
            "version": texts.version,
        }
        return {"feedback": note}

    def opened(self, closing: JsonMapping) -> Approved | None:
        note = closing.get("feedback")
        if note is None:
            return None
        texts = self._fold.in_force((note["approved"], note["dropped"]), in_place=self._in_place)
        if texts.version != note["version"]:
            raise Damage(
                self._path / FEEDBACK, 0, f"its texts are not those of version {note['version']}"
            )
        return texts


def notes(run: Run, strict: bool) -> FeedbackNotes | None:
    """What the records that open epochs of a run say."""
    return FeedbackNotes(run, strict=strict) if by_agents(run.config) else None


def check(run: Run, findings: Findings, replay: bool) -> None:
    """Whether every question about a failure had its turn, every answer follows its question, and
    every text its verdicts; with `replay` also whether the texts keep to the gates, beside the
    given tasks."""
    fold = FeedbackFold(run.path, strict=True)
    answered = set[str]()
    truth = GroundTruthValues(run.tasks) if replay else None
    for record in read(run.path / FEEDBACK):
        where = f"{FEEDBACK}, record {record['seq']}"
        kind = record["kind"]
        failure = record["failure"]
        case = fold.cases.get(failure, NOT_ASKED)
        if case.state != "open":
            findings.problem(
                where, f"{kind}, though failure {failure} was closed before ({case.state})"
            )
        if "pattern" in record and failure != failure_id(
            record["environment"], record["tool"], record["pattern"]
        ):
            findings.problem(where, f"failure {failure} is not that of its tool and pattern")
        if kind == "asked":
            allowed = settings_of(run.config).attempts
            if record["number"] != case.questions + 1 or case.attempts >= allowed:
                findings.problem(
                    where,
                    f"is question {record['number']} after {case.questions}, {case.attempts} of "
                    f"them attempts",
                )
            answered.discard(failure)
        elif "number" in record:
            open_now = case is not NOT_ASKED and failure not in answered
            if not open_now or record["number"] != case.questions:
                findings.problem(
                    where, f"{kind} answers question {record['number']}, which was not open"
                )
            answered.add(failure)
        fold.apply(record, record["seq"])
        if kind == "approved" and case is not NOT_ASKED:
            findings.count("texts of feedback")
            if against := failing(record["judge"]):
                findings.problem(where, f"was approved against the judge: {', '.join(against)}")
            if truth is not None:
                environment = run.environments.load(case.environment)
                tools = environment.tools()
                other = tools.get(record["remedy"]["tool"])
                about = environment, tools[case.tool], other, case.pattern, record["text"]
                doubts = settings_of(run.config).doubts == "refuse"
                faults = feedback_faults(*about, truth, doubts)
                for fault in faults:
                    findings.problem(where, f"its text does not pass the gates: {fault}")
