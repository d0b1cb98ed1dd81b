"""From a seed to a variant: five stages, gates, a judge, and attempts that learn from each other
(004 §3.3, D–G).

    I plan → II execute (mend the state or replan) → III rewrite → IV gates, judge, one refinement → V adversarial
    form, gates and judge again → admission

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
from rods.buffers.run.run import Run
from rods.composing.records import ComposeError, Draft, Plan
from rods.config import Config, Gates
from rods.daemon.attempts import Attempted, Compute, GateOrder, Order
from rods.daemon.authors.base import (
    Asking,
    Assignment,
    Author,
    StagedAuthor,
    T,
    TaskKind,
    V,
    WholeAuthor,
    in_thread,
)
from rods.daemon.authors.llm import LLMAuthor, prompt_hashes
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.candidates import FormedTask, Rejection, StageName, VariantJob, plain, with_blanks
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, UserError
from rods.extension import aims_of, extensions
from rods.faults import FINAL, PATCHABLE
from rods.gates import check
from rods.gates.ground_truth import abridged, brief
from rods.gates.records import Checked
from rods.gates.similarity import SimilarityIndex
from rods.llm import BudgetSpent
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
        if asking.by_model:
            return LLMAuthor(
                environment, asking.writing(pick, index), asking.config.pipeline, asking.threads
            )
        return ProceduralAuthor.of(environment, asking.threads)

    def check(
        self, given: Assignment[Task], task: Task, gates: Gates, held_out: SimilarityIndex
    ) -> Checked:
        """The only fresh run of the ground truth: it has to give the results that the author
        recorded, and judge and provenance go on from what it gave."""
        return check(given.environment, task, given.profile, gates, held_out)

    def hashes(
        self, asking: Asking, environment: Callable[[], Environment], seed: Task
    ) -> Mapping[str, str]:
        return (
            prompt_hashes(environment())
            if asking.by_model
            else super().hashes(asking, environment, seed)
        )


STAGED = (TasksWithCalls(),)


def kinds_of(run: Run) -> tuple[TaskKind[Any], ...]:
    """The kinds of tasks that the daemon writes variants of, for its life: those with ground-truth
    calls, and what extensions bring. Of those that match a task the first one has it."""
    return (
        TasksWithCalls(),
        *(kind for extension in extensions() for kind in extension.kinds(run)),
    )


class Pipeline:
    """The stages under one configuration. Holds no state of a seed; `threads` runs what
    computes."""

    def __init__(
        self,
        config: Config,
        held_out: SimilarityIndex,
        threads: Executor,
        kinds: Sequence[TaskKind[Any]] = STAGED,
        compute: Compute | None = None,
    ) -> None:
        """`kinds` are those of the seeds. `compute` makes the attempts of the procedural author,
        and runs the gates of tasks with ground-truth calls that models write (None: `threads`
        do)."""
        self.config = config
        self.held_out = held_out
        self.threads = threads
        self.kinds = kinds
        self.compute = compute
        self._profiles: dict[str, Profile] = {}

    async def write(
        self,
        job: VariantJob[V],
        author: Author,
        environment: Environment,
        admit: Callable[[V], list[str]],
        reject: Callable[[Rejection], None],
    ) -> V | str:
        """The variant, with its provenance; or why the seed is discarded. `author` is one of the
        seed's kind.

        `admit` is asked last and answers with reasons against near duplicates; without reasons it
        has entered the task as a neighbour, so that two seeds in flight cannot both stage the same
        task. `reject` is told of every failed candidate."""
        if job.seed.type not in PLAIN and not self.config.pipeline.adversarial:
            return f"stage V is switched off, and a variant keeps its seed's type ({job.seed.type})"
        kind = next(kind for kind in self.kinds if kind.matches(job.seed))
        writing: type[_Writing[Any, Any]] = _Whole if isinstance(author, WholeAuthor) else _Staged
        if self.compute is not None and isinstance(author, ProceduralAuthor):
            writing = _Elsewhere
        outcome: V | str = await writing(self, kind, job, author, environment, admit, reject).run()
        return outcome

    async def attempt(
        self, order: Order[Task], asking: Asking, environments: Environments
    ) -> Attempted[Task]:
        """One attempt, for a daemon elsewhere, as its own would be; nothing is admitted."""
        job = order.job
        kind = TasksWithCalls()
        environment = environments.load(job.seed.environment.name)
        author = kind.author(asking, environment, job.seed, job.pick, job.index)
        progress = (order.failures, order.blocked, order.attempt)
        noting = _Noting(
            self, kind, job, author, environment, lambda task: [], lambda failed: None, *progress
        )
        return Attempted(await noting.caught(noting.candidate()), tuple(noting.failed))

    async def shape(self, environment: Environment, root: Task) -> Profile:
        """The profile of a root, remembered: variants of one lineage are many."""
        if root.id not in self._profiles:
            if len(self._profiles) >= REMEMBERED:
                self._profiles.clear()
            self._profiles[root.id] = await in_thread(self.threads, profile, environment, root)
        return self._profiles[root.id]


A = TypeVar("A", bound=Author)  # who writes


@dataclass
class _Writing(Generic[V, A]):
    """One job, over its attempts."""

    pipeline: Pipeline
    kind: TaskKind[V]
    job: VariantJob[V]
    author: A
    environment: Environment
    admit: Callable[[V], list[str]]
    reject: Callable[[Rejection], None]
    failures: tuple[ComposeError, ...] = ()
    blocked: frozenset[str] = frozenset()
    attempt: int = 0
    stage: StageName = "plan"  # where the attempt is

    @property
    def config(self) -> Config:
        return self.pipeline.config

    async def run(self) -> V | str:
        while True:
            self.attempt += 1
            outcome = await self.caught(self._attempt())
            if not isinstance(outcome, Rejection):
                return outcome
            self._record(outcome)
            if outcome.error in FINAL or self.attempt == self.config.pipeline.attempts:
                return outcome.error

    async def caught(self, work: Awaitable[T]) -> T | Rejection:
        """What `work` gives; or what ended it, whatever that was."""
        try:
            return await work
        except Rejection as failed:
            # whose frames would hold the world in a cycle with it
            return failed.with_traceback(None)
        except BudgetSpent as error:
            return Rejection(self.stage, "budget_spent", str(error))
        # an endpoint or a world broke; the next attempt may meet better
        except InfrastructureError as error:
            return Rejection(self.stage, "infrastructure", str(error))
        except Exception:  # noqa: BLE001 - one seed's bug must not stop the service; recorded in full
            return Rejection(self.stage, "pipeline_exception", traceback.format_exc())

    async def _attempt(self) -> V:
        """One attempt, from plan to admission. Raises Rejection."""
        variant = await self.candidate()
        self.stage = "admission"
        if self.config.gates.duplicates and (reasons := self.admit(variant)):
            raise Rejection("admission", "duplicates", reasons, variant.as_json())
        return variant

    async def candidate(self) -> V:
        """The variant of one attempt, up to admission. Raises Rejection."""
        raise NotImplementedError

    def _given(self) -> Assignment[V]:
        """The attempt, as its author is given it."""
        config = self.config
        job = self.job
        return Assignment(
            environment=self.environment,
            seed=job.seed,
            root=job.root,
            key=(config.random_seeds.daemon, job.pick, job.index, self.attempt),
            limits=config.gates,
            same=config.pipeline.functions == "same",
            failures=self.failures,
            blocked=self.blocked,
            narrative=config.pipeline.narrative,
            preferences=job.preferences,
        )

    def _finished(self, task: V, planned: Mapping[str, Any], checked: Mapping[str, Any]) -> V:
        """The variant, with its provenance and its seed's side of the split."""
        job = self.job
        lineage = {"seed": job.seed.id, "root": job.root.id, "generation": job.generation}
        written = {
            "attempts": self.attempt,
            "model": self.author.name,
            "prompts": dict(self.author.hashes),
        }
        provenance = {**task.provenance, **lineage, **planned, **written, **checked}
        return replace(
            task, split=job.seed.split, system=job.seed.system, provenance=provenance, id=""
        )

    def _record(self, rejected: Rejection, *, final: bool = True) -> None:
        """Reports a failure; what ends an attempt (`final`), or a plan, is learnt from: it is added
        to the failure history and the blocklist, once, and not at all in blind retry."""
        error = rejected.cause if final else None
        if error is not None and self.config.pipeline.feedback and error not in self.failures:
            self.failures += (error,)
            self.blocked |= set(error.functions)
        rejected.attempt = self.attempt
        self.reject(rejected)


class _Whole(_Writing[OpenTask, WholeAuthor]):
    """A variant that is written in one step."""

    async def candidate(self) -> OpenTask:
        job = self.job
        given = self._given()
        self.stage = "plan"
        try:
            task = await self.author.write(given)
        except ComposeError as error:
            raise Rejection.by("plan", error, {}) from error
        task = replace(task, split=job.seed.split, system=job.seed.system, id="")
        self.stage = "judge"
        try:
            gates = self.config.gates
            held_out = self.pipeline.held_out
            checked = await in_thread(
                self.pipeline.threads, self.kind.check, given, task, gates, held_out
            )
        except UserError as error:
            raise error.__cause__ if isinstance(error.__cause__, BudgetSpent) else error from None
        if checked.rejections:
            raise Rejection.at_gates("judge", checked.rejections, None, task.as_json())
        results = [[brief(result.text) for result in seen] for seen in checked.results or ()]
        return self._finished(task, {}, {"results": results} if any(results) else {})


class _Staged(_Writing[Task, StagedAuthor]):
    """The variant of a task with ground truth, through the stages."""

    async def candidate(self) -> Task:
        job = self.job
        settings = self.config.pipeline
        self.stage = "plan"
        aims = aims_of(self.config) if job.aim else None
        target = await self.pipeline.shape(self.environment, job.root if aims is None else job.seed)
        given = replace(self._given(), profile=target)
        if aims is not None:
            try:
                given = await in_thread(self.pipeline.threads, aims.target, given, job.aim)
            except ComposeError as error:
                raise Rejection.by("plan", error, {}) from error
        wanted = given.profile.type
        draft = await self._draft(given)
        write = self.author.rewrite if settings.rewrite else self.author.queries
        simple, type = (draft, wanted) if wanted in PLAIN else (plain(draft), "base")
        texts = await self._stage("rewrite", write(given, simple), simple)
        candidate = await self._accepted(given, simple, texts, type, settings.refine_cycles)
        if wanted not in PLAIN:
            candidate = await self._accepted(
                given, draft, with_blanks(draft, candidate.texts), wanted, 0
            )
        self.stage = "admission"
        shape = candidate.checked.profile
        if shape is None:
            shape = await in_thread(
                self.pipeline.threads, profile, self.environment, candidate.task
            )
        plan = draft.plan.as_json()
        far = distance(given.profile, shape)
        planned = {"plan": plan, "narrative": plan["narrative"], "profile_distance": far}
        planned |= {"aim": dict(given.aim)} if given.aim else {}
        return self._finished(abridged(candidate.task), planned, {"judge": candidate.reason})

    async def _draft(self, given: Assignment[Task]) -> Draft:
        """Stages I and II: up to `planner_retries` rounds of planning and executing. What a state
        may be the reason of goes to the error critic, once a function: where calls fail, the plan
        is kept and tried in the mended state; where the planner fails, states to come are mended.
        Anything else is replanned without the functions at fault (004 Appendices E and F). After an
        attempt's last failure states of the next one are mended. Without feedback every round
        starts from nothing."""
        settings = self.config.pipeline
        plan: Plan | None = None
        state: dict[str, Any] | None = None
        mended: set[str | None] = set()
        for number in range(1, settings.planner_retries + 1):
            self.stage = "execute"
            try:
                if plan is None or state is None:
                    self.stage = "plan"
                    given = replace(
                        given, plan_number=number, failures=self.failures, blocked=self.blocked
                    )
                    plan = await self.author.plan(given)
                    self.stage = "execute"
                    mended = set()
                    state = await self.author.initial_state(given, plan)
                return await self.author.execute(given, plan, state)
            except ComposeError as error:
                rejected = Rejection.by(
                    self.stage, error, {"plan": plan.as_json() if plan else None, "state": state}
                )
                last = number == settings.planner_retries or error.type == "no_prompts"
                if last and self.attempt == settings.attempts:
                    raise rejected from error
                if not last:
                    self._record(rejected)
                planned = plan if state is not None else None
                mendable = (
                    settings.feedback and error.type in PATCHABLE and error.function not in mended
                )
                if mendable:
                    mended.add(error.function)
                    world = state if state is not None else dict(given.seed.state or {})
                    try:
                        state = await self.author.patch(given, planned, world, error)
                    except ComposeError:
                        state = None  # no patch: replan
                if last:
                    raise rejected from error
                if not mendable or planned is None:
                    plan = state = None
        raise AssertionError("planner_retries is at least 1")

    async def _accepted(
        self,
        given: Assignment[Task],
        draft: Draft,
        texts: tuple[str, ...],
        type: TaskType,
        cycles: int,
    ) -> FormedTask:
        """The draft as a task of `type`, past gates and judge. Where only words are at fault, up
        to `cycles` turns are said anew, one at a time, and everything is asked again (004
        Appendix G)."""
        while True:
            try:
                return await self._judged(given, draft, texts, type)
            except Rejection as rejected:
                if not 0 < len(rejected.wordings) <= cycles:
                    raise
                cycles -= 1
                self._record(rejected, final=False)
                reworded = self.author.reword(given, draft, texts, rejected.wordings[0])
                texts = await self._stage("rewrite", reworded, draft)

    async def _judged(
        self, given: Assignment[Task], draft: Draft, texts: tuple[str, ...], type: TaskType
    ) -> FormedTask:
        """The draft as a task of `type`, past the gates that hold for it, with the judge's
        reason."""
        stage: StageName = "judge" if type in PLAIN else "adversarial"
        task = await self._stage(stage, self.author.form(given, draft, texts, type), draft)
        gates = self.config.gates
        held_out = self.pipeline.held_out
        # an intermediate form: shape and neighbours are asked of the final one
        if type != given.profile.type:
            gates = gates.model_copy(update={"profile": False, "contamination": False})
        try:
            if (compute := self.pipeline.compute) is not None:
                checked = await compute.checked(GateOrder(task, given.profile, gates))
            else:
                checked = await in_thread(
                    self.pipeline.threads, self.kind.check, given, task, gates, held_out
                )
        except InfrastructureError as error:
            raise Rejection(
                stage, "infrastructure", str(error), abridged(task).as_json()
            ) from error
        if checked.rejections:
            raise Rejection.at_gates(stage, checked.rejections, draft, abridged(task).as_json())
        if not self.config.pipeline.judge:
            return FormedTask(texts, task, checked)
        judgement = await self._stage(
            stage, self.author.judge(given, draft, task, checked.results), draft
        )
        if judgement.defects:
            raise Rejection.by_judge(stage, judgement, draft, abridged(task).as_json())
        return FormedTask(texts, task, checked, judgement.reason)

    async def _stage(self, stage: StageName, work: Awaitable[T], draft: Draft) -> T:
        """Awaits one author's work; its ComposeError becomes a Rejection of this stage."""
        self.stage = stage
        try:
            return await work
        except ComposeError as error:
            calls = [[bound.call.as_json() for bound in turn] for turn in draft.turns]
            raw = {"plan": draft.plan.as_json(), "state": draft.state, "calls": calls}
            raise Rejection.by(stage, error, raw) from error


@dataclass
class _Noting(_Staged):
    """Attempts that keep what failed on the way, each with whether it was learnt from."""

    failed: list[tuple[Rejection, bool]] = field(default_factory=list)

    def _record(self, rejected: Rejection, *, final: bool = True) -> None:
        self.failed.append((rejected, final))
        super()._record(rejected, final=final)


class _Elsewhere(_Writing[Task, StagedAuthor]):
    """The variant of a task with ground truth, whose attempts are made in other processes."""

    async def candidate(self) -> Task:
        assert self.pipeline.compute is not None, "somebody makes the attempts"
        order = Order(self.job, self.attempt, self.failures, self.blocked)
        made: Attempted[Task] = await self.pipeline.compute.attempt(order)
        for failed, final in made.failed:
            self._record(failed, final=final)
        if isinstance(made.outcome, Rejection):
            raise made.outcome
        return made.outcome
