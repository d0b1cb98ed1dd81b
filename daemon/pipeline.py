"""From a seed to a variant: five stages, gates, a judge, and attempts that learn from each other (004 §3.3, D–G).

    I plan → II execute (mend the state or replan) → III rewrite → IV gates, judge, one refinement → V adversarial
    form, gates and judge again → admission

A drawn task (001) and a scenario of a generated world (003) have no stages: their variants are drawn whole, the gates
judge, and they are admitted.

An attempt ends with a candidate or with `Rejected`; the next one knows the errors so far and the functions that they
named (`pipeline.feedback`), or nothing (blind retry). Whatever fails is reported with stage, type, evidence and what
had been written. Nothing that goes wrong inside a seed leaves this module, cancellation excepted.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Generic, TypeVar

from daemon.authors.base import Assignment, Author, Texts, in_thread
from daemon.authors.drawn import DrawnAssignment, DrawnAuthor
from daemon.authors.scenarios import ScenarioAssignment, ScenarioAuthor
from daemon.candidates import AnyAuthor, FormedTask, Rejected, Rejection, StageName, V, VariantJob, plain, with_blanks
from rods.analysis.profile import Profile, distance, profile
from rods.composing.records import ComposeError, Draft, Plan
from rods.config import Config, Gates
from rods.environments.base import Environment
from rods.errors import InfrastructureError, UserError
from rods.faults import FINAL, PATCHABLE
from rods.gates import SimilarityIndex, abridged, check
from rods.gates.drawn import Playing, check_drawn
from rods.gates.ground_truth import brief
from rods.gates.records import Checked
from rods.llm import BudgetSpent
from rods.simulation.generating import levels_of
from rods.tasks import OpenTask, Task, TaskType
from worlds.checking.scenarios import scenario_of
from worlds.checking.variants import check_scenario

PLAIN: tuple[TaskType, ...] = ("base", "long_context")  # what stage IV judges as it is; the others are made in stage V
NOTHING = SimilarityIndex()
REMEMBERED = 4096  # profiles of roots kept
T = TypeVar("T")


class Pipeline:
    """The stages under one configuration. Holds no state of a seed; `threads` runs what computes."""

    def __init__(
        self,
        config: Config,
        held_out: SimilarityIndex,
        threads: Executor,
        playing: Playing | None = None,
        players: Executor | None = None,
    ) -> None:
        """`playing`: how the run plays drawn tasks; None where it has none. `players` has the threads in which that may
        wait for somebody, else `threads`."""
        self.config, self.held_out, self.threads, self.playing = config, held_out, threads, playing
        self.players = players or threads
        self._profiles: dict[str, Profile] = {}

    async def write(
        self,
        job: VariantJob[V],
        author: AnyAuthor,
        environment: Environment,
        admit: Callable[[V], list[str]],
        reject: Callable[[Rejection], None],
    ) -> V | str:
        """The variant, with its provenance; or why the seed is discarded. `author` is one for such seeds.

        `admit` is asked last and answers with reasons against near duplicates; without reasons it has entered the task
        as a neighbour, so that two seeds in flight cannot both stage the same task.
        `reject` is told of every failed candidate.
        """
        if job.seed.type not in PLAIN and not self.config.pipeline.adversarial:
            return f"stage V is switched off, and a variant keeps its seed's type ({job.seed.type})"
        kind: type[_Writing[Any, Any]] = _Composing
        if isinstance(job.seed, OpenTask):
            kind = _Drawing if scenario_of(job.seed) is None else _Growing
        outcome: V | str = await kind(self, job, author, environment, admit, reject).run()
        return outcome

    async def compute(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs `function` in a thread, so that the service stays responsive whatever an environment does."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    async def shape(self, environment: Environment, root: Task) -> Profile:
        """The profile of a root, remembered: variants of one lineage are many."""
        if root.id not in self._profiles:
            if len(self._profiles) >= REMEMBERED:
                self._profiles.clear()
            self._profiles[root.id] = await self.compute(profile, environment, root)
        return self._profiles[root.id]


A = TypeVar("A")  # who writes


class _Writing(Generic[V, A]):
    """One job, over its attempts."""

    def __init__(
        self,
        pipeline: Pipeline,
        job: VariantJob[V],
        author: A,
        environment: Environment,
        admit: Callable[[V], list[str]],
        reject: Callable[[Rejection], None],
    ) -> None:
        self.pipeline, self.config = pipeline, pipeline.config
        self.job, self.author, self.environment = job, author, environment
        self.admit, self._reject = admit, reject
        self.failures: tuple[ComposeError, ...] = ()
        self.blocked: frozenset[str] = frozenset()
        self.attempt = 0
        self.stage: StageName = "plan"  # where the attempt is

    async def run(self) -> V | str:
        last = ""
        for attempt in range(1, self.config.pipeline.attempts + 1):
            self.attempt = attempt
            try:
                return await self._candidate()
            except Rejected as rejected:
                self._record(rejected)
                last = rejected.error
            except BudgetSpent as error:
                self._record(Rejected(self.stage, "budget_spent", str(error)))
                last = "budget_spent"
            except InfrastructureError as error:  # an endpoint or a world broke; the next attempt may meet better
                self._record(Rejected(self.stage, "infrastructure", str(error)))
                last = "infrastructure"
            except Exception:  # noqa: BLE001 - one seed's bug must not stop the service; recorded in full
                self._record(Rejected(self.stage, "pipeline_exception", traceback.format_exc()))
                last = "pipeline_exception"
            if last in FINAL:
                break
        return last

    async def _candidate(self) -> V:
        """One attempt, from plan to admission. Raises Rejected."""
        raise NotImplementedError

    @property
    def key(self) -> tuple[int, str, int, int]:
        """What the choices of an attempt are drawn by."""
        return self.config.random_seeds.daemon, self.job.pick, self.job.index, self.attempt

    def _admitted(self, task: V) -> V:
        self.stage = "admission"
        if self.config.gates.duplicates and (reasons := self.admit(task)):
            raise Rejected("admission", "duplicates", reasons, task.as_json())
        return task

    def _record(self, rejected: Rejected, *, final: bool = True) -> None:
        """Reports a failure; what ends an attempt (`final`), or a plan, is learnt from."""
        if final and rejected.cause is not None:
            self._learn(rejected.cause)
        raw = "" if rejected.raw is None else json.dumps(rejected.raw, sort_keys=True, default=str)
        self._reject(Rejection(rejected.stage, rejected.error, rejected.evidence, self.attempt, raw))

    def _learn(self, error: ComposeError) -> None:
        """Adds to the failure history and the blocklist, once; not at all in blind retry."""
        if self.config.pipeline.feedback and error not in self.failures:
            self.failures += (error,)
            if error.function is not None:
                self.blocked |= {error.function}


W = TypeVar("W", DrawnAuthor, ScenarioAuthor)


class _Whole(_Writing[OpenTask, W]):
    """A variant that is written in one step."""

    async def _written(self, problem: str) -> OpenTask:
        """The variant. `problem`: what was wrong with the attempt before. Raises ComposeError."""
        raise NotImplementedError

    def _checked(self, task: OpenTask, gates: Gates) -> Checked:
        """What the gates say. Raises InfrastructureError."""
        raise NotImplementedError

    async def _candidate(self) -> OpenTask:
        job = self.job
        self.stage = "plan"
        try:
            task = await self._written(self.failures[-1].detail if self.failures else "")
        except ComposeError as error:
            raise Rejected.by("plan", error, {}) from error
        task = replace(task, split=job.seed.split, system=job.seed.system, id="")
        self.stage = "judge"
        gates = self.config.gates.model_copy(update={"duplicates": False})  # asked at admission
        try:
            checked = await in_thread(self.pipeline.players, lambda: self._checked(task, gates))
        except UserError as error:
            raise error.__cause__ if isinstance(error.__cause__, BudgetSpent) else error from None
        if checked.rejections:
            raise Rejected.at_gates("judge", checked.rejections, task.as_json())
        results = [[brief(result.text) for result in seen] for seen in checked.results or ()]
        provenance = {
            **task.provenance,
            "seed": job.seed.id,
            "root": job.root.id,
            "generation": job.generation,
            "attempts": self.attempt,
            "model": self.author.name,
            "prompts": dict(self.author.hashes),
            **({"results": results} if any(results) else {}),
        }
        return self._admitted(replace(task, provenance=provenance, id=""))


class _Drawing(_Whole[DrawnAuthor]):
    """The variant of a drawn task."""

    async def _written(self, problem: str) -> OpenTask:
        seed, same = self.job.seed, self.config.pipeline.functions == "same"
        levels = levels_of(seed)
        assert levels is not None, "only drawn tasks and scenarios are picked"
        return await self.author.draw(DrawnAssignment(self.environment, seed, levels, self.key, same, problem))

    def _checked(self, task: OpenTask, gates: Gates) -> Checked:
        playing, held_out = self.pipeline.playing, self.pipeline.held_out
        assert playing is not None, "a run with drawn tasks says who plays them"
        return check_drawn(self.environment, task, self.job.root, gates, playing, pool=NOTHING, held_out=held_out)


class _Growing(_Whole[ScenarioAuthor]):
    """The variant of a scenario."""

    async def _candidate(self) -> OpenTask:
        task = await super()._candidate()
        await self.author.settle(task)
        return task

    async def _written(self, problem: str) -> OpenTask:
        return await self.author.draw(self._given(problem))

    def _checked(self, task: OpenTask, gates: Gates) -> Checked:
        world, held_out = self.author.world(self._given(), task), self.pipeline.held_out
        return check_scenario(world, task, self.job.root, gates, pool=NOTHING, held_out=held_out)

    def _given(self, problem: str = "") -> ScenarioAssignment:
        same = self.config.pipeline.functions == "same"
        return ScenarioAssignment(self.environment, self.job.seed, self.key, same, problem)


class _Composing(_Writing[Task, Author]):
    """The variant of a task with ground truth, through the stages."""

    profile: Profile

    async def _candidate(self) -> Task:
        settings, seed = self.config.pipeline, self.job.seed
        self.stage = "plan"
        self.profile = await self.pipeline.shape(self.environment, self.job.root)
        given = Assignment(self.environment, seed, self.job.root, self.profile, self.key, self.config.gates)
        draft = await self._draft(given)
        write = self.author.rewrite if settings.rewrite else self.author.queries
        if seed.type in PLAIN:
            texts = await self._stage("rewrite", write(given, draft), draft)
            candidate = await self._accepted(given, draft, texts, seed.type, settings.refine_cycles)
        else:
            simple = plain(draft)
            texts = await self._stage("rewrite", write(given, simple), simple)
            candidate = await self._accepted(given, simple, texts, "base", settings.refine_cycles)
            candidate = await self._accepted(given, draft, with_blanks(draft, candidate.texts), seed.type, 0)
        self.stage = "admission"
        return self._admitted(await self.pipeline.compute(self._signed, candidate))

    async def _draft(self, given: Assignment) -> Draft:
        """Stages I and II: up to `planner_retries` rounds of planning and executing.

        What a state may be the reason of goes to the error critic, once a function: where calls fail, the plan is kept
        and tried in the mended state; where the planner fails, states to come are mended. Anything else is replanned
        without the functions at fault (004 Appendices E and F). Without feedback every round starts from nothing.
        """
        settings = self.config.pipeline
        plan: Plan | None = None
        state: dict[str, Any] | None = None
        mended: set[str | None] = set()
        for number in range(1, settings.planner_retries + 1):
            self.stage = "execute"
            try:
                if plan is None or state is None:
                    self.stage = "plan"
                    given = replace(given, plan_number=number, failures=self.failures, blocked=self.blocked)
                    plan = await self.author.plan(given, narrative=settings.narrative, functions=settings.functions)
                    self.stage, mended = "execute", set()
                    state = await self.author.initial_state(given, plan)
                return await self.author.execute(given, plan, state)
            except ComposeError as error:
                rejected = Rejected.by(self.stage, error, {"plan": plan.as_json() if plan else None, "state": state})
                if number == settings.planner_retries or error.type == "no_prompts":
                    raise rejected from error
                self._record(rejected)
                planned = plan if state is not None else None
                mendable = settings.feedback and error.type in PATCHABLE and error.function not in mended
                if mendable:
                    mended.add(error.function)
                    world = state if state is not None else dict(self.job.seed.state or {})
                    state = await self._mended(given, planned, world, error)
                if not mendable or planned is None:
                    plan = state = None
        raise AssertionError("planner_retries is at least 1")

    async def _mended(
        self, given: Assignment, plan: Plan | None, state: Mapping[str, Any], error: ComposeError
    ) -> dict[str, Any] | None:
        try:
            return await self.author.patch(given, plan, state, error)
        except ComposeError:
            return None  # no patch: replan

    async def _accepted(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType, cycles: int) -> FormedTask:
        """The draft as a task of `type`, past gates and judge. Where only words are at fault, up to `cycles` turns are
        said anew, one at a time, and everything is asked again (004 Appendix G)."""
        while True:
            try:
                return await self._judged(given, await self._formed(given, draft, texts, type))
            except Rejected as rejected:
                if not 0 < len(rejected.wordings) <= cycles:
                    raise
                cycles -= 1
                self._record(rejected, final=False)
                reworded = self.author.reword(given, draft, texts, rejected.wordings[0])
                texts = await self._stage("rewrite", reworded, draft)

    async def _formed(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> FormedTask:
        """The draft as a task of `type`, past the gates that hold for it."""
        stage = _stage_of(type)
        task = await self._stage(stage, self.author.form(given, draft, texts, type), draft)
        gates = self.config.gates.model_copy(update={"duplicates": False})  # asked at admission, nothing in between
        if type != self.job.seed.type:  # an intermediate form: shape and neighbours are asked of the final one
            gates = gates.model_copy(update={"profile": False, "contamination": False})
        try:
            checked = await self.pipeline.compute(self._checked, task, gates)
        except InfrastructureError as error:
            raise Rejected(stage, "infrastructure", str(error), abridged(task).as_json()) from error
        if checked.rejections:
            raise Rejected.at_gates(stage, checked.rejections, abridged(task).as_json())
        return FormedTask(draft, texts, task, checked)

    def _checked(self, task: Task, gates: Gates) -> Checked:
        """The only fresh run of the ground truth: it has to give the results that the author recorded, and judge and
        provenance go on from what it gave."""
        return check(self.environment, task, self.profile, gates, pool=NOTHING, held_out=self.pipeline.held_out)

    async def _judged(self, given: Assignment, candidate: FormedTask) -> FormedTask:
        """The candidate with the judge's reason."""
        if not self.config.pipeline.judge:
            return candidate
        stage = _stage_of(candidate.task.type)
        judging = self.author.judge(given, candidate.draft, candidate.task, candidate.checked.results)
        judgement = await self._stage(stage, judging, candidate.draft)
        if judgement.defects:
            raise Rejected.by_judge(stage, judgement, abridged(candidate.task).as_json())
        return replace(candidate, reason=judgement.reason)

    async def _stage(self, stage: StageName, work: Awaitable[T], draft: Draft) -> T:
        """Awaits one author's work; its ComposeError becomes a Rejected of this stage."""
        self.stage = stage
        try:
            return await work
        except ComposeError as error:
            calls = [[bound.call.as_json() for bound in turn] for turn in draft.turns]
            raw = {"plan": draft.plan.as_json(), "state": draft.state, "calls": calls}
            raise Rejected.by(stage, error, raw) from error

    def _signed(self, candidate: FormedTask) -> Task:
        """The task with its provenance and its seed's side of the split."""
        job, plan = self.job, candidate.draft.plan.as_json()
        shape = candidate.checked.profile or profile(self.environment, candidate.task)
        provenance = {
            **abridged(candidate.task).provenance,
            "seed": job.seed.id,
            "root": job.root.id,
            "generation": job.generation,
            "plan": plan,
            "narrative": plan["narrative"],
            "profile_distance": distance(self.profile, shape),
            "attempts": self.attempt,
            "model": self.author.name,
            "prompts": dict(self.author.hashes),
            "judge": candidate.reason,
        }
        return replace(candidate.task, split=job.seed.split, system=job.seed.system, provenance=provenance, id="")


def _stage_of(type: TaskType) -> StageName:
    """The stage in which a task of this type meets gates and judge."""
    return "judge" if type in PLAIN else "adversarial"
