"""What the stages of the pipeline hand to each other and to the logs: typed records, and the one way to fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from daemon.authors.base import Fault, Judgement
from rods.composing.records import BoundCall, ComposeError, Draft, ErrorType
from rods.gates import OF_WORDS, Checked, Gate, GateRejection, Reason
from rods.tasks import Task

StageName = Literal["plan", "execute", "rewrite", "judge", "adversarial", "admission"]
# What a candidate can fail of: the twelve types of 004 Appendix E, a gate, the judge, broken machinery, or a limit on
# calls.
Failure = ErrorType | Gate | Literal["judge_rejected", "infrastructure", "budget_spent"]


@dataclass(frozen=True, slots=True)
class VariantJob:
    """One variant to write: number `index` (from 0) of pick `pick`."""

    pick: str
    index: int
    seed: Task
    root: Task  # the original that the lineage began with
    generation: int  # the variant's own: the seed's + 1


@dataclass(frozen=True, slots=True)
class FormedTask:
    """A task that the gates accept, with the draft and the texts that it was formed from."""

    draft: Draft
    texts: tuple[str, ...]
    task: Task
    checked: Checked
    reason: str = "not judged"  # the judge's


@dataclass(frozen=True, slots=True)
class Rejection:
    """One failed candidate, as rejected.jsonl keeps it. `raw` is what had been written so far."""

    stage: StageName
    error: Failure
    evidence: Any
    attempt: int
    raw: str = ""


class Rejected(Exception):
    """Ends an attempt: a verdict on a candidate, not a fault of the machinery. `cause` is the structured error that
    the next attempt may learn from. `wordings` are its faults where all of them lie in words, one a turn."""

    def __init__(
        self,
        stage: StageName,
        error: Failure,
        evidence: Any,
        raw: Any = None,
        *,
        cause: ComposeError | None = None,
        wordings: Sequence[Fault] = (),
    ) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage, self.error, self.evidence, self.raw = stage, error, evidence, raw
        self.cause, self.wordings = cause, tuple(wordings)

    @staticmethod
    def by(stage: StageName, error: ComposeError, raw: Mapping[str, Any]) -> Rejected:
        """With `raw` and what a model had said last, where one had."""
        said = {"said": error.said} if error.said else {}
        return Rejected(stage, error.type, error.as_json(), {**raw, **said}, cause=error)

    @staticmethod
    def at_gates(stage: StageName, closed: Sequence[GateRejection], raw: Any) -> Rejected:
        faults = [_gate_fault(one.gate, reason) for one in closed for reason in one.reasons]
        return Rejected._of(stage, closed[0].gate, [one.as_json() for one in closed], raw, faults)

    @staticmethod
    def by_judge(stage: StageName, judgement: Judgement, raw: Any) -> Rejected:
        faults = judgement.faults
        evidence = [{"verdict": fault.verdict, "turn": fault.turn, "reason": fault.reason} for fault in faults]
        return Rejected._of(stage, "judge_rejected", evidence, raw, faults)

    @staticmethod
    def _of(stage: StageName, error: Failure, evidence: Any, raw: Any, faults: Sequence[Fault]) -> Rejected:
        deep = [fault for fault in faults if fault.verdict == "gt_unfixable"]
        told = "; ".join(fault.reason for fault in deep or faults)
        type: ErrorType = "conversation_construct_failed" if deep else "query_verify_failed"
        cause = ComposeError(type, told, turn=(deep or faults)[0].turn)
        return Rejected(stage, error, evidence, raw, cause=cause, wordings=() if deep else _by_turn(faults))


def _gate_fault(gate: Gate, reason: Reason) -> Fault:
    return Fault("query_fixable" if gate in OF_WORDS else "gt_unfixable", f"{gate}: {reason.text}", reason.turn)


def _by_turn(faults: Sequence[Fault]) -> list[Fault]:
    """One fault a turn, with all that is held against it."""
    turns = dict.fromkeys(fault.turn for fault in faults)
    told = {turn: "; ".join(fault.reason for fault in faults if fault.turn == turn) for turn in turns}
    return [Fault("query_fixable", told[turn], turn) for turn in turns]


def plain(draft: Draft) -> Draft:
    """The draft without the turns in which no call is right: what stage IV judges before stage V breaks it."""
    kept = [turn for turn, calls in enumerate(draft.turns) if calls]
    if len(kept) == len(draft.turns):
        return draft
    place = {turn: index for index, turn in enumerate(kept)}
    plan = replace(draft.plan, turns=tuple(draft.plan.turns[turn] for turn in kept))
    return replace(
        draft, plan=plan, turns=tuple(tuple(_moved(bound, place) for bound in draft.turns[turn]) for turn in kept)
    )


def with_blanks(draft: Draft, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The texts of `plain(draft)` as texts of `draft`: "" where no call is right."""
    rest = iter(texts)
    return tuple(next(rest) if calls else "" for calls in draft.turns)


def _moved(bound: BoundCall, place: Mapping[int, int]) -> BoundCall:
    flows = {
        argument: flow if flow.origin is None else replace(flow, origin=(place[flow.origin[0]], flow.origin[1]))
        for argument, flow in bound.flows.items()
    }
    return replace(bound, flows=flows)
