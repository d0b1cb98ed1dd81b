"""A policy is scored on conversations like those it was trained in, its earlier reasoning
included."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest

from rods.episode.drivers import Job
from rods.episode.engine import NeedText, Reply, Trace
from rods.errors import UserError
from rods.family.benchmarks.episodes import EndpointReplies, Slots, play, rendered_template
from rods.family.benchmarks.folder import Episode, Settings
from rods.family.benchmarks.task_file import TaskFile, TaskMaker
from rods.tasks import AnyTask
from rods.worlds import desk
from tests.environments import ENVIRONMENTS
from tests.json_server import json_server


@contextmanager
def rendering(*, strips: bool, knows: bool = True, asked: list[str] | None = None) -> Iterator[str]:
    """A server with vLLM's /tokenize whose template keeps earlier reasoning, or `strips` it;
    `asked` gets the paths."""

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if asked is not None:
            asked.append(path)
        text = "".join(f"<{one['role']}>{one['content']}" for one in body["messages"])
        if strips:
            text = re.sub(r"<think>.*?</think>\s*", "", text, flags=re.DOTALL)
        found = knows and path == "/tokenize"
        return (200, {"tokens": list(text.encode())}) if found else (404, {"detail": "Not Found"})

    with json_server(answer) as url:
        yield url


def test_a_template_that_drops_reasoning_is_refused_with_a_remedy() -> None:
    with (
        rendering(strips=True) as url,
        pytest.raises(UserError, match=r"earlier reasoning.*--chat-template"),
    ):
        asyncio.run(rendered_template("policy", [url], keeps_reasoning=True))


def test_one_that_keeps_it_passes_and_so_does_a_server_that_does_not_say() -> None:
    kept: list[str] = []
    silent: list[str] = []
    with (
        rendering(strips=False, asked=kept) as one,
        rendering(strips=True, knows=False, asked=silent) as other,
    ):
        asyncio.run(rendered_template("policy", [one, other], keeps_reasoning=True))
    asyncio.run(rendered_template("policy", [one], keeps_reasoning=True))  # gone
    # with reasoning, and without where that was rendered
    assert kept == ["/tokenize"] * 2 and silent == ["/tokenize"]


def test_an_item_that_breaks_is_left_out_and_the_others_are_played() -> None:
    tasks = desk.generate(7, 4, 0)
    settings = Settings({"kind": "weights"}, protocol="hermes")

    class Breaking(TaskMaker):
        def job(self, task: AnyTask, before: Episode | None = None) -> Job:
            if task == tasks[1]:
                raise KeyError("an item")
            return super().job(task, before)

        def result(self, job: Job, trace: Trace) -> Any:
            return [] if job.task != tasks[2] else orjson.dumps(object())

    class Idle(EndpointReplies):
        def __init__(self) -> None:
            """Asks nobody."""

        async def reply(self, need: NeedText) -> Reply:
            return Reply("No.")

    done: list[Episode] = []
    maker = Breaking(TaskFile({}, environments=ENVIRONMENTS), settings)
    slots = Slots([(task, 0) for task in tasks], {})
    left = asyncio.run(
        play(lambda job, sample: Idle(), maker, slots, 1, done.append, lambda: False)
    )
    assert [episode.task for episode in done] == [tasks[0].id, tasks[3].id]
    assert sorted(left.values()) == [1, 1] and any("KeyError('an item')" in why for why in left)
