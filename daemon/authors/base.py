"""The contract between the pipeline and whoever writes: kinds of tasks, their authors, and how an
attempt ends: in a candidate, or a typed `Rejection`.

A `TaskKind` says which tasks it is of, who writes a variant, and what the gates ask of one. A
variant is written whole (`WholeAuthor`), or through the stages of 004 (`StagedAuthor`, a method
each); methods are asynchronous, so that a model behind an endpoint fits as well as a pure function
in a thread.

An author decides nothing about order, retries or gates: that is `rods.daemon.pipeline`. What it
cannot do it reports as a `ComposeError` of one of the types of 004 Appendix E; broken machinery
(`InfrastructureError`, `EndpointError`, `BudgetSpent`) passes through any method. Every random
choice is keyed by the assignment."""

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from rods.analysis.profile import Profile
from rods.canonical import JsonMapping, JsonObject, Texts, frozen, keyed_random
from rods.composing.records import BoundCall, ComposeError, Draft, Picklable, Plan
from rods.config import Gates
from rods.daemon.authors.state_shapes import State
from rods.environments.base import Environment, Results
from rods.faults import ERROR_OF_VERDICT, Defect, Failure, GateRejection, Reason, verdict_of_gate
from rods.gates.ground_truth import Checked
from rods.gates.similarity import SimilarityIndex
from rods.tasks import AnyTask, OpenTask, Task, TaskType

T = TypeVar("T")
V = TypeVar("V", bound=AnyTask)
StageName = Literal["plan", "execute", "rewrite", "judge", "adversarial", "admission"]
NO_CALLS = Profile("base", ())


@frozen
class Assignment(Generic[V]):
    """Attempt number `attempt` (from 1) at variant `index` (from 0) of `pick`, as its author is
    given it, here or in another process.

    `root` is the original that its seed goes back to. `failures` and `blocked` are what went wrong
    so far with this variant (004 Appendix F): structured errors and the cumulative blocklist of
    functions; both stay empty in blind retry. `limits` are what the gates hold a variant to; `same`
    says that it is to use the functions that its seed does, and not others, `narrative` that a
    story is to tie its turns together. `profile` is that of the root's ground-truth calls, with
    the type to write. `plan_number` counts the plans of this attempt. `objection` is what was
    found wrong with the texts that its last form has put in place of one turn's."""

    pick: str
    index: int
    seed: V
    root: V
    generation: int  # the variant's own: the seed's + 1
    attempt: int = 1
    failures: tuple[ComposeError, ...] = ()
    blocked: frozenset[str] = frozenset()
    # what the run's configuration says
    random_seed: int = 0  # of the daemon
    limits: Gates = field(default_factory=Gates)
    same: bool = False
    narrative: bool = True
    profile: Profile = NO_CALLS
    plan_number: int = 0
    draft: Draft | None = None  # what is to be said, if it is settled
    objection: str = ""

    def __str__(self) -> str:
        return f"{self.pick}/{self.index}/{self.attempt}"

    @property
    def key(self) -> tuple[int, str, int, int]:
        """What its chance is keyed by."""
        return self.random_seed, self.pick, self.index, self.attempt

    def after(self, error: ComposeError, *, blocks: bool = True) -> "Assignment[V]":
        """The assignment of whoever learns from `error`, which blocks its functions or not."""
        if error in self.failures:
            return self
        blocked = self.blocked.union(error.functions if blocks else ())
        return replace(self, failures=(*self.failures, error), blocked=blocked)

    def shown(self, usual: int) -> int:
        """The most tools that the variant shows where `usual` are shown otherwise: no more than its
        seed shows, so that the choice among them is as hard."""
        return min(usual, len(self.seed.tools))

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator, the same for the same attempt, plan and purpose: a plan that is
        executed again in a patched state makes the same choices."""
        seed, pick, index, attempt = self.key
        return keyed_random(seed, "author", pick, index, attempt, self.plan_number, purpose)


# of a task with ground-truth calls, whose variants go through the stages
StagedAssignment = Assignment[Task]


@frozen
class Judgement:
    """Accepted when there are no defects; `reason` is recorded either way."""

    reason: str
    defects: tuple[Defect, ...] = ()


class Author(Protocol):
    """Who writes variants. `name` is recorded as the model, `hashes` as those of the prompts or
    texts used."""

    @property
    def name(self) -> str: ...

    @property
    def hashes(self) -> Mapping[str, str]: ...


@runtime_checkable
class WholeAuthor(Author, Protocol):
    """Who writes a variant in one step."""

    async def write(self, environment: Environment, assignment: Assignment[OpenTask]) -> OpenTask:
        """The variant of a seed of `environment`, with what its kind reads in its provenance.
        Raises ComposeError, and what machinery raises."""


class StagedAuthor(Author, Protocol):
    """Who writes tasks with ground-truth calls, through the stages."""

    async def plan(self, assignment: StagedAssignment) -> Plan:
        """Stage I: functions in the root's shape without blocked ones, and the story that ties
        them."""

    async def initial_state(self, assignment: StagedAssignment, plan: Plan) -> JsonObject:
        """Stage II: a new world in which the plan can be executed."""

    async def execute(self, assignment: StagedAssignment, plan: Plan, state: State) -> Draft:
        """Stage II: arguments bound and executed call by call in a fresh instance."""

    async def patch(
        self, assignment: StagedAssignment, plan: Plan | None, state: State, error: ComposeError
    ) -> JsonObject | None:
        """The error critic: `state` with the smallest change that may mend `error`, or None.
        Without a `plan` the planner failed: `state` is the seed's, and what is changed holds for
        states to come."""

    async def queries(self, assignment: StagedAssignment, draft: Draft) -> Texts:
        """Stage II: one query a turn, each written for itself; what is used where the rewrite is
        switched off."""

    async def rewrite(self, assignment: StagedAssignment, draft: Draft) -> Texts:
        """Stage III: all turns at once, tied together by the plan's narrative where it has one."""

    async def reword(
        self, assignment: StagedAssignment, draft: Draft, texts: Texts, defect: Defect
    ) -> Texts:
        """Stage IV's refinement: the turn of `defect` in new words, the others as they are."""

    async def form(
        self, assignment: StagedAssignment, draft: Draft, texts: Texts, type: TaskType
    ) -> Task:
        """The draft as a task: in the plain form (`base`), and in stage V in the form of the wanted
        type. Provenance records the `results` of its calls, one list of texts a turn: the gates'
        run has to give them again."""

    async def judge(
        self,
        assignment: StagedAssignment,
        draft: Draft,
        task: Task,
        results: Results | None = None,
        doubts: Sequence[Reason] = (),
    ) -> Judgement:
        """Stage IV's last gate, asked of the last form, or of both. `results`: of the gates' run
        (None: it did not run). `doubts`: what gates hold against the words, and only a reader can
        settle; there are some only where a model writes."""


@frozen
class Asking:
    """What a kind is given when it says who writes. Authors compute in `threads`. `staged` is the
    run's author of tasks with ground-truth calls, a language model or rules: of an environment's
    variant, by pick and index. `hashes` are those of all prompts or texts that such an author may
    use."""

    threads: Executor
    staged: Callable[[Environment, str, int], StagedAuthor]
    hashes: Callable[[Environment], Mapping[str, str]]


class TaskKind(ABC, Generic[V]):
    """One kind of tasks that variants can be written of. The daemon has one object of each kind for
    its life."""

    @abstractmethod
    def matches(self, task: AnyTask) -> bool:
        """Whether `task` is of this kind."""

    @abstractmethod
    def author(
        self, asking: Asking, environment: Environment, seed: V, pick: str, index: int
    ) -> Author:
        """Who writes variant `index` of `pick`: a `WholeAuthor` or a `StagedAuthor`. Raises
        ComposeError("no_prompts") where nobody can write for this environment."""

    @abstractmethod
    def check(
        self,
        environment: Environment,
        assignment: Assignment[V],
        task: V,
        gates: Gates,
        held_out: SimilarityIndex,
    ) -> Checked:
        """What the gates that are on say of a variant of a seed of `environment`; near duplicates
        are refused elsewhere. Runs in a thread. Raises InfrastructureError where a world or a
        player broke."""

    def hashes(
        self, asking: Asking, environment: Callable[[], Environment], seed: V
    ) -> Mapping[str, str]:
        """Those of all prompts or texts that may be used for variants of `seed`. Raises
        ComposeError as `author`."""
        return self.author(asking, environment(), seed, "", 0).hashes

    def close(self) -> None:
        """Gives back what the kind holds."""
        return


@frozen
class FormedTask:
    """A task that the gates accept, with the texts that it was formed from."""

    texts: Texts
    task: Task
    checked: Checked
    reason: str = "not judged"  # the judge's


class Rejection(Picklable):
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

    @staticmethod
    def by(stage: StageName, error: ComposeError, raw: JsonMapping) -> "Rejection":
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
        calls = draft.turns if draft else ()
        # what is asked for in vain is made in the next turn
        vain = {turn + 1 for turn in turns.intersection(range(len(calls))) if not calls[turn]}
        involved = (
            draft.functions((turns | vain).intersection(range(len(calls))) or None) if draft else ()
        )
        cause = ComposeError(
            ERROR_OF_VERDICT[worst[0].verdict], summary, functions=involved, turn=worst[0].turn
        )
        by_turn: dict[int | None, list[str]] = {}
        for defect in () if deep else defects:
            by_turn.setdefault(defect.turn, []).append(defect.reason)
        return Rejection(
            stage,
            error,
            evidence,
            raw,
            cause=cause,
            wordings=[
                Defect("query_fixable", "; ".join(reasons), turn)
                for turn, reasons in by_turn.items()
            ],
        )


@frozen
class Attempted(Generic[V]):
    """The candidate that is to be admitted, or why there is none. `failed`: the candidates that
    failed on the way, in order."""

    outcome: V | Rejection
    failed: tuple[Rejection, ...] = ()


class Places(Protocol):
    """Where attempts are made if not in the daemon's threads, and gates run of what models write
    (`rods.daemon.compute.Compute`)."""

    async def attempt(self, assignment: Assignment[V]) -> Attempted[V]:
        """What comes of an attempt of an author that only computes. Raises InfrastructureError."""

    async def checked(self, task: Task, profile: Profile, gates: Gates) -> Checked:
        """What the gates that are on say of `task`, which was to have this profile. Raises
        InfrastructureError."""


def without_empty_turns(draft: Draft) -> Draft:
    """The draft without the turns in which no call is right: what stage IV judges before stage V
    breaks it."""
    numbers = [turn for turn, calls in enumerate(draft.turns) if calls]
    if len(numbers) == len(draft.turns):
        return draft
    place = {turn: index for index, turn in enumerate(numbers)}

    def moved(bound: BoundCall) -> BoundCall:
        return replace(
            bound,
            flows={
                argument: flow
                if flow.origin is None
                else replace(flow, origin=(place[flow.origin[0]], flow.origin[1]))
                for argument, flow in bound.flows.items()
            },
        )

    return replace(
        draft,
        plan=replace(draft.plan, turns=tuple(draft.plan.turns[turn] for turn in numbers)),
        turns=tuple(tuple(map(moved, draft.turns[turn])) for turn in numbers),
    )


def with_blanks(draft: Draft, texts: Texts) -> Texts:
    """The texts of `without_empty_turns(draft)` as texts of `draft`: "" where no call is right."""
    rest = iter(texts)
    return tuple(next(rest) if calls else "" for calls in draft.turns)


def with_calls(draft: Draft, change: Callable[[int, int, BoundCall], BoundCall]) -> Draft:
    """The draft with what `change` makes of each call, given its turn and its place there."""
    turns = (
        tuple(change(turn, *placed) for placed in enumerate(calls))
        for turn, calls in enumerate(draft.turns)
    )
    return replace(draft, turns=tuple(turns))


def in_thread(threads: Executor, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """`function(*arguments)`, computed in one of `threads`, so that no seed holds up the others."""
    return asyncio.get_running_loop().run_in_executor(threads, function, *arguments)
