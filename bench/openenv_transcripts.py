"""Whether an environment behind an OpenEnv address plays as it does here.

Claim: of 200 tasks each of desk and bfcl, every transcript is the same, prompts, answers and
verdicts. Anchor: the same episodes in process. Command: `python -m bench.openenv_transcripts`.

The policy is a script: the ground truth, with wrong calls between (no such tool, an argument too
many, one lacking).
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from bench.figures import Figure, run
from bench.fixtures.openenv_server import served
from rods import dialects
from rods.calls import Call
from rods.canonical import keyed_random
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.environments.replay import Replayed
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import goal_of
from rods.tasks import Task
from rods.worlds.openenv.description import ENDING, OpenEnvDescription
from rods.worlds.openenv.world import OpenEnvironment, introduced

TASKS = 200
TOGETHER = 16  # episodes
SESSIONS = 512  # with worlds of the ground truth, which are kept for a while


def measure(quick: bool) -> list[Figure]:
    from rods.worlds import bfcl
    from rods.worlds.desk.generator import generate

    found = []
    many = 20 if quick else TASKS
    for name, tasks in (("desk", generate(0, many, 0)), ("bfcl", bfcl.tasks()[:: 800 // many])):
        environment = Environments().load(name)
        began = time.perf_counter()
        here = play(environment, tasks)
        between = time.perf_counter()
        with serving(environment, SESSIONS) as address:
            far = behind(address)
            there = play(far, [moved(task, far) for task in tasks])
        took = time.perf_counter() - between
        same = sum(told(one) == told(other) for one, other in zip(here, there, strict=True))
        calls = sum(
            len(step.calls) for trace in here for turn in trace.turns for step in turn.steps
        )
        found += [
            Figure(f"{name}: equal transcripts of {len(tasks)}", same, "", "", None, len(tasks)),
            Figure(
                f"{name}: {calls} calls, over the address", took, "s", "in process", between - began
            ),
        ]
    return found


@contextmanager
def serving(environment: Environment, sessions: int = 64) -> Iterator[str]:
    """The address of a server in a thread of its own."""
    addresses: list[str] = []
    up = threading.Event()
    done = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with served(environment, 0, sessions) as address:
            addresses.append(address)
            up.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        if not up.wait(60):
            raise TimeoutError("no server")
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()


def behind(address: str) -> Replayed:
    """The environment that is served there, as `rods env add` describes it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"far{ENDING}"
        found, _ = introduced(OpenEnvDescription.of(str(file), {"url": address}))
        file.write_bytes(found.written())
        description = OpenEnvDescription.read(str(file))
        return description.replayed(OpenEnvironment(file.name, description))


def moved(task: Task, far: Environment) -> Task:
    """`task`, in the environment that is `far`."""
    state = {"reset": {"state": orjson.loads(orjson.dumps(task.state))}}
    return Task(
        reference(far),
        task.type,
        task.script,
        task.calls,
        task.tools,
        state=state,
        later_tools=dict(task.later_tools),
    )


def play(environment: Environment, tasks: Sequence[Task]) -> list[Trace]:
    """Episodes of the scripted policy, TOGETHER at a time."""
    dialect = dialects.load("hermes")
    traces = list[Trace]()
    for start in range(0, len(tasks), TOGETHER):
        some = tasks[start : start + TOGETHER]
        scripts = [list(script(task, start + number)) for number, task in enumerate(some)]

        def complete(
            waiting: Sequence[tuple[int, NeedText]], scripts: list[list[str]] = scripts
        ) -> list[Reply]:
            return [Reply(scripts[index].pop(0)) for index, _ in waiting]

        jobs = [Job(task, environment, dialect, goal_of(environment, task)) for task in some]
        traces += run_lockstep(jobs, complete)
    return traces


def script(task: Task, number: int) -> Iterator[str]:
    """What the policy says: by the task's place, so that it says the same in both environments."""
    chance = keyed_random(0, "openenv", number)
    for turn in task.calls:
        for call in turn:
            if chance.random() < 0.3:
                yield _said(
                    chance.choice(
                        [
                            Call("no_such_tool", call.arguments),
                            Call(call.name, {**call.arguments, "more": 1}),
                            Call(call.name, dict(list(call.arguments.items())[1:])),
                        ]
                    )
                )
            yield _said(call)
        yield "Done."


def _said(call: Call) -> str:
    return f"<tool_call>{orjson.dumps(call.as_json()).decode()}</tool_call>"


def told(trace: Trace) -> object:
    """Everything of a transcript but the id of its task, which names the environment, and the names
    of kinds of wrong arguments, of which OpenEnv has one."""
    record = trace.as_json()
    verdicts = [turn["verdict"] for turn in record["turns"]]
    return trace.messages, trace.end, trace.resolved, trace.expected, verdicts


if __name__ == "__main__":
    run(measure)
