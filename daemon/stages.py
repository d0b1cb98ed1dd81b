"""What the stages of the pipeline hand to each other and to the logs: typed records, and the one way to fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rods.composing.records import BoundCall, ComposeError, Draft, ErrorType
from rods.gates import Gate
from rods.tasks import Task

StageName = Literal["plan", "execute", "rewrite", "judge", "adversarial", "admission"]
# What a candidate can fail of: the twelve types of 004 Appendix E, a gate, the judge, broken machinery, or a limit on
# calls.
Failure = ErrorType | Gate | Literal["judge_rejected", "infrastructure", "budget_spent"]


@dataclass(frozen=True, slots=True)
class Job:
    """One variant to write: number `index` (from 0) of pick `pick`."""

    pick: str
    index: int
    seed: Task
    root: Task  # the original that the lineage began with
    generation: int  # the variant's own: the seed's + 1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task on its way through the gates, with the draft and the texts that it was formed from."""

    draft: Draft
    texts: tuple[str, ...]
    task: Task
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
    the next attempt may learn from."""

    def __init__(self, stage: StageName, error: Failure, evidence: Any, raw: Any = None) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage, self.error, self.evidence, self.raw = stage, error, evidence, raw
        self.cause: ComposeError | None = None

    @staticmethod
    def by(stage: StageName, error: ComposeError, raw: Mapping[str, Any]) -> Rejected:
        """With `raw` and what a model had said last, where one had."""
        said = {"said": error.said} if error.said else {}
        rejected = Rejected(stage, error.type, error.as_json(), {**raw, **said})
        rejected.cause = error
        return rejected

    def teaching(self, error: ErrorType, detail: str, turn: int | None = None) -> Rejected:
        """Itself, with a cause of the twelve types: a gate or a judge has none of its own, and the next attempt's
        planner should know what was held against this one."""
        self.cause = ComposeError(error, detail, turn=turn)
        return self


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
