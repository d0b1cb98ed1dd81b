"""An environment that hangs in the daemon's own process costs its seeds, and neither the others nor the service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from daemon import lanes as module
from daemon.lanes import Lanes
from daemon.service import Service
from rods.environments import desk, load
from rods.environments.base import reference
from rods.errors import InfrastructureError
from tests.daemon import hanging_environment as hanging
from tests.daemon.runs import Trainer, make_run, seeds, until, variants

HANGING = "tests.daemon.hanging_environment:environment"


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """From its setting on, calls into the environment hang until the test is over."""
    monkeypatch.setattr(hanging, "over", threading.Event())
    hanging.hangs.clear()
    yield hanging.hangs
    hanging.hangs.clear()
    hanging.over.set()


@pytest.fixture
def over() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_calls_run_beside_each_other_and_raise_what_they_raise() -> None:
    with Lanes(2) as lanes:
        meeting = threading.Barrier(2, timeout=60)
        for one in [lanes.submit(meeting.wait) for _ in range(2)]:
            one.result(60)
        with pytest.raises(ZeroDivisionError):
            lanes.submit(lambda: 1 / 0).result(60)
        assert lanes.submit(divmod, 7, 2).result(60) == (3, 1)


def test_a_call_that_hangs_fails_and_another_lane_takes_its_place(over: threading.Event) -> None:
    with Lanes(1, patience=0.1) as lanes:
        first, second = lanes.submit(over.wait), lanes.submit(divmod, 7, 2)
        with pytest.raises(InfrastructureError, match="sandbox"):
            first.result(60)
        assert second.result(60) == (3, 1)
        assert lanes.lost == 1


def test_when_too_many_hang_the_rest_fails_at_once(over: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    with Lanes(1, patience=0.05) as lanes:
        for one in [lanes.submit(over.wait) for _ in range(2)]:
            with pytest.raises(InfrastructureError):
                one.result(60)
        with pytest.raises(InfrastructureError, match="2 calls have never come back"):
            lanes.submit(divmod, 7, 2).result(60)


async def test_an_environment_that_hangs_costs_its_seeds_and_not_the_service(
    tmp_path: Path, hung: threading.Event
) -> None:
    """More of its seeds than there are lanes; the trainer's steps are considered all the while, and the other seeds are
    written."""
    bad = [replace(task, environment=reference(load(HANGING)), id="") for task in desk.generate(8, 4, 0)]
    run = make_run(tmp_path / "run", {"pipeline": {"attempts": 1}}, tasks=[*desk.generate(7, 4, 0), *bad])
    stop, names = asyncio.Event(), {task.id for task in run.tasks if task.environment.name == HANGING}
    with Trainer(run) as trainer, Lanes(3, patience=0.3) as lanes:
        hung.set()
        service = Service(run, lanes)
        serving = asyncio.create_task(service.serve(stop))
        for step in range(1, 5):
            await asyncio.to_thread(trainer.play, 1)
            await asyncio.to_thread(until, lambda step=step: service.log.state.last_considered >= step)
        await asyncio.to_thread(until, lambda: not service.log.state.unfinished)
        stop.set()
        await serving
    ended = [record for record in seeds(run.path, "finished") if record["pick"].split("-")[1] in names]
    assert {record["why"] for record in ended if not record.get("dropped_stale")} == {"infrastructure"}
    assert variants(run.path)
