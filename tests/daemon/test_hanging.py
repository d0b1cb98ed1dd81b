"""An environment that hangs in the daemon's own process costs its seeds, and neither the others nor
the service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rods.daemon.service import Service
from rods.deadlines import HANGS
from rods.environments.base import reference
from rods.episode.watchdog import Lanes
from rods.worlds import desk
from tests.daemon import hanging_environment as hanging
from tests.daemon.runs import Trainer, make_run, seeds, until, variants
from tests.environments import load

HANGING = "tests.daemon.hanging_environment:environment"


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """From its setting on, calls into the environment hang until the test is over."""
    monkeypatch.setattr(hanging, "over", threading.Event())
    hanging.hangs.clear()
    yield hanging.hangs
    hanging.hangs.clear()
    hanging.over.set()


async def test_an_environment_that_hangs_costs_its_seeds_and_not_the_service(
    tmp_path: Path, hung: threading.Event
) -> None:
    """While its calls hold all lanes, the trainer's steps are considered; given up, they leave room
    for other seeds."""
    bad = [
        replace(task, environment=reference(load(HANGING)), id="")
        for task in desk.generate(8, 4, 0)
    ]
    settings = {"pipeline": {"attempts": 1}, "selection": {"queue_steps": 100}}
    run = make_run(tmp_path / "run", settings, tasks=[*desk.generate(7, 4, 0), *bad])
    stop = asyncio.Event()
    with Trainer(run) as trainer, Lanes(2) as lanes:
        hung.set()
        service = Service(run, lanes)
        serving = asyncio.create_task(service.serve(stop))
        await asyncio.to_thread(trainer.play, 1)

        def considered(step: int) -> Callable[[], bool]:
            return lambda: service.log.state.last_considered >= step

        for _ in range(2):
            assert await asyncio.to_thread(hanging.hanging.acquire, timeout=100)
        for step in range(2, 5):
            await asyncio.to_thread(trainer.play, 1)
            await asyncio.to_thread(until, considered(step))
        hung.clear()
        lanes.patience = 1.0  # both lanes are held: nobody else is that late
        await asyncio.to_thread(until, lambda: lanes.lost == 2)
        lanes.patience = HANGS
        await asyncio.to_thread(until, lambda: not service.log.state.unfinished)
        stop.set()
        await serving
    ended = seeds(run.path, "finished")
    assert [record["why"] for record in ended].count("infrastructure") == 2
    assert len(variants(run.path)) > 1
