"""Episodes whose users, tools or verdicts wait for somebody else: played together, each in a
thread, and no other for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from rods.conversations import Persona
from rods.dialects.compact import Compact
from rods.environments.base import Instance
from rods.episode import drivers
from rods.episode.drivers import Job, run_episode, run_lockstep
from rods.episode.engine import Exchange, NeedOutcome, NeedText, Outcome, Reply, Trace
from rods.episode.goals import FinalState, goal_of
from rods.episode.users import procedural_user
from rods.episode.watchdog import Lanes, outside
from rods.errors import InfrastructureError
from rods.worlds import desk
from tests.environments import load
from tests.rods.episode.test_open_episodes import ASK, DONE, FIND, GOOD, PAID, WRONG, job

RUNS = [GOOD, [ASK, FIND, WRONG, DONE], [DONE], ["!"] * 4, [ASK, FIND, FIND, FIND, FIND]]


def lockstep(jobs: Sequence[Job], texts: Sequence[Sequence[str]]) -> list[Trace]:
    left = [iter(each) for each in texts]
    return run_lockstep(jobs, lambda waiting: [Reply(next(left[index])) for index, _ in waiting])


def at_once(jobs: Sequence[Job], texts: Sequence[Sequence[str]]) -> list[Trace]:
    """As the served engine does it."""

    async def one(job: Job, replies: Sequence[str], threads: Lanes) -> Trace:
        left = iter(replies)

        async def complete(need: NeedText) -> Reply:
            return Reply(next(left))

        return await run_episode(job, complete, threads)

    async def every() -> list[Trace]:
        with Lanes(len(jobs)) as threads:
            return await asyncio.gather(
                *(one(*each, threads) for each in zip(jobs, texts, strict=True))
            )

    return asyncio.run(every())


def alone(jobs: Sequence[Job], texts: Sequence[Sequence[str]]) -> list[Trace]:
    async def one(job: Job, replies: Sequence[str]) -> Trace:
        left = iter(replies)

        async def complete(need: NeedText) -> Reply:
            return Reply(next(left))

        return await run_episode(job, complete)

    async def every() -> list[Trace]:
        return await asyncio.gather(*map(one, jobs, texts))

    return asyncio.run(every())


Driver = Callable[[Sequence[Job], Sequence[Sequence[str]]], list[Trace]]
DRIVERS = pytest.mark.parametrize("driver", [lockstep, at_once, alone])


def test_an_episode_goes_on_as_soon_as_its_reply_is_there():
    jobs = [job() for _ in RUNS]
    left = [iter(each) for each in RUNS]
    asked: list[list[int]] = []

    def first_alone(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply | None]:
        asked.append([index for index, _ in waiting])
        mine = waiting[0][0]
        return [Reply(next(left[index])) if index == mine else None for index, _ in waiting]

    assert run_lockstep(jobs, first_alone) == lockstep(jobs, RUNS)
    behind = [*range(1, len(RUNS))]
    assert asked[: len(GOOD) + 1] == [[0, *behind]] * len(GOOD) + [behind]


@DRIVERS
def test_whoever_waits_plays_the_same_episodes(driver: Driver) -> None:
    task = desk.generate(1, 1, 0)[0]
    environment = load("desk")
    scripted = Job(task, environment, Compact(), goal_of(environment, task))
    calls = [*(Compact().write([call]) for call in task.calls[0]), *[Compact().answer("done")] * 9]
    jobs = [*[job()] * len(RUNS), scripted]
    texts = [*RUNS, calls]
    plain = lockstep(jobs, texts)
    assert len({trace.end for trace in plain}) > 1 and len({trace.resolved for trace in plain}) > 1
    for waits in ([True] * 6, [True, False] * 3):
        assert (
            driver([replace(each, waits=one) for each, one in zip(jobs, waits, strict=True)], texts)
            == plain
        )


@DRIVERS
def test_all_who_wait_do_so_together(driver: Driver) -> None:
    """No user answers before every user has been asked, and no verdict is given before every
    verdict was."""
    asked = threading.Barrier(3, timeout=60)
    judged = threading.Barrier(3, timeout=60)

    def user(persona: Persona, said: Exchange) -> str:
        asked.wait()
        return procedural_user(persona, said)

    class Verifier(FinalState):
        def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
            judged.wait()
            return super().outcome(instance, need)

    slow = replace(job(), user=user, goal=Verifier(PAID), waits=True)
    assert [trace.resolved for trace in driver([slow] * 3, [GOOD] * 3)] == [2] * 3


def test_in_lock_step_the_others_stay_in_the_main_thread_meanwhile() -> None:
    here = threading.current_thread()
    done = threading.Event()

    def quick(persona: Persona, said: Exchange) -> str:
        assert threading.current_thread() is here
        done.set()
        return procedural_user(persona, said)

    def slow(persona: Persona, said: Exchange) -> str:
        assert threading.current_thread() is not here and done.wait(60)
        return procedural_user(persona, said)

    traces = lockstep(
        [replace(job(), user=slow, waits=True), replace(job(), user=quick)], [GOOD] * 2
    )
    assert [trace.resolved for trace in traces] == [2, 2]


@DRIVERS
@pytest.mark.parametrize(
    "error", [InfrastructureError("gone"), KeyError("message"), StopIteration()]
)
def test_a_player_that_breaks_ends_its_own_episode(driver: Driver, error: Exception) -> None:
    def broken(persona: Persona, said: Exchange) -> str:
        raise error

    jobs = [replace(job(), waits=True), replace(job(), user=broken, waits=True)]
    well, lost = driver(jobs, [GOOD] * 2)
    assert well.resolved == 2 and (lost.end, lost.outcome) == ("infrastructure", None)


@pytest.mark.slow
def test_only_time_that_is_spent_on_computing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "Lanes", partial(Lanes, patience=2.0))
    over = threading.Event()

    def hung(persona: Persona, said: Exchange) -> str:
        over.wait()
        return ""

    def queued(persona: Persona, said: Exchange) -> str:
        with outside():
            time.sleep(2.7)
        return procedural_user(persona, said)

    jobs = [replace(job(), user=user, waits=True) for user in (hung, queued)]
    lost, well = lockstep(jobs, [[ASK, DONE]] * 2)
    over.set()
    assert lost.end == "infrastructure" and well.end == "finished"
    with outside():  # in no lane: it is nobody's time
        pass
