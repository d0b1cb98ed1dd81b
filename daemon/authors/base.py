"""The contract between the pipeline and whoever writes: one method a stage, asynchronous, so that a model behind an
endpoint fits as well as a pure function in a thread.

An author decides nothing about order, retries or gates: that is `daemon.pipeline`. What it cannot do it reports as a
`ComposeError` of one of the twelve types (004 Appendix E); broken machinery (`InfrastructureError`, `EndpointError`,
`BudgetSpent`) passes through any method. Every random choice comes from `Assignment.rng(purpose)`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from rods.analysis.profile import Profile
from rods.canonical import keyed_random
from rods.composing.records import ComposeError, Draft, Plan
from rods.config import Gates
from rods.environments.base import Environment, Results
from rods.tasks import Task, TaskType

T = TypeVar("T")
Texts = tuple[str, ...]  # what the user says, one text a turn of the draft


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt at one variant, as every stage sees it.

    `profile` is the root's, `limits` what the gates hold a variant to. `failures` and `blocked` are what went wrong so
    far with this variant (004 Appendix F): structured errors and the cumulative blocklist of functions; both stay empty
    in blind retry. `plan_number` counts the plans of this attempt.
    """

    environment: Environment
    seed: Task
    root: Task
    profile: Profile
    key: tuple[int, str, int, int]  # the daemon's random seed, pick, variant index, pipeline attempt
    limits: Gates
    plan_number: int = 0
    failures: tuple[ComposeError, ...] = ()
    blocked: frozenset[str] = frozenset()

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator, the same for the same attempt, plan and purpose: a plan that is executed again in a
        patched state makes the same choices."""
        random_seed, pick, index, attempt = self.key
        return keyed_random(random_seed, "author", pick, index, attempt, self.plan_number, purpose)


@dataclass(frozen=True, slots=True)
class Defect:
    """What a judge holds against a candidate: in the words of `turn` (from 0) when `query_fixable`, in the calls when
    `gt_unfixable` (004 Appendix G)."""

    verdict: Literal["gt_unfixable", "query_fixable"]
    reason: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Accepted when there are no defects; `reason` is recorded either way."""

    reason: str
    defects: tuple[Defect, ...] = ()


class Author(Protocol):
    """Who writes variants. `name` is recorded as the model, `hashes` as the prompt hashes of what was used."""

    @property
    def name(self) -> str: ...

    @property
    def hashes(self) -> Mapping[str, str]: ...

    async def plan(self, given: Assignment, *, narrative: bool, functions: Literal["other", "same"]) -> Plan:
        """Stage I: functions in the root's shape without blocked ones (`functions`: others than the seed's, or just
        these), and the story that ties them."""

    async def initial_state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        """Stage II: a new world in which the plan can be executed."""

    async def execute(self, given: Assignment, plan: Plan, state: Mapping[str, Any]) -> Draft:
        """Stage II: arguments bound and executed call by call in a fresh instance."""

    async def patch(
        self, given: Assignment, plan: Plan | None, state: Mapping[str, Any], error: ComposeError
    ) -> dict[str, Any] | None:
        """The error critic: `state` with the smallest change that may mend `error`, or None. Without a `plan` the
        planner failed: `state` is that of the last plan, or the seed's, and what is changed holds for states to
        come."""

    async def queries(self, given: Assignment, draft: Draft) -> Texts:
        """Stage II: one query a turn, each written for itself; what is used where the rewrite is switched off."""

    async def rewrite(self, given: Assignment, draft: Draft) -> Texts:
        """Stage III: all turns at once, tied together by the plan's narrative where it has one."""

    async def reword(self, given: Assignment, draft: Draft, texts: Texts, defect: Defect) -> Texts:
        """Stage IV's refinement: the turn of `defect` in new words, the others as they are."""

    async def form(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task:
        """The draft as a task: in the plain form (`base`), and in stage V in the form of the seed's type. Provenance
        records the `results` of its calls, one list of texts a turn: the gates' run has to give them again."""

    async def judge(self, given: Assignment, draft: Draft, task: Task, results: Results | None = None) -> Judgement:
        """Stage IV's last gate, asked again after stage V. `results` are those of the gates' run (None: it did not
        run)."""


def in_thread(threads: Executor, function: Callable[[], T]) -> asyncio.Future[T]:
    """`function()`, computed in one of `threads`, so that no seed holds up the others."""
    return asyncio.get_running_loop().run_in_executor(threads, function)
