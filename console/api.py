"""The Python API, `from rods import …`: play tasks with any policy, evaluate it, and take the
trainer's part in a run.

A policy is a function of the conversation so far that returns its next reply, text in the dialect's
form; a coroutine function is awaited, many episodes at once. Nothing here needs torch.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal, Self

from rods import dialects, logs
from rods.buffers.run.creation import open_or_create
from rods.buffers.run.run import Run
from rods.buffers.state import RunState, read_state as state_of
from rods.canonical import JsonObject, frozen
from rods.config import Config
from rods.dialects import Message
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_episode, run_lockstep
from rods.episode.engine import MAX_STEPS, NeedText, Reply, Trace
from rods.episode.rewards import score as scored
from rods.errors import InfrastructureError
from rods.evaluation.scoring import Estimate, rollout_scores, share
from rods.observations import Group, Rollout
from rods.players import Players
from rods.signals import StopRequest
from rods.tasks import AnyTask, read_tasks
from rods.trainer.batches import by_slot, groups as groups_of
from rods.trainer.policy import Batch, TrainingStopped
from rods.trainer.reports import check_unrefilled
from rods.trainer.training_run import TrainingRun

PolicyFunction = Callable[[Sequence[Message]], str | Awaitable[str]]
DialectName = Literal["tags", "hermes", "compact"]
AT_ONCE = 64  # episodes that wait for an asynchronous policy


def play(
    task: AnyTask,
    policy: PolicyFunction,
    *,
    dialect: DialectName = "hermes",
    environments: Environments | None = None,
) -> Trace:
    """One episode of `task`: its replies, calls, results and verdicts, turn by turn. The text of
    calls is in the form of `dialect`, which the system message explains to the policy."""
    job = Players(environments or Environments()).job(
        task, dialects.load(dialect), max_steps=MAX_STEPS
    )
    return _play([job], policy)[0]


@frozen
class Evaluation:
    """`progress`: the share of turns resolved; `solved`: the share of rollouts with all turns
    resolved; both with 95 % intervals over tasks. `traces` are the rollouts task by task; `broken`
    of them ended by an infrastructure failure and do not count, some of them by what the policy has
    raised (`errors`)."""

    progress: Estimate
    solved: Estimate
    traces: tuple[tuple[Trace, ...], ...]
    broken: int
    errors: tuple[Exception, ...] = ()


def evaluate(
    tasks: Path | str | Sequence[AnyTask],
    policy: PolicyFunction,
    *,
    rollouts: int = 1,
    dialect: DialectName = "hermes",
    environments: Environments | None = None,
) -> Evaluation:
    """Plays each task `rollouts` times. `tasks` may be a JSONL file. An exception of the policy
    breaks its rollout alone. Raises ValueError when no rollout counts."""
    if callable(tasks):
        raise TypeError("evaluate(tasks, policy): the tasks come first")
    task_list = read_tasks(Path(tasks)) if isinstance(tasks, (str, Path)) else list(tasks)
    players = Players(environments or Environments())
    jobs = [players.job(task, dialects.load(dialect), max_steps=MAX_STEPS) for task in task_list]
    errors: list[Exception] = []
    played = _play([job for job in jobs for _ in range(rollouts)], policy, errors)
    groups = tuple(
        tuple(played[start : start + rollouts]) for start in range(0, len(played), rollouts)
    )
    valid = [
        [scored(trace, "progress") for trace in group if trace.end != "infrastructure"]
        for group in groups
    ]
    if not any(valid):
        raise ValueError("no rollout counts") from next(iter(errors), None)
    means = rollout_scores(
        (str(place), rollout) for place, group in enumerate(valid) for rollout in group
    )
    return Evaluation(
        share(list(means["progress"].values())),
        share(list(means["solved"].values())),
        groups,
        sum(trace.end == "infrastructure" for trace in played),
        tuple(errors),
    )


@frozen
class Training:
    """The trainer's part in a run, as an iterator over its batches:

        with open_training("runs/mine", policy, config="run.toml") as training:
            for batch in training:
                played = training.play(batch)
                training.record(batch, played)  # on the disk before the update that it causes
                …                               # the update

    Merges, checkpoints, resumption after a kill and lockstep with the daemon are those of
    `rods-train`. `run` is the `TrainingRun` behind it, whose `rods.trainer.policy.Policy` this is.
    """

    run: TrainingRun
    policy: PolicyFunction
    save: Callable[[Path], None]
    load: Callable[[Path], None]
    signals: AbstractContextManager[Any]

    def __enter__(self) -> Self:
        self.signals.__enter__()
        self.run.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.run.__exit__(*error)
        self.signals.__exit__(*error)

    def __iter__(self) -> Iterator[Batch]:
        self.run.begin(self)
        while self.run.stopping is None:
            try:
                batch = self.run.next_batch()
            except TrainingStopped:
                return
            yield batch
            self.run.after_update()

    @property
    def config(self) -> Config:
        return self.run.config

    def play(self, batch: Batch) -> list[Sequence[Trace]]:
        """`rollouts.rollouts_per_task` episodes of each slot, with the prompt and the interface of
        its stage."""
        players = self.run.run.players
        jobs = players.jobs(batch.tasks, self.config, batch.rules, batch.interface)
        return by_slot(batch, _play(jobs, self.policy))

    def record(self, batch: Batch, played: Sequence[Sequence[Trace | Rollout]]) -> list[Group]:
        """Makes what the slots of `batch` earned durable, one group a slot; returns the groups,
        with rewards. A rollout that was not played here is given as a `Rollout`."""
        groups = groups_of(batch, played, self.config, self.run.run.players)
        self.run.record(batch, groups)
        return groups

    def validate(self, tasks: Sequence[AnyTask]) -> list[float | None]:
        """The progress of an episode of each task; None where the machinery failed."""
        traces = _play([self.run.run.episode(task) for task in tasks], self.policy)
        return [
            None if trace.end == "infrastructure" else trace.resolved / trace.expected
            for trace in traces
        ]


def open_training(
    folder: Path | str,
    policy: PolicyFunction,
    *,
    config: Path | str | None = None,
    save: Callable[[Path], None] | None = None,
    load: Callable[[Path], None] | None = None,
    asked_to_stop: Callable[[], bool] | None = None,
) -> Training:
    """Takes the trainer's part in the run in `folder`, made from the file `config` where there is
    none.

    `save` writes the policy's state into an empty folder at each checkpoint, `load` restores it
    when a run goes on; without them a run can go on only with a policy that does not change.
    Without `asked_to_stop`, SIGTERM and Ctrl-C ask, once the training is entered in the main
    thread: the loop ends behind its step, with a checkpoint. Raises UserError, and RefusedError
    where another trainer owns the run, or where its steps are refilled.
    """
    run = open_run(folder, config)
    logs.offer(run.config.operation.log_level)
    check_unrefilled(run)
    request = StopRequest()
    main = threading.current_thread() is threading.main_thread()
    own = TrainingRun(run, asked_to_stop or (lambda: request.asked))
    signals = request if main and asked_to_stop is None else nullcontext()
    return Training(
        own, policy, save or (lambda folder: None), load or (lambda folder: None), signals
    )


def open_run(folder: Path | str, config: Path | str | None = None) -> Run:
    """The run in `folder`, made from the file `config` where there is none. Raises UserError where
    there is none and no file, and RefusedError for a run of another identity than the file's."""
    return open_or_create(folder, config)


def score(folder: Path | str, step: int | None = None, policy: Sequence[str] = ()) -> JsonObject:
    """Held-out scores of a run, as `rods trainer score` prints them: of the checkpoint of `step`,
    or of the first and the newest, with their paired difference. Made where they are missing.

    `policy` names what another program has trained up to `step` (None: the last), in options of
    `rods eval run`: ["--url", ADDRESS, "--model", NAME], or ["--weights", FOLDER]."""
    # transformers reads it when it is imported
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from rods.evaluation import heldout  # torch

    path = Path(folder)
    if policy:
        from rods.console import played

        return played.score(path, step, policy)
    return heldout.compare(path) if step is None else heldout.score_run(path, step)


def read_state(folder: Path | str) -> RunState:
    """Where the run in `folder` stands, read from its files and nothing else: `.pool`, `.staging`,
    `.tracker`, `.task(id)`, `.gauges()`."""
    return state_of(Run.open(Path(folder)))


def _play(
    jobs: Sequence[Job], policy: PolicyFunction, errors: list[Exception] | None = None
) -> list[Trace]:
    """The episodes of `jobs`. `errors` takes what the policy raises, each of which breaks a rollout
    alone; without it, all but InfrastructureError is raised."""
    if inspect.iscoroutinefunction(policy) or inspect.iscoroutinefunction(type(policy).__call__):
        return asyncio.run(_play_at_once(jobs, policy, errors))

    def reply(need: NeedText) -> Reply:
        try:
            return Reply(_text(policy(need.messages)))
        except Exception as error:  # noqa: BLE001 anything of a policy breaks its rollout
            return _broken(error, errors)

    return run_lockstep(jobs, lambda waiting: [reply(need) for _, need in waiting])


async def _play_at_once(
    jobs: Sequence[Job], policy: Callable[[Sequence[Message]], Any], errors: list[Exception] | None
) -> list[Trace]:
    free = asyncio.Semaphore(AT_ONCE)

    async def complete(need: NeedText) -> Reply:
        try:
            return Reply(_text(await policy(need.messages)))
        except Exception as error:  # noqa: BLE001 anything of a policy breaks its rollout
            return _broken(error, errors)

    async def episode(job: Job) -> Trace:
        async with free:
            return await run_episode(job, complete)

    return list(await asyncio.gather(*map(episode, jobs)))


def _broken(error: Exception, errors: list[Exception] | None) -> Reply:
    if errors is not None:
        errors.append(error)
    elif not isinstance(error, InfrastructureError):
        raise error
    return Reply(repr(error), "infrastructure")


def _text(reply: Any) -> str:
    if not isinstance(reply, str):
        raise TypeError(f"the policy returned a {type(reply).__name__}; a reply is text")
    return reply
