"""From a seed to a variant: five stages, gates, a judge, and attempts that learn from each other
(004 §3.3, D–G).

    I plan → II execute (mend the state or replan) → III rewrite → IV gates, judge, one refinement
    → V adversarial form, gates and judge again → admission

Where a kind of task has no stages, its variants are written whole, the gates judge, and they are
admitted.

An attempt ends with a candidate or with a `Rejection`; the next one knows the errors so far and the
functions that they named (`pipeline.feedback`), or nothing (blind retry). Whatever fails is
reported with stage, type, evidence and what had been written. Nothing that goes wrong inside a seed
leaves this module, cancellation excepted."""

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from rods.analysis.profile import Profile, distance, profile
from rods.canonical import JsonMapping, JsonObject, Texts
from rods.composing.records import ComposeError, Draft, Plan
from rods.config import Config, Gates
from rods.daemon.authors.base import (
    Asking,
    Assignment,
    Attempted,
    Author,
    FormedTask,
    Places,
    Rejection,
    StagedAssignment,
    StagedAuthor,
    StageName,
    T,
    TaskKind,
    V,
    WholeAuthor,
    in_thread,
    with_blanks,
    without_empty_turns,
)
from rods.environments.base import Environment
from rods.errors import BudgetSpent, InfrastructureError, UserError
from rods.faults import FINAL, OF_WORDS, PATCHABLE, GateRejection, Reason
from rods.gates import check
from rods.gates.ground_truth import Checked, Room, abridged, brief
from rods.gates.similarity import SimilarityIndex
from rods.tasks import AnyTask, OpenTask, Task, TaskType

# what stage IV judges as it is; the others are made in stage V
PLAIN: tuple[TaskType, ...] = ("base", "long_context")
REMEMBERED = 4096  # profiles of roots kept


class TasksWithCalls(TaskKind[Task]):
    """Tasks whose ground truth is a list of calls a turn: variants go through the stages (004)."""

    def matches(self, task: AnyTask) -> bool:
        return isinstance(task, Task)

    def author(
        self, asking: Asking, environment: Environment, seed: Task, pick: str, index: int
    ) -> StagedAuthor:
        return asking.staged(environment, pick, index)

    def check(
        self,
        environment: Environment,
        assignment: StagedAssignment,
        task: Task,
        gates: Gates,
        held_out: SimilarityIndex,
    ) -> Checked:
        """The only fresh run of the ground truth: it has to give the results that the author
        recorded, and judge and provenance go on from what it gave."""
        return check(environment, task, assignment.profile, gates, held_out)

    def hashes(
        self, asking: Asking, environment: Callable[[], Environment], seed: Task
    ) -> Mapping[str, str]:
        return asking.hashes(environment())


STAGED = (TasksWithCalls(),)


@dataclass
class Pipeline:
    """The stages under one configuration. Holds no state of a seed; `threads` runs what computes.
    `kinds` are those of the seeds. `places`: the workers with which the procedural author makes its
    attempts, and in which the gates run of tasks with ground-truth calls that models write (None:
    all of it in `threads`)."""

    config: Config
    held_out: SimilarityIndex
    threads: Executor
    kinds: Sequence[TaskKind[Any]] = STAGED
    places: Places | None = None
    room: Room | None = field(init=False)
    _profiles: dict[str, Profile] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.room = Room.of(self.config) if self.config.gates.room else None

    def kind(self, seed: V) -> TaskKind[V]:
        """The first kind that the seed is of."""
        return next(kind for kind in self.kinds if kind.matches(seed))

    async def write(
        self,
        assignment: Assignment[V],
        author: Author,
        environment: Environment,
        admit: Callable[[V], list[str]],
        reject: Callable[[Rejection], None],
    ) -> V | str:
        """The variant, with its provenance; or why the seed is discarded. `assignment` is of the
        first attempt, without what this configuration says; `author` is one of the seed's kind.

        `admit` is asked last and answers with reasons against near duplicates; in `sync=free` a
        task without reasons is a neighbour from then on, so that two seeds in flight cannot both
        stage it; otherwise that is left to the merge or to the fill of a static pool. `reject`
        is called with every failed candidate."""
        if assignment.seed.type not in PLAIN and not self.config.pipeline.adversarial:
            wanted = assignment.seed.type
            return f"stage V is switched off, and a variant keeps its seed's type ({wanted})"
        kind = self.kind(assignment.seed)
        writing: type[_Writing[Any, Any]] = _Whole if isinstance(author, WholeAuthor) else _Staged
        configured = replace(
            assignment,
            random_seed=self.config.random_seeds.daemon,
            limits=self.config.gates,
            same=self.config.pipeline.functions == "same",
            narrative=self.config.pipeline.narrative,
        )
        return await writing(self, kind, configured, author, environment, reject).run(admit)

    async def attempt(
        self, assignment: StagedAssignment, asking: Asking, environment: Environment
    ) -> Attempted[Task]:
        """One attempt in a worker of a daemon's `places`, as the daemon makes it, unadmitted."""
        kind = TasksWithCalls()
        seed = assignment.seed
        author = kind.author(asking, environment, seed, assignment.pick, assignment.index)
        failed: list[Rejection] = []
        writing = _Staged(self, kind, assignment, author, environment, failed.append)
        return Attempted(await writing.caught(writing.written()), tuple(failed))

    async def shape(self, environment: Environment, root: Task) -> Profile:
        """The profile of a root, kept: many variants ask for it."""
        if root.id not in self._profiles:
            if len(self._profiles) >= REMEMBERED:
                self._profiles.clear()
            self._profiles[root.id] = await in_thread(self.threads, profile, environment, root)
        return self._profiles[root.id]


A = TypeVar("A", bound=Author)  # who writes


@dataclass
class _Writing(Generic[V, A]):
    """One variant, over its attempts; `assignment` is the one in hand."""

    pipeline: Pipeline
    kind: TaskKind[V]
    assignment: Assignment[V]
    author: A
    environment: Environment
    reject: Callable[[Rejection], None]
    stage: StageName = "plan"  # where the attempt is

    @property
    def config(self) -> Config:
        return self.pipeline.config

    async def run(self, admit: Callable[[V], list[str]]) -> V | str:
        """The variant, or why there is none."""
        while True:
            outcome = await self.caught(self._attempt(admit))
            if not isinstance(outcome, Rejection):
                return outcome
            self._record(outcome)
            attempt = self.assignment.attempt
            if outcome.error in FINAL or attempt == self.config.pipeline.attempts:
                return outcome.error
            self.assignment = replace(self.assignment, attempt=attempt + 1)

    async def caught(self, work: Awaitable[T]) -> T | Rejection:
        """What `work` gives; whatever else ends it becomes a Rejection."""
        try:
            return await work
        except Rejection as failed:
            # its frames would keep the world alive, in a cycle of references
            return failed.with_traceback(None)
        except BudgetSpent as error:
            return Rejection(self.stage, "budget_spent", str(error))
        # an endpoint or a world broke; the next attempt may meet better
        except InfrastructureError as error:
            return Rejection(self.stage, "infrastructure", str(error))
        except Exception:  # noqa: BLE001
            # one seed's bug must not stop the service; recorded in full
            return Rejection(self.stage, "pipeline_exception", traceback.format_exc())

    async def _attempt(self, admit: Callable[[V], list[str]]) -> V:
        """One attempt, from plan to admission. Raises Rejection."""
        variant = await self.candidate()
        self.stage = "admission"
        if self.config.gates.duplicates and (reasons := admit(variant)):
            raise Rejection("admission", "duplicates", reasons, variant.as_json())
        return variant

    async def candidate(self) -> V:
        """The variant of one attempt, up to admission. Raises Rejection."""
        raise NotImplementedError

    async def _checked(self, assignment: Assignment[V], task: V, gates: Gates) -> Checked:
        """What the gates say of `task`, in a thread."""
        threads = self.pipeline.threads
        held_out = self.pipeline.held_out
        return await in_thread(
            threads, self.kind.check, self.environment, assignment, task, gates, held_out
        )

    def _finished(self, task: V, planned: JsonMapping, checked: JsonMapping) -> V:
        """The variant, with its provenance and its seed's side of the split."""
        seed = self.assignment.seed
        provenance = {
            **task.provenance,
            "seed": seed.id,
            "root": self.assignment.root.id,
            "generation": self.assignment.generation,
            **planned,
            "attempts": self.assignment.attempt,
            "model": self.author.name,
            "prompts": dict(self.author.hashes),
            **checked,
        }
        return replace(task, split=seed.split, system=seed.system, provenance=provenance, id="")

    def _record(self, rejected: Rejection) -> None:
        """Reports a failure. One that ends an attempt or a plan is added to the failure history and
        the blocklist, unless this is blind retry (no `pipeline.feedback`)."""
        if rejected.cause is not None and rejected.ends and self.config.pipeline.feedback:
            # a model may find other words for the same functions
            of_words = rejected.cause.type in OF_WORDS and self.config.pipeline.author == "llm"
            self.assignment = self.assignment.after(rejected.cause, blocks=not of_words)
        rejected.attempt = self.assignment.attempt
        self.reject(rejected)


class _Whole(_Writing[OpenTask, WholeAuthor]):
    """A variant that is written in one step."""

    async def candidate(self) -> OpenTask:
        self.stage = "plan"
        try:
            task = await self.author.write(self.environment, self.assignment)
        except ComposeError as error:
            raise Rejection.by("plan", error, {}) from error
        seed = self.assignment.seed
        task = replace(task, split=seed.split, system=seed.system, id="")
        self.stage = "judge"
        try:
            checked = await self._checked(self.assignment, task, self.config.gates)
        except UserError as error:
            raise error.__cause__ if isinstance(error.__cause__, BudgetSpent) else error from None
        if checked.rejections:
            raise Rejection.at_gates("judge", checked.rejections, None, task.as_json())
        results = [[brief(result.text) for result in seen] for seen in checked.results or ()]
        return self._finished(task, {}, {"results": results} if any(results) else {})


class _Staged(_Writing[Task, StagedAuthor]):
    """The variant of a task with ground truth, through the stages."""

    async def candidate(self) -> Task:
        places = self.pipeline.places
        if places is None or self.config.pipeline.author == "llm":
            return await self.written()
        attempted = await places.attempt(self.assignment)
        for rejected in attempted.failed:
            self._record(rejected)
        if isinstance(attempted.outcome, Rejection):
            raise attempted.outcome
        return attempted.outcome

    async def written(self) -> Task:
        """The variant of one attempt that is made here, up to admission. Raises Rejection."""
        settings = self.config.pipeline
        assignment = self.assignment
        self.stage = "plan"
        assignment = replace(
            assignment, profile=await self.pipeline.shape(self.environment, assignment.root)
        )
        wanted = assignment.profile.type
        draft = assignment.draft or await self._draft(assignment)
        write = self.author.rewrite if settings.rewrite else self.author.queries
        simple, type = (draft, wanted) if wanted in PLAIN else (without_empty_turns(draft), "base")
        texts = await self._in_stage("rewrite", write(assignment, simple), simple)
        # of a model's variant one judge reads the whole, once it has its form
        judged = wanted in PLAIN or settings.author != "llm"
        cycles = settings.refine_cycles
        candidate = await self._accepted(assignment, simple, texts, type, cycles, judged=judged)
        if wanted not in PLAIN:
            texts = with_blanks(draft, candidate.texts)
            candidate = await self._accepted(
                assignment, draft, texts, wanted, 0 if judged else cycles
            )
        self.stage = "admission"
        shape = candidate.checked.profile
        if shape is None:
            shape = await in_thread(
                self.pipeline.threads, profile, self.environment, candidate.task
            )
        plan = draft.plan.as_json()
        far = distance(assignment.profile, shape)
        planned = {"plan": plan, "narrative": plan["narrative"], "profile_distance": far}
        return self._finished(abridged(candidate.task), planned, {"judge": candidate.reason})

    async def _draft(self, assignment: StagedAssignment) -> Draft:
        """Stages I and II: up to `planner_retries` rounds of planning and executing.

        A failure that may lie in the state goes to the error critic, once for each function: where
        calls failed, the plan is tried again in the mended state; where the planner failed, or the
        rounds are over, the mending is for later states. Any other failure is replanned without
        the functions at fault (004 Appendices E and F). Without feedback every round starts from
        nothing."""
        settings = self.config.pipeline
        plan: Plan | None = None
        state: JsonObject | None = None
        mended: set[str | None] = set()
        for number in range(1, settings.planner_retries + 1):
            self.stage = "execute"
            try:
                if plan is None or state is None:
                    self.stage = "plan"
                    assignment = replace(
                        assignment,
                        plan_number=number,
                        failures=self.assignment.failures,
                        blocked=self.assignment.blocked,
                    )
                    plan = await self.author.plan(assignment)
                    self.stage = "execute"
                    mended = set()
                    state = await self.author.initial_state(assignment, plan)
                return await self.author.execute(assignment, plan, state)
            except ComposeError as error:
                rejected = Rejection.by(
                    self.stage, error, {"plan": plan.as_json() if plan else None, "state": state}
                )
                last = number == settings.planner_retries or error.type == "no_prompts"
                if last and self.assignment.attempt == settings.attempts:
                    raise rejected from error
                if not last:
                    self._record(rejected)
                planned = plan if state is not None else None
                mendable = (
                    settings.feedback and error.type in PATCHABLE and error.function not in mended
                )
                if mendable:
                    mended.add(error.function)
                    world = state if state is not None else dict(assignment.seed.state or {})
                    try:
                        state = await self.author.patch(assignment, planned, world, error)
                    except ComposeError:
                        state = None  # no patch: replan
                if last:
                    raise rejected from error
                if not mendable or planned is None:
                    plan = state = None
        raise AssertionError("planner_retries is at least 1")

    async def _accepted(
        self,
        assignment: StagedAssignment,
        draft: Draft,
        texts: Texts,
        type: TaskType,
        cycles: int,
        *,
        judged: bool = True,
    ) -> FormedTask:
        """The draft as a task of `type`, past gates and judge. Where only words are at fault, up
        to `cycles` turns are said anew, one at a time, and gates and judge are asked again (004
        Appendix G)."""
        while True:
            try:
                return await self._judged(assignment, draft, texts, type, judged=judged)
            except Rejection as rejected:
                if not 0 < len(rejected.wordings) <= cycles:
                    raise
                cycles -= 1
                rejected.ends = False
                self._record(rejected)
                defect = rejected.wordings[0]
                turn = defect.turn or 0
                if type == "miss_param" and not (draft.turns[turn] and draft.turns[turn - 1]):
                    # its texts are made anew with the form: no rewording sees them
                    assignment = replace(assignment, objection=defect.reason)
                    continue
                if not draft.turns[turn]:  # it says what the next turn does
                    reason = f"{defect.reason} (in turn {turn + 2}, as the turns are numbered here)"
                    defect = replace(defect, turn=turn + 1, reason=reason)
                reworded = self.author.reword(assignment, draft, texts, defect)
                texts = await self._in_stage("rewrite", reworded, draft)

    async def _judged(
        self,
        assignment: StagedAssignment,
        draft: Draft,
        texts: Texts,
        type: TaskType,
        *,
        judged: bool,
    ) -> FormedTask:
        """The draft as a task of `type`, past its gates, with the judge's reason where it is
        `judged`."""
        stage: StageName = "judge" if type in PLAIN else "adversarial"
        task = await self._in_stage(stage, self.author.form(assignment, draft, texts, type), draft)
        shown = abridged(task).as_json()
        gates = self.config.gates
        # an intermediate form: shape and neighbours are asked of the final one
        if type != assignment.profile.type:
            gates = gates.model_copy(update={"profile": False, "contamination": False})
        try:
            if (places := self.pipeline.places) is not None:
                checked = await places.checked(task, assignment.profile, gates)
            else:
                checked = await self._checked(assignment, task, gates)
            if (room := self.pipeline.room) is not None and checked.results is not None:
                threads = self.pipeline.threads
                if why := await in_thread(threads, room.reasons, self.environment, task):
                    rejections = *checked.rejections, GateRejection("room", tuple(why))
                    checked = replace(checked, rejections=rejections)
        except InfrastructureError as error:
            raise Rejection(stage, "infrastructure", str(error), shown) from error
        doubts = self._doubts(checked)
        if checked.rejections and not doubts:
            raise Rejection.at_gates(stage, checked.rejections, draft, shown)
        if not (judged and self.config.pipeline.judge):
            return FormedTask(texts, task, checked)
        judging = self.author.judge(assignment, draft, task, checked.results, **doubts)
        judgement = await self._in_stage(stage, judging, draft)
        if judgement.defects:
            raise Rejection.by_judge(stage, judgement, draft, shown)
        return FormedTask(texts, task, checked, judgement.reason)

    def _doubts(self, checked: Checked) -> dict[str, list[Reason]]:
        """An argument of `judge`: what gates object to in a model's words, if none is certain."""
        doubts = [reason for closed in checked.rejections for reason in closed.reasons]
        weighed = self.config.pipeline.judge and self.config.pipeline.author == "llm"
        certain = not doubts or any(not reason.doubt for reason in doubts)
        return {"doubts": doubts} if weighed and not certain else {}

    async def _in_stage(self, stage: StageName, work: Awaitable[T], draft: Draft) -> T:
        """Awaits one author's work; its ComposeError becomes a Rejection of this stage."""
        self.stage = stage
        try:
            return await work
        except ComposeError as error:
            calls = [[bound.call.as_json() for bound in turn] for turn in draft.turns]
            raw = {"plan": draft.plan.as_json(), "state": draft.state, "calls": calls}
            raise Rejection.by(stage, error, raw) from error
