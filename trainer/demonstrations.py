"""Demonstrations without flaws: the ground truth of tasks, written in a policy's dialect and played in their worlds.

One call a reply, so that a value which a call finds out is on the screen before it is used. Where no call is right the
demonstration says so: it asks for what is missing, or says that there is no tool for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rods import dialects
from rods.config import PolicySettings
from rods.dialects.base import Dialect
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import GroundTruth
from rods.errors import UserError
from rods.tasks import Task

DONE = "Done."
ASK = "I need one more detail before I can do that. Could you tell me?"
LACK = "I have no tool for that at the moment."


def demonstrate(tasks: Sequence[Task], policy: PolicySettings, environments: Environments) -> list[Trace]:
    """One resolved episode a task. Raises UserError for a task whose ground truth does not resolve its turns."""
    dialect = dialects.load(policy.dialect)
    plans = [_replies(task, dialect) for task in tasks]
    jobs = []
    for task in tasks:
        world = environments.load(task.environment.name)
        longest = max(len(calls) for calls in task.calls) + 1
        jobs.append(Job(task, world, dialect, GroundTruth(world, task), max_steps=longest))

    def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [Reply(next(plans[job])) for job, _ in waiting]

    traces = run_lockstep(jobs, complete)
    for task, trace in zip(tasks, traces, strict=True):
        if not trace.binary:
            turn = next(
                (place for place, one in enumerate(trace.turns) if not (one.verdict and one.verdict.resolved)), 0
            )
            raise UserError(
                f"the ground truth does not resolve turn {turn}",
                where=f"task {task.id}",
                remedy="`rods data check FILE` says why",
            )
    return traces


def as_chat(task: Task, trace: Trace) -> dict[str, Any]:
    """The demonstration in the common chat format: {"messages": [{"role", "content"}, …], …}."""
    messages = [{"role": message.role, "content": message.content} for message in trace.messages]
    return {"messages": messages, "task": task.id, "type": task.type, "split": task.split}


def _replies(task: Task, dialect: Dialect) -> Iterator[str]:
    for calls in task.calls:
        for call in calls:
            yield dialect.write([call])
        lacking = LACK if task.type == "miss_func" else ASK
        yield dialect.answer(DONE if calls else lacking)
