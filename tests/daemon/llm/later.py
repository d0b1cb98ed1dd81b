"""An author whose stages I and II are procedural, and known to go well, and whose stages III to V ask the stub."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from bench.fixtures.llm_stub import Stub
from daemon.authors.base import Author
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.forming import Former
from daemon.authors.llm.judging import Judge
from daemon.authors.llm.rewriting import Rewriter
from daemon.authors.procedural import procedural_author
from rods.composing.catalogue import catalogue_for
from rods.config import Config
from rods.llm import Usage
from rods.tasks import Task
from tests.daemon.llm.world import asker_at, playing
from tests.daemon.pipelines import THREADS, Bench, seed, settings, steady


@dataclass
class Later:
    """A bench, its author, and the calls that were made."""

    bench: Bench
    author: Author
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
    """An author against the stub with one habit of `later_roles`, for the seed `of` (desk's base one where none is
    given). One attempt, unless `pipeline` says more."""
    config: Config = settings(pipeline={"attempts": 1, **pipeline})
    stub.use(playing(f"tests.daemon.llm.later_roles:{habit}"))
    calls: list[Usage] = []
    async with asker_at(stub, calls=calls, structured=structured) as asker:
        task = of or seed()
        environment = task.environment.name
        catalogue = catalogue_for(environment)
        early = await steady(task) if environment == "desk" else procedural_author(environment, THREADS)
        author = Author(
            "stub",
            asker.hashes,
            planner=early.planner,
            executor=early.executor,
            critic=early.critic,
            rewriter=Rewriter(asker, config.pipeline, early.executor),
            former=Former(catalogue, asker, config.pipeline, Compute(THREADS)),
            judge=Judge(asker, config.pipeline, Compute(THREADS)),
        )
        yield Later(Bench(config), author, calls)
