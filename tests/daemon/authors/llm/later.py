"""An author whose stages I and II are procedural, and known to go well, and whose stages III to V
ask the stub."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from bench.fixtures.llm_stub import Stub
from rods.config import Config
from rods.daemon.authors.base import StagedAuthor
from rods.daemon.authors.llm import LLMAuthor
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.llm import Usage
from rods.tasks import Task
from tests.daemon.authors.llm.world import asker_at, playing
from tests.daemon.pipelines import THREADS, Bench, seed, settings, steady
from tests.environments import load


@dataclass
class Later:
    """A bench, its author, who wrote the first stages, and the calls that were made."""

    bench: Bench
    author: Any
    first: StagedAuthor
    calls: list[Usage] = field(default_factory=list)

    def stages(self) -> list[str]:
        return [call.stage for call in self.calls]


@contextlib.asynccontextmanager
async def later(
    stub: Stub,
    habit: str = "good",
    *,
    of: Task | None = None,
    structured: bool = True,
    **pipeline: Any,
) -> AsyncIterator[Later]:
    """An author against the stub with one habit of `later_roles`, for the seed `of` (desk's base
    one where none is given). One attempt, unless `pipeline` says more."""
    config: Config = settings(pipeline={"author": "llm", "attempts": 1, **pipeline})
    stub.use(playing(f"tests.daemon.authors.llm.later_roles:{habit}"))
    calls: list[Usage] = []
    async with asker_at(stub, calls=calls, structured=structured) as asker:
        task = of or seed()
        environment = task.environment.name
        first = (
            await steady(task)
            if environment == "desk"
            else ProceduralAuthor.of(load(environment), THREADS)
        )
        author: Any = LLMAuthor(load(environment), asker, config.pipeline, THREADS)
        author.plan = first.plan
        author.initial_state = first.initial_state
        author.execute = first.execute
        author.patch = first.patch
        author.queries = first.queries
        yield Later(Bench(config), author, first, calls)
