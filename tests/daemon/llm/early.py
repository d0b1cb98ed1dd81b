"""An author whose stages all ask the stub, on a bench: for tests of stages I and II."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bench.fixtures.llm_stub import Stub
from daemon.authors.base import Assignment, Author, Executor, Texts
from daemon.authors.catalogue_free.plain import library
from daemon.authors.llm import llm_author
from daemon.candidates import VariantJob
from rods.composing.records import Draft, Plan, PlannedTurn
from rods.environments import load
from rods.environments.base import Environment
from rods.llm import Usage
from rods.tasks import Task
from tests.daemon.llm.world import asker_at, playing
from tests.daemon.pipelines import THREADS, Bench, settings


@dataclass
class Early:
    bench: Bench
    author: Author
    environment: Environment
    calls: list[Usage] = field(default_factory=list)

    async def write(self, task: Task, pick: str = "1-x") -> Task | str:
        job = VariantJob(pick, 0, task, task, 1)
        return await self.bench.pipeline.write(
            job, self.author, self.environment, lambda _: [], self.bench.rejections.append
        )

    def stages(self) -> list[str]:
        return [call.stage for call in self.calls]


@contextlib.asynccontextmanager
async def early(
    stub: Stub, habit: str, environment: str = "desk", *, structured: bool = True, tries: int = 3, **pipeline: Any
) -> AsyncIterator[Early]:
    """An author with one habit of `early_habits`, or of `early_roles`."""
    module = "early_roles" if habit == "good" else "early_habits"
    stub.use(playing(f"tests.daemon.llm.{module}:{habit}"))
    config = settings(pipeline=pipeline)
    calls: list[Usage] = []
    async with asker_at(stub, calls=calls, structured=structured) as asker:
        asker.tries = tries
        author = llm_author(environment, asker, config.pipeline, THREADS, duplicates=config.gates.duplicates)
        yield Early(Bench(config), author, load(environment), calls)


class Fixed:
    """A planner that has made up its mind; `given` keeps the assignments."""

    def __init__(self, plan: Plan) -> None:
        self.made, self.given = plan, list[Assignment]()

    async def plan(self, given: Assignment, *, narrative: bool, functions: Literal["other", "same"]) -> Plan:
        self.given.append(given)
        return self.made


def planned(environment: str, *turns: tuple[str, ...]) -> Plan:
    """A plan of these functions, one tuple a turn."""
    recipes = library(environment).recipes
    return Plan(
        tuple(PlannedTurn(names, tuple(tool for name in names for tool in recipes[name].tools)) for names in turns),
        {"story": "Somebody tidies up."},
    )


class Settled:
    """An executor in a given world."""

    def __init__(self, executor: Executor, state: Mapping[str, Any]) -> None:
        self.executor, self.made = executor, state

    async def state(self, given: Assignment, plan: Plan) -> dict[str, Any]:
        return dict(self.made)

    async def realise(self, given: Assignment, plan: Plan, state: Mapping[str, Any]) -> Draft:
        return await self.executor.realise(given, plan, state)

    async def queries(self, given: Assignment, draft: Draft) -> Texts:
        return await self.executor.queries(given, draft)


def with_plan(who: Early, plan: Plan, state: Mapping[str, Any] | None = None) -> Fixed:
    """Lets `who` have this plan, and this world where one is given. Returns the planner."""
    planner = Fixed(plan)
    executor = who.author.executor if state is None else Settled(who.author.executor, state)
    who.author = replace(who.author, planner=planner, executor=executor)
    return planner
