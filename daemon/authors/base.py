"""Who writes for a stage: one small contract a stage, asynchronous, so that a model behind an endpoint fits as well.

An author decides nothing about order, retries or gates: that is `daemon.pipeline`. What it cannot do it says with a
`ComposeError` of one of the twelve types (004 Appendix E). Every random choice comes from `Assignment.rng(purpose)`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rods.analysis.profile import Profile
from rods.canonical import keyed_random
from rods.composing.records import ComposeError, Draft, Plan
from rods.environments.base import Environment, Results
from rods.tasks import Task, TaskType

Texts = tuple[str, ...]  # what the user says, one text a turn of the draft


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt at one variant, as every stage sees it.

    `profile` is the root's. `failures` and `blocked` are what went wrong so far with this variant (004 Appendix F):
    structured errors and the cumulative blocklist of functions; both stay empty in blind retry. `plan_number` counts
    the plans of this attempt.
    """

    environment: Environment
    seed: Task
    root: Task
    profile: Profile
    key: tuple[int, str, int, int]  # the daemon's random seed, pick, variant index, pipeline attempt
    plan_number: int = 0
    failures: tuple[ComposeError, ...] = ()
    blocked: frozenset[str] = frozenset()

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator, the same for the same attempt, plan and purpose (DESIGN §5.2): a call sequence that is
        realised again in a mended state makes the same choices."""
        random_seed, pick, index, attempt = self.key
        return keyed_random(random_seed, "author", pick, index, attempt, self.plan_number, purpose)


@dataclass(frozen=True, slots=True)
class Fault:
    """What a judge holds against a candidate. A `query_fixable` fault lies in the words of `turn` (from 0), a
    `gt_unfixable` one in the calls (004 Appendix G)."""

    verdict: Literal["gt_unfixable", "query_fixable"]
    reason: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Accepted when there are no faults; `reason` is recorded either way."""

    reason: str
    faults: tuple[Fault, ...] = ()


class Planner(Protocol):
    """Stage I: a call sequence with the root's shape and without blocked functions, and the story that ties it."""

    async def plan(self, given: Assignment, *, narrative: bool, functions: Literal["other", "same"]) -> Plan: ...


class Executor(Protocol):
    """Stage II: a new initial state, arguments bound and executed call by call in a fresh instance, and one query a
    turn, each written for itself (what remains when the rewrite is switched off)."""

    async def state(self, given: Assignment, plan: Plan) -> dict[str, Any]: ...

    async def realise(self, given: Assignment, plan: Plan, state: Mapping[str, Any]) -> Draft: ...

    async def queries(self, given: Assignment, draft: Draft) -> Texts: ...


class Critic(Protocol):
    """Stage II's error critic: `state` with the smallest change that may mend `error`, or None."""

    async def mend(
        self, given: Assignment, plan: Plan, state: Mapping[str, Any], error: ComposeError
    ) -> dict[str, Any] | None: ...


class Rewriter(Protocol):
    """Stage III: all turns at once, tied together by the plan's narrative where it has one. `reword` says the turn at
    fault anew and leaves the others as they are (the refinement of stage IV)."""

    async def rewrite(self, given: Assignment, draft: Draft) -> Texts: ...

    async def reword(self, given: Assignment, draft: Draft, texts: Texts, fault: Fault) -> Texts: ...


class Former(Protocol):
    """The draft as a task: the plain form (`base`), and in stage V the form of the seed's type. Its provenance records
    the `results` of its calls, one list of texts a turn: the gates' run has to give them again."""

    async def form(self, given: Assignment, draft: Draft, texts: Texts, type: TaskType) -> Task: ...


class Judge(Protocol):
    """Stage IV's last gate, asked again after stage V. `results` are those of the gates' run (None: it did not run)."""

    async def judge(self, given: Assignment, draft: Draft, task: Task, results: Results | None = None) -> Judgement: ...


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes for which stage. `name` is recorded as the model, `hashes` as the prompt hashes."""

    name: str
    hashes: Mapping[str, str]
    planner: Planner
    executor: Executor
    critic: Critic
    rewriter: Rewriter
    former: Former
    judge: Judge
