"""What the stages of the pipeline hand to each other and to the logs: typed records, and how an
attempt fails."""

import copyreg
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rods.composing.records import BoundCall, ComposeError, Draft
from rods.daemon.authors.base import Judgement
from rods.faults import ERROR_OF_VERDICT, Failure, verdict_of_gate
from rods.gates.records import Checked, Defect, GateRejection
from rods.tasks import Task

StageName = Literal["plan", "execute", "rewrite", "judge", "adversarial", "admission"]


@dataclass(frozen=True, slots=True)
class FormedTask:
    """A task that the gates accept, with the texts that it was formed from."""

    texts: tuple[str, ...]
    task: Task
    checked: Checked
    reason: str = "not judged"  # the judge's


class Rejection(Exception):
    """A failed candidate, which ends an attempt: it is at fault, not the machinery. rejected.jsonl
    keeps stage, error, evidence, attempt and `raw`, what had been written so far. `cause` is the
    structured error that the next attempt may learn from, where this one `ends` an attempt or a
    plan. `wordings` are its defects, one a turn, where all of them lie in words."""

    def __init__(
        self,
        stage: StageName,
        error: Failure,
        evidence: Any,
        raw: Any = None,
        *,
        cause: ComposeError | None = None,
        wordings: Sequence[Defect] = (),
    ) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage = stage
        self.error = error
        self.evidence = evidence
        self.attempt = 0
        self.raw = "" if raw is None else json.dumps(raw, sort_keys=True, default=str)
        self.cause = cause
        self.wordings = tuple(wordings)
        self.ends = True  # False: a turn of the candidate is said anew

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    @staticmethod
    def by(stage: StageName, error: ComposeError, raw: Mapping[str, Any]) -> "Rejection":
        """With `raw` and what a model had said last, where one had."""
        last_words = {"said": error.said} if error.said else {}
        return Rejection(stage, error.type, error.as_json(), {**raw, **last_words}, cause=error)

    @staticmethod
    def at_gates(
        stage: StageName, closed: Sequence[GateRejection], draft: Draft | None, raw: Any
    ) -> "Rejection":
        reasons = ((rejection.gate, reason) for rejection in closed for reason in rejection.reasons)
        defects = [
            Defect(verdict_of_gate(gate), f"{gate}: {reason.text}", reason.turn)
            for gate, reason in reasons
        ]
        return Rejection._of(
            stage, closed[0].gate, [gate.as_json() for gate in closed], draft, raw, defects
        )

    @staticmethod
    def by_judge(stage: StageName, judgement: Judgement, draft: Draft, raw: Any) -> "Rejection":
        defects = judgement.defects
        evidence = [
            {"verdict": defect.verdict, "turn": defect.turn, "reason": defect.reason}
            for defect in defects
        ]
        return Rejection._of(stage, "judge_rejected", evidence, draft, raw, defects)

    @staticmethod
    def _of(
        stage: StageName,
        error: Failure,
        evidence: Any,
        draft: Draft | None,
        raw: Any,
        defects: Sequence[Defect],
    ) -> "Rejection":
        deep = [defect for defect in defects if defect.verdict == "gt_unfixable"]
        worst = deep or defects
        summary = "; ".join(defect.reason for defect in worst)
        # none: it is about the whole
        turns = {defect.turn for defect in worst if defect.turn is not None}
        involved = (
            draft.functions(turns.intersection(range(len(draft.turns))) or None) if draft else ()
        )
        cause = ComposeError(
            ERROR_OF_VERDICT[worst[0].verdict], summary, functions=involved, turn=worst[0].turn
        )
        by_turn: dict[int | None, list[str]] = {}
        for defect in () if deep else defects:
            by_turn.setdefault(defect.turn, []).append(defect.reason)
        wordings = [
            Defect("query_fixable", "; ".join(reasons), turn) for turn, reasons in by_turn.items()
        ]
        return Rejection(stage, error, evidence, raw, cause=cause, wordings=wordings)


def plain(draft: Draft) -> Draft:
    """The draft without the turns in which no call is right: what stage IV judges before stage V
    breaks it."""
    numbers = [turn for turn, calls in enumerate(draft.turns) if calls]
    if len(numbers) == len(draft.turns):
        return draft
    place = {turn: index for index, turn in enumerate(numbers)}

    def moved(bound: BoundCall) -> BoundCall:
        flows = {
            argument: flow
            if flow.origin is None
            else replace(flow, origin=(place[flow.origin[0]], flow.origin[1]))
            for argument, flow in bound.flows.items()
        }
        return replace(bound, flows=flows)

    plan = replace(draft.plan, turns=tuple(draft.plan.turns[turn] for turn in numbers))
    return replace(
        draft, plan=plan, turns=tuple(tuple(map(moved, draft.turns[turn])) for turn in numbers)
    )


def with_blanks(draft: Draft, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The texts of `plain(draft)` as texts of `draft`: "" where no call is right."""
    rest = iter(texts)
    return tuple(next(rest) if calls else "" for calls in draft.turns)
