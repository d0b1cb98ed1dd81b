"""Drivers of the episode engine: many episodes in lock-step, or one in asyncio.

Both hold the instances and answer calls, users and verdicts; the caller only supplies the policy's
replies. Episodes that wait for somebody else are advanced in threads, all of a round together: it
takes as long as the slowest of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, TypedDict, runtime_checkable

from rods.calls import Call
from rods.canonical import frozen
from rods.conversations import Persona
from rods.dialects import Dialect
from rods.environments.base import Environment, Instance, Result, opened
from rods.episode import engine
from rods.episode.goals import Goal, WholeGoal
from rods.episode.users import User, procedural_user
from rods.episode.watchdog import Alarm, Lanes
from rods.errors import InfrastructureError, UserError
from rods.interfaces import IDENTITY, Interface
from rods.logs import log
from rods.tasks import AnyTask, OpenTask, Task

ALARM = Alarm()


@frozen
class Job:
    """One episode to run. `goal` may be shared by all episodes of the task: a `Goal` for a `Task`,
    a `WholeGoal` for an `OpenTask`. `user` says what a persona's user says, `world` makes the world
    (None: the environment does, from the task's state). `waits`: whether one of them waits for
    somebody else, a server say, whoever waits longer than rods.deadlines.HANGS doing so `outside`
    (rods.episode.watchdog)."""

    task: AnyTask
    environment: Environment
    dialect: Dialect
    goal: Goal | WholeGoal
    interface: Interface = IDENTITY
    max_steps: int = engine.MAX_STEPS
    visible_only: bool = True
    user: User = procedural_user
    world: Callable[[], Instance] | None = None
    waits: bool = False

    @property
    def slow(self) -> bool:
        """Whether it, or the environment itself, waits for somebody else."""
        return self.waits or self.environment.features.waits

    @property
    def trouble(self) -> str:
        """What has ended it that is not the policy's, where a part of it knows."""
        return ""

    def engine(self) -> Generator[engine.Request, Any, engine.Trace]:
        """The episode, before its first request."""
        rules = self.interface, self.max_steps, self.visible_only
        return engine.Episode(self.task, self.environment, self.dialect, *rules).play()


class Parts(TypedDict, total=False):
    """Fields of a `Job` that somebody plays."""

    goal: Goal | WholeGoal
    user: User
    world: Callable[[], Instance]
    waits: bool


@runtime_checkable
class Played(Protocol):
    """An instance whose results depend on the conversation, not on its state alone: tools that a
    model plays (001)."""

    def results(self, need: engine.NeedCalls) -> Sequence[Result]:
        """The results of `need.calls`, in order. Raises InfrastructureError where nobody plays
        them."""


class Running:
    """An episode with its world: `advance` makes the world, answers calls, users and verdicts
    itself, and stops where the policy's text is needed. A world that breaks, or does not answer,
    ends it as an infrastructure failure."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.instance: Instance | None = None
        self.engine = job.engine()

    def advance(self, answer: engine.Answer) -> engine.NeedText | engine.Trace:
        try:
            with ALARM.within():
                if self.instance is None:
                    with self._guarded():
                        self.instance = self._world()
                request = self.engine.send(answer)
                while not isinstance(request, engine.NeedText):
                    with self._guarded():
                        reply = self._answer(request)
                    request = self.engine.send(reply)
                return request
        except StopIteration as stop:
            trace: engine.Trace = stop.value
            return trace
        except InfrastructureError:
            return self.lost()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Around what world, user or goal answer. Raises InfrastructureError for whatever they
        broke over: one episode's trouble must not end the batch."""
        try:
            yield
        except (InfrastructureError, UserError):
            raise
        except (Exception, SystemExit) as error:
            log.warning("a player broke", task=self.job.task.id, exc_info=True)
            raise InfrastructureError(f"a player broke: {error!r}") from error

    def _world(self) -> Instance:
        if self.job.world is not None:
            return self.job.world()
        try:
            return opened(self.job.environment, self.job.task)
        except ValueError as error:  # it was accepted when the task was: no policy has asked for it
            raise InfrastructureError(
                f"the state of task {self.job.task.id} is refused: {error}"
            ) from error

    def lost(self) -> engine.Trace:
        job = self.job
        return engine.Trace(job.task.id, (), "infrastructure", job.task.expected)

    def _answer(self, request: engine.Request) -> engine.Answer:
        assert self.instance is not None
        if isinstance(request, engine.NeedCalls):
            if isinstance(self.instance, Played):
                return self.instance.results(request)
            return [_result(self.instance, call) for call in request.calls]
        task = self.job.task
        goal = self.job.goal
        if isinstance(request, engine.NeedUser):
            assert isinstance(task, OpenTask) and isinstance(task.user, Persona)
            return self.job.user(task.user, request.said)
        if isinstance(request, engine.NeedOutcome):
            assert isinstance(goal, WholeGoal)
            return goal.outcome(self.instance, request)
        assert isinstance(request, engine.NeedVerdict) and not isinstance(goal, WholeGoal)
        return goal.verdict(self.instance, request)


def ground_truth(job: Job) -> Generator[tuple[engine.NeedText, str], None, engine.Trace]:
    """The episode of a policy that makes the calls of a `Task`'s ground truth, all of a turn in one
    reply, and answers shortly: what it is asked, and its reply. Ends where the world breaks.
    Returns its trace."""
    assert isinstance(job.task, Task)
    running = Running(job)
    turn = -1
    request = running.advance(None)
    while isinstance(request, engine.NeedText):
        calls = job.task.calls[request.turn] if request.turn > turn else ()
        turn = request.turn
        text = job.dialect.write(calls) if calls else job.dialect.answer("Done.")
        yield request, text
        request = running.advance(engine.Reply(text))
    return request


def _result(instance: Instance, call: Call) -> Result:
    try:
        return instance.call(call)
    except InfrastructureError as error:
        return Result(str(error), error="infrastructure")


def run_lockstep(
    jobs: Sequence[Job],
    complete: Callable[[Sequence[tuple[int, engine.NeedText]]], Sequence[engine.Reply | None]],
) -> list[engine.Trace]:
    """Runs all jobs together; returns their traces in order. `complete` gets (job index, need) of
    every episode that still waits for text and returns a reply for each, in the same order, or None
    where it is not there yet, of at most all but one. Jobs that wait are advanced in threads, one
    each; the others, meanwhile, in this one. What is asked together depends on replies alone, never
    on who was quicker."""
    running = [Running(job) for job in jobs]
    traces: dict[int, engine.Trace] = {}
    answers: dict[int, engine.Reply | None] = dict.fromkeys(range(len(jobs)))
    waiting: dict[int, engine.NeedText] = {}
    slow = sum(job.slow for job in jobs)
    with Lanes(slow, "player") if slow else nullcontext() as threads:
        while answers or waiting:
            begun: dict[int, Future[engine.NeedText | engine.Trace]] = {}
            if threads is not None:
                begun = {
                    i: threads.submit(running[i].advance, answers[i])
                    for i in answers
                    if running[i].job.slow
                }
            requests = {i: running[i].advance(answers[i]) for i in answers if i not in begun}
            for index, future in begun.items():
                try:
                    requests[index] = future.result()
                except InfrastructureError:  # it did not come back (rods.episode.watchdog)
                    requests[index] = running[index].lost()
            for index, request in requests.items():
                if isinstance(request, engine.Trace):
                    traces[index] = request
                else:
                    waiting[index] = request
            asked = sorted(waiting.items())
            replies = complete(asked) if asked else ()
            answers = {
                index: reply
                for (index, _), reply in zip(asked, replies, strict=True)
                if reply is not None
            }
            for index in answers:
                del waiting[index]
    return [traces[index] for index in range(len(jobs))]


async def run_episode(
    job: Job,
    complete: Callable[[engine.NeedText], Awaitable[engine.Reply]],
    threads: Executor | None = None,
) -> engine.Trace:
    """Runs one job, awaiting text from `complete`, in one of `threads`; without, in place, or one
    of its own if it waits."""
    if threads is None and job.slow:
        with Lanes(1, "player") as own:
            return await run_episode(job, complete, own)
    running = Running(job)
    answer: engine.Reply | None = None
    while True:
        if threads is None:
            request = running.advance(answer)
        else:
            try:
                request = await asyncio.get_running_loop().run_in_executor(
                    threads, running.advance, answer
                )
            except InfrastructureError:  # it did not come back (rods.episode.watchdog)
                request = running.lost()
        if not isinstance(request, engine.NeedText):
            return request
        answer = await complete(request)
