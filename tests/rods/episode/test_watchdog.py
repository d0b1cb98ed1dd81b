"""A call that never comes back fails, and whoever made it goes on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from rods.deadlines import HANGS
from rods.dialects.compact import Compact
from rods.environments.base import reference
from rods.episode import drivers, watchdog as module
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply
from rods.episode.goals import GroundTruth, SharedGroundTruth
from rods.episode.watchdog import Alarm, Lanes
from rods.errors import InfrastructureError
from rods.signals import GraceOver, StopRequest
from rods.worlds import desk
from tests.daemon import hanging_environment as hanging
from tests.environments import load


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
        with pytest.raises(InfrastructureError, match="sandbox"):
            lanes.submit(over.wait).result(60)
        lanes.patience = HANGS
        assert lanes.submit(divmod, 7, 2).result(60) == (3, 1)
        assert lanes.lost == 1


def test_when_too_many_hang_the_rest_fails_at_once(
    over: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_HANGING", 2)
    with Lanes(1, patience=0.05) as lanes:
        for one in [lanes.submit(over.wait) for _ in range(2)]:
            with pytest.raises(InfrastructureError):
                one.result(60)
        with pytest.raises(InfrastructureError, match="2 calls have never come back"):
            lanes.submit(divmod, 7, 2).result(60)


def test_in_the_main_thread_an_alarm_ends_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HANGING", 3)
    alarm = Alarm(0.05)
    swallowed: list[Exception] = []

    def stubborn() -> None:
        try:
            while True:
                time.sleep(60)
        except Exception as error:  # noqa: BLE001 - as an environment would
            swallowed.append(error)

    def computing() -> None:
        while True:
            pass

    for hangs in (threading.Event().wait, stubborn, computing):
        with pytest.raises(InfrastructureError, match=r"within 0.05 s.*sandbox"), alarm.within():
            hangs()
    assert swallowed == []  # it was no Exception that ended the environment
    with pytest.raises(InfrastructureError, match="3 calls have never come back"), alarm.within():
        pytest.fail("it is not tried again")
    quick = Alarm(1.0)
    for _ in range(3):
        with quick.within():
            time.sleep(0.01)
        with pytest.raises(ZeroDivisionError), quick.within():
            raise ZeroDivisionError
    time.sleep(1.5)  # nothing hangs between two calls
    assert quick.lost == 0


@pytest.mark.parametrize("seconds", [0.3, 5.0])
def test_a_stop_during_a_call_is_followed_by_its_grace_period(seconds: float) -> None:
    """Whether the call comes back within it or not: neither is the environment's failure."""
    alarm = Alarm(60)
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)  # the test's own time limit
    try:
        with StopRequest() as request, pytest.raises(GraceOver):
            request.grace = 0.5
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
            with alarm.within():
                time.sleep(seconds)
            time.sleep(10)
        assert request.asked and alarm.lost == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)


def test_a_rollout_whose_environment_hangs_is_an_infrastructure_failure_and_the_others_go_on(
    over: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "ALARM", Alarm(0.3))
    monkeypatch.setattr(hanging, "over", over)
    bad = load("tests.daemon.hanging_environment:environment")
    good = load("desk")
    task = desk.generate(1, 1, 0)[0]
    dialect = Compact()
    jobs = [
        Job(one, where, dialect, GroundTruth(where, one))
        for where in (bad, good)
        for one in [replace(task, environment=reference(where), id="")]
    ]

    def complete(needs: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        """A call in the first round, then nothing more."""
        rounds.append([index for index, _ in needs])
        text = dialect.write(task.calls[0]) if len(rounds) == 1 else dialect.answer("done")
        return [Reply(text, "stop") for _ in needs]

    rounds: list[list[int]] = []
    hanging.hangs.set()
    try:
        traces = run_lockstep(jobs, complete)
    finally:
        hanging.hangs.clear()
    assert [trace.end == "infrastructure" for trace in traces] == [True, False]
    assert rounds[0] == [0, 1] and all(one == [1] for one in rounds[1:]) and len(rounds) > 1
    assert drivers.ALARM.lost == 1


def test_a_ground_truth_that_hangs_costs_its_rollouts_once(
    over: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "ALARM", Alarm(0.3))
    monkeypatch.setattr(hanging, "over", over)
    bad = load("tests.daemon.hanging_environment:environment")
    good = load("desk")
    task = desk.generate(1, 1, 0)[0]
    hung = SharedGroundTruth(bad, replace(task, environment=reference(bad), id=""))
    sound = GroundTruth(good, task)
    jobs = [Job(task, good, Compact(), goal) for goal in (hung, hung, sound)]
    hanging.hangs.set()
    try:
        traces = run_lockstep(jobs, lambda needs: [Reply(Compact().answer("done")) for _ in needs])
    finally:
        hanging.hangs.clear()
    assert [trace.end for trace in traces] == ["infrastructure", "infrastructure", "finished"]
    assert drivers.ALARM.lost == 1
