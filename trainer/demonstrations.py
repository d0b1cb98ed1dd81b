"""What supervised learning imitates: each task's known solution, played through the engine, or the episodes of a
teacher that `rods-eval run --tasks FILE` has kept.

The known solution of a task is its ground truth, or the witness of a generated scenario, or the calls that its rubric
expects. A demonstration writes one call a reply, so that a value which a call returns is in the conversation before it
is used. Where no call is right it says so: it asks for what is missing, or says that there is no tool for it. A user
who is played is asked for what it was not heard to say (rods/gates/witness.py).

Of a teacher's episodes those with faults are left out (003 Appendix B.2): a reply that could not be read as calls or as
an answer (`format`), an episode that was cut or ran out of replies (`unfinished`), and one that earned no more than
doing nothing does (`impossible`: the paper has a model judge which tasks cannot be done; here each has a known
solution, and what is left to find is a teacher that gave up).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import orjson

from buffers.log.tail import read
from rods import dialects
from rods.calls import Call
from rods.config import PolicySettings
from rods.conversations import Checks, Persona
from rods.dialects.base import Dialect
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.errors import UserError
from rods.files import read_regular
from rods.gates.witness import Witness
from rods.players import Players
from rods.tasks import AnyTask, OpenTask, Task

DONE = "Done."
ASK = "I need one more detail before I can do that. Could you tell me?"
LACK = "I have no tool for that at the moment."
SLACK = 8  # replies beside the calls of a known solution: what the user is asked
Fault = Literal["format", "unfinished", "impossible", "below least"]


def demonstrate(tasks: Sequence[AnyTask], policy: PolicySettings, environments: Environments) -> list[Trace]:
    """One resolved episode a task. Raises UserError for a task whose solution is not known, or does not resolve it."""
    dialect, players = dialects.load(policy.dialect), Players(environments)
    jobs = [players.job(task, dialect, max_steps=len(_solution(task)) + SLACK) for task in tasks]
    replies = [_policy(job) for job in jobs]
    traces = run_lockstep(jobs, lambda waiting: [replies[job](need) for job, need in waiting])
    for task, trace in zip(tasks, traces, strict=True):
        if not trace.binary:
            turns = enumerate(trace.turns)
            turn = next((place for place, one in turns if not (one.verdict and one.verdict.resolved)), 0)
            whole = f"the witness earns {trace.resolved} of {trace.expected}"
            raise UserError(
                f"the ground truth does not resolve turn {turn}" if isinstance(task, Task) else whole,
                where=f"task {task.id}",
                remedy="`rods data check FILE` says why",
            )
    return traces


def _solution(task: AnyTask) -> list[Call]:
    if isinstance(task, OpenTask) and "witness" in task.provenance:
        return [Call(each["name"], each["arguments"]) for each in task.provenance["witness"]]
    if isinstance(task, OpenTask) and (isinstance(task.goal, Checks) or not task.goal_calls):
        raise UserError(
            "nobody knows how it is done: it has neither ground truth nor a witness",
            where=f"task {task.id}",
            remedy="let a teacher play it (--teacher), or leave it out",
        )
    return list(task.goal_calls)


def _policy(job: Job) -> Callable[[NeedText], Reply]:
    task, calls = job.task, _solution(job.task)
    if isinstance(task, OpenTask) and isinstance(task.user, Persona):
        return Witness(job, calls).reply
    turns = task.calls if isinstance(task, Task) else (calls, *([] for _ in task.texts[1:]))
    plan = _replies(task, turns, job.dialect)
    return lambda need: Reply(next(plan))


def _replies(task: AnyTask, turns: Sequence[Sequence[Call]], dialect: Dialect) -> Iterator[str]:
    for calls in turns:
        for call in calls:
            yield dialect.write([call])
        lacking = (LACK if task.type == "miss_func" else ASK) if isinstance(task, Task) else DONE
        yield dialect.answer(DONE if calls else lacking)


def taught(folder: Path, tasks: Sequence[AnyTask], dialect: str) -> list[Trace]:
    """The episodes of the evaluation in `folder` that belong to `tasks`, in the order in which they ended. Raises
    UserError for another dialect's, and for a folder that keeps no conversations."""
    try:
        settings = orjson.loads(read_regular(folder / "evaluation.json"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"is no evaluation ({error})",
            where=str(folder),
            remedy="rods-eval run FOLDER --tasks FILE --split train --url ADDRESS --model NAME",
        ) from error
    if settings.get("protocol") != dialect:
        raise UserError(
            f"was played in the dialect {settings.get('protocol')!r}, and the policy is to learn {dialect!r}",
            where=str(folder),
            remedy=f"let the teacher play with --protocol {dialect}, or set policy.dialect",
        )
    wanted = {task.id for task in tasks}
    episodes = (one for one in read(folder / "episodes.jsonl") if one["kind"] == "episode" and one["task"] in wanted)
    try:
        return [Trace.from_json(json.loads(one["result"])["trace"]) for one in episodes]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"keeps no conversations ({error})",
            where=str(folder),
            remedy="play the tasks of a file (--tasks) with this version of rods-eval",
        ) from error


def fault(trace: Trace, least: float = 0.0, guards: int = 0) -> Fault | None:
    """Why a teacher's episode is not imitated; None where it is. `least`: the share of its goal that it has to have
    earned, in [0, 1], beside anything at all; `guards`: how many of its checks hold when nothing is done."""
    if any(step.error is not None for turn in trace.turns for step in turn.steps):
        return "format"
    if trace.end != "finished":
        return "unfinished"
    if trace.resolved <= guards:
        return "impossible"
    return "below least" if trace.resolved < least * trace.expected else None
