"""The contract between the pipeline and whoever writes: kinds of tasks, and their authors.

A `TaskKind` says which tasks it is of, who writes a variant, and what the gates ask of one. A
variant is written whole (`WholeAuthor`), or through the stages of 004 (`StagedAuthor`, a method
each); methods are asynchronous, so that a model behind an endpoint fits as well as a pure function
in a thread.

An author decides nothing about order, retries or gates: that is `rods.daemon.pipeline`. What it
cannot do it reports as a `ComposeError` of one of the types of 004 Appendix E; broken machinery
(`InfrastructureError`, `EndpointError`, `BudgetSpent`) passes through any method. Every random
choice is keyed by the assignment."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from rods.analysis.profile import Profile
from rods.canonical import keyed_random
from rods.composing.records import BoundCall, ComposeError, Draft, Plan
from rods.config import Config, Gates
from rods.environments.base import Environment, Results
from rods.gates.records import Checked, Defect
from rods.gates.similarity import SimilarityIndex
from rods.tasks import AnyTask, OpenTask, Task, TaskType

T = TypeVar("T")
V = TypeVar("V", bound=AnyTask)
Texts = tuple[str, ...]  # what the user says, one text a turn of the draft
NO_CALLS = Profile("base", ())


@dataclass(frozen=True, slots=True)
class Assignment(Generic[V]):
    """Attempt number `attempt` (from 1) at variant `index` (from 0) of `pick`, as its author is
    given it, here or in another process.

    `root` is the original that the lineage began with. `failures` and `blocked` are what went wrong
    so far with this variant (004 Appendix F): structured errors and the cumulative blocklist of
    functions; both stay empty in blind retry. `limits` are what the gates hold a variant to; `same`
    says that it is to use the functions that its seed does, and not others, `narrative` that a
    story is to tie its turns together. `profile` is that of the root's ground-truth calls, with
    the type to write. `plan_number` counts the plans of this attempt."""

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

    def __str__(self) -> str:
        return f"{self.pick}/{self.index}/{self.attempt}"

    @property
    def key(self) -> tuple[int, str, int, int]:
        """What its chance is keyed by."""
        return self.random_seed, self.pick, self.index, self.attempt

    def after(self, error: ComposeError) -> "Assignment[V]":
        """The assignment of whoever learns from `error`."""
        if error in self.failures:
            return self
        blocked = self.blocked.union(error.functions)
        return replace(self, failures=(*self.failures, error), blocked=blocked)

    def shown(self, usual: int) -> int:
        """The most tools that the variant shows where `usual` are shown otherwise: no more than its
        seed shows, so that the choice among them is as hard."""
        return min(usual, len(self.seed.tools))

    @property
    def problem(self) -> str:
        """What was wrong with the attempt before; "" in blind retry."""
        return self.failures[-1].detail if self.failures else ""

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator, the same for the same attempt, plan and purpose: a plan that is
        executed again in a patched state makes the same choices."""
        seed, pick, index, attempt = self.key
        return keyed_random(seed, "author", pick, index, attempt, self.plan_number, purpose)


@dataclass(frozen=True, slots=True)
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

    async def plan(self, assignment: Assignment[Task]) -> Plan:
        """Stage I: functions in the root's shape without blocked ones, and the story that ties
        them."""

    async def initial_state(self, assignment: Assignment[Task], plan: Plan) -> dict[str, Any]:
        """Stage II: a new world in which the plan can be executed."""

    async def execute(
        self, assignment: Assignment[Task], plan: Plan, state: Mapping[str, Any]
    ) -> Draft:
        """Stage II: arguments bound and executed call by call in a fresh instance."""

    async def patch(
        self,
        assignment: Assignment[Task],
        plan: Plan | None,
        state: Mapping[str, Any],
        error: ComposeError,
    ) -> dict[str, Any] | None:
        """The error critic: `state` with the smallest change that may mend `error`, or None.
        Without a `plan` the planner failed: `state` is the seed's, and what is changed holds for
        states to come."""

    async def queries(self, assignment: Assignment[Task], draft: Draft) -> Texts:
        """Stage II: one query a turn, each written for itself; what is used where the rewrite is
        switched off."""

    async def rewrite(self, assignment: Assignment[Task], draft: Draft) -> Texts:
        """Stage III: all turns at once, tied together by the plan's narrative where it has one."""

    async def reword(
        self, assignment: Assignment[Task], draft: Draft, texts: Texts, defect: Defect
    ) -> Texts:
        """Stage IV's refinement: the turn of `defect` in new words, the others as they are."""

    async def form(
        self, assignment: Assignment[Task], draft: Draft, texts: Texts, type: TaskType
    ) -> Task:
        """The draft as a task: in the plain form (`base`), and in stage V in the form of the wanted
        type. Provenance records the `results` of its calls, one list of texts a turn: the gates'
        run has to give them again."""

    async def judge(
        self, assignment: Assignment[Task], draft: Draft, task: Task, results: Results | None = None
    ) -> Judgement:
        """Stage IV's last gate, asked again after stage V. `results`: of the gates' run (None: it
        did not run)."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What a kind is told of a run's language models when it says who writes. `by_model`:
    `pipeline.author` is "llm"; only then `writing` gives the `Asker` of a variant, by pick and
    index, with the account that it is paid from. Authors compute in `threads`."""

    config: Config
    threads: Executor
    by_model: bool
    writing: Callable[[str, int], Any]


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
