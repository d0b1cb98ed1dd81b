"""What the stages of the pipeline hand to each other and to the logs: typed records, and how an attempt fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from daemon.authors.base import Author, Defect, Judgement
from daemon.authors.drawn import DrawnAuthor
from daemon.authors.scenarios import ScenarioAuthor
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.faults import ERROR_OF_VERDICT, Failure, verdict_of_gate
from rods.gates.records import Checked, GateRejection
from rods.tasks import AnyTask, Task

StageName = Literal["plan", "execute", "rewrite", "judge", "adversarial", "admission"]


V = TypeVar("V", bound=AnyTask)
AnyAuthor = Author | DrawnAuthor | ScenarioAuthor


@dataclass(frozen=True, slots=True)
class VariantJob(Generic[V]):
    """One variant to write: number `index` (from 0) of pick `pick`."""

    pick: str
    index: int
    seed: V
    root: V  # the original that the lineage began with
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
    """Ends an attempt: the candidate is at fault, not the machinery. `cause` is the structured error that the next
    attempt may learn from. `wordings` are its defects, one a turn, where all of them lie in words."""

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
        self.stage, self.error, self.evidence, self.raw = stage, error, evidence, raw
        self.cause, self.wordings = cause, tuple(wordings)

    @staticmethod
    def by(stage: StageName, error: ComposeError, raw: Mapping[str, Any]) -> Rejected:
        """With `raw` and what a model had said last, where one had."""
        said = {"said": error.said} if error.said else {}
        return Rejected(stage, error.type, error.as_json(), {**raw, **said}, cause=error)

    @staticmethod
    def at_gates(stage: StageName, closed: Sequence[GateRejection], raw: Any) -> Rejected:
        defects = [
            Defect(verdict_of_gate(one.gate), f"{one.gate}: {reason.text}", reason.turn)
            for one in closed
            for reason in one.reasons
        ]
        return Rejected._of(stage, closed[0].gate, [one.as_json() for one in closed], raw, defects)

    @staticmethod
    def by_judge(stage: StageName, judgement: Judgement, raw: Any) -> Rejected:
        defects = judgement.defects
        evidence = [{"verdict": each.verdict, "turn": each.turn, "reason": each.reason} for each in defects]
        return Rejected._of(stage, "judge_rejected", evidence, raw, defects)

    @staticmethod
    def _of(stage: StageName, error: Failure, evidence: Any, raw: Any, defects: Sequence[Defect]) -> Rejected:
        deep = [defect for defect in defects if defect.verdict == "gt_unfixable"]
        worst = deep or defects
        told = "; ".join(defect.reason for defect in worst)
        cause = ComposeError(ERROR_OF_VERDICT[worst[0].verdict], told, turn=worst[0].turn)
        return Rejected(stage, error, evidence, raw, cause=cause, wordings=() if deep else _by_turn(defects))


def _by_turn(defects: Sequence[Defect]) -> list[Defect]:
    """One defect a turn, with all that is held against it."""
    turns = dict.fromkeys(defect.turn for defect in defects)
    told = {turn: "; ".join(defect.reason for defect in defects if defect.turn == turn) for turn in turns}
    return [Defect("query_fixable", told[turn], turn) for turn in turns]


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
