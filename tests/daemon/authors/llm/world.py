"""What tests of the LLM author share: a client at the stub, an asker, an assignment on desk."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from bench.fixtures.llm_stub import Script, Stub
from rods.analysis.profile import profile
from rods.config import Endpoint, Gates
from rods.daemon.authors.base import Assignment
from rods.daemon.authors.llm.questions import Asker
from rods.environments.base import Environment
from rods.llm import Client, Usage
from rods.tasks import Task
from tests.daemon.pipelines import seed
from tests.environments import load


@contextlib.asynccontextmanager
async def asker_at(
    stub: Stub, *, calls: list[Usage] | None = None, **endpoint: Any
) -> AsyncIterator[Asker]:
    """An asker for a variant named "1-x#0"; `calls` is filled with what every call cost."""
    settings = Endpoint(model="stub", urls=(stub.url,), retry_seconds=2.0, **endpoint)
    async with Client([settings], sink=None if calls is None else calls.append) as client:
        yield Asker(client, "stub", client.account("1-x#0"))


def assignment(
    task: Task | None = None, environment: Environment | None = None, attempt: int = 1
) -> Assignment:
    """Whose plans need not have the root's shape."""
    task = task or seed("base")
    environment = environment or load("desk")
    shape = profile(environment, task)
    free = Gates(profile=False)
    return Assignment("1-x", 0, task, task, 1, attempt, limits=free, profile=shape)


def playing(function: str, **more: Any) -> Script:
    """A script whose answers come from `module:function`; a bare name is one of asking_answers."""
    return Script(
        answer=function
        if ":" in function
        else f"tests.daemon.authors.llm.asking_answers:{function}",
        **more,
    )
