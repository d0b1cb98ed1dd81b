"""An author whose stages all ask the stub, on a bench: for tests of stages I and II."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.fixtures.llm_stub import Stub
from rods.composing.records import Plan, PlannedTurn
from rods.daemon.authors.base import Assignment, StagedAuthor
from rods.daemon.authors.catalogue_free import catalogue_with_tools
from rods.daemon.authors.llm import LLMAuthor
from rods.environments.base import Environment
from rods.llm import Usage
from rods.tasks import Task
from tests.daemon.authors.llm.world import asker_at, playing
from tests.daemon.pipelines import THREADS, Bench, listening, settings
from tests.environments import load


@dataclass
class Early:
    bench: Bench
    author: StagedAuthor
    environment: Environment
    calls: list[Usage] = field(default_factory=list)

    async def write(self, task: Task, pick: str = "1-x") -> Task | str:
        job = Assignment(pick, 0, task, task, 1)
        return await self.bench.pipeline.write(
            job, self.author, self.environment, lambda _: [], self.bench.rejections.append
        )

    def stages(self) -> list[str]:
        return [call.stage for call in self.calls]


@contextlib.asynccontextmanager
async def early(
    stub: Stub,
    habit: str,
    environment: str = "desk",
    *,
    structured: bool = True,
    tries: int = 3,
    **pipeline: Any,
) -> AsyncIterator[Early]:
    """An author with one habit of `early_habits`, or of `early_roles`, or `module:function`."""
    module = "early_roles" if habit == "good" else "early_habits"
    stub.use(playing(habit if ":" in habit else f"tests.daemon.authors.llm.{module}:{habit}"))
    config = settings(pipeline={"author": "llm", **pipeline})
    calls: list[Usage] = []
    async with asker_at(stub, calls=calls, structured=structured) as asker:
        asker.tries = tries
        author = LLMAuthor(load(environment), asker, config.pipeline, THREADS)
        yield Early(Bench(config), author, load(environment), calls)


def planned(environment: str, *turns: tuple[str, ...]) -> Plan:
    """A plan of these functions, one tuple a turn."""
    recipes = catalogue_with_tools(load(environment)).recipes
    return Plan(
        tuple(
            PlannedTurn(names, tuple(tool for name in names for tool in recipes[name].tools))
            for names in turns
        ),
        {"story": "Somebody tidies up."},
    )


def with_plan(who: Early, plan: Plan, state: Mapping[str, Any] | None = None) -> Any:
    """Lets `who` have this plan, and this world where one is given. Returns the author, its calls
    on record."""

    async def planned(given: Assignment, **options: Any) -> Plan:
        return plan

    async def settled(given: Assignment, plan: Plan) -> dict[str, Any]:
        return dict(state or {})

    instead: dict[str, Any] = {"plan": planned} | (
        {} if state is None else {"initial_state": settled}
    )
    who.author = listening(who.author, **instead)
    return who.author
