"""Do slow tools, users and verifiers wait together? Answers a second of 64 episodes whose players answer after 0.5 s.

Claim: 90 % of Little's law (episodes ÷ latency) in lock-step and served. Anchor: the same players one after another, as
lock-step advances episodes that wait for nobody.
Command: `python -m bench.slow_worlds`.

Every call, every text of a user and every verdict is a request over HTTP to a stub in a process of its own, through one
client. The policy answers at once: it calls a tool, then asks the user something, and so on. Lock-step is the driver of
local and colocated engines, asyncio with a thread an episode that of the served one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bench.figures import Figure, run
from bench.fixtures.llm_stub import Script, Stub
from rods import dialects
from rods.calls import Call
from rods.config import Endpoint
from rods.conversations import Persona, Rubric
from rods.environments.base import Instance, Result, reference
from rods.episode.drivers import Job, run_episode, run_lockstep
from rods.episode.engine import Exchange, NeedOutcome, NeedText, Outcome, Reply, Trace
from rods.episode.watchdog import Lanes
from rods.llm import Client, Request
from rods.players.line import Line
from rods.tasks import OpenTask
from worlds.desk.world import environment

EPISODES, LATENCY = 64, 0.5  # the latter in seconds
DESK, TAGS = environment(), dialects.load("tags")
CALL, ASK = TAGS.write([Call("find_bill", {"vendor": "falcon"})]), TAGS.answer("Which one?")
Driver = Callable[[Sequence[Job]], list[Trace]]


class Players:
    """Tools, user and verifier, who all ask the stub."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def ask(self, who: str) -> str:
        request = Request(who, [{"role": "user", "content": who}])
        return self.line.ask(lambda client: client.complete(request)).text

    def call(self, call: Call) -> Result:
        return Result(self.ask("tool"))

    def user(self, persona: Persona, said: Exchange) -> str:
        return self.ask("user")

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        return Outcome(1, 2, (self.ask("verifier"),))

    def snapshot(self) -> dict[str, Any]:
        return {}

    def fork(self) -> Players:
        return self

    def same_state(self, other: Instance) -> bool:
        return self is other


def measure(quick: bool) -> list[Figure]:
    """Share of the answers a second that latency and episodes allow, from the first episode's begin to the last's
    end."""
    turns = 3 if quick else 8
    with Stub(Script(latency=LATENCY, answer_bytes=200)) as stub:
        alone = _share(stub, run_alone, 2, 1)  # of two, the rest would take minutes
        return [
            Figure(f"{EPISODES} episodes {how}", _share(stub, way, EPISODES, turns), "of Little's law", *anchor, 0.9)
            for how, way in (("in lock-step", run_together), ("served", run_served))
            for anchor in [("one after another", alone)]
        ]


def _share(stub: Stub, way: Driver, episodes: int, turns: int) -> float:
    """The measured answers a second over `EPISODES` ÷ `LATENCY`."""
    endpoint = Endpoint(model="stub", urls=(stub.url,), concurrency=EPISODES)
    with Line(lambda: Client((endpoint,))) as line:
        jobs = [_job(Players(line), turns)] * episodes
        way(jobs[:1])  # connections, imports
        stub.forget()
        began = time.perf_counter()
        traces = way(jobs)
        seconds = time.perf_counter() - began
    answers = stub.counts()["good"]
    if {trace.end for trace in traces} != {"finished"} or answers != episodes * 2 * turns:
        raise RuntimeError(f"{answers} answers, and episodes ended {[trace.end for trace in traces]}")
    return answers / seconds / (EPISODES / LATENCY)


def _job(players: Players, turns: int) -> Job:
    """An episode with `turns` texts of its user, and in each a call: with the verdict two answers a turn."""
    persona = Persona("a bill is found", "Find me a bill.", turns=turns)
    task = OpenTask(reference(DESK), "base", persona, Rubric(("The bill is found.",)), ("find_bill",))
    return Job(task, DESK, TAGS, players, user=players.user, world=lambda: players, waits=True)


def _policy(need: NeedText) -> Reply:
    """It calls a tool, then asks the user."""
    return Reply(ASK if need.messages[-1].content.startswith("<tool_response") else CALL)


def run_alone(jobs: Sequence[Job]) -> list[Trace]:
    return run_together([replace(job, waits=False) for job in jobs])


def run_together(jobs: Sequence[Job]) -> list[Trace]:
    return run_lockstep(jobs, lambda waiting: [_policy(need) for _, need in waiting])


def run_served(jobs: Sequence[Job]) -> list[Trace]:
    async def complete(need: NeedText) -> Reply:
        return _policy(need)

    async def every() -> list[Trace]:
        with Lanes(len(jobs), "episode") as threads:
            return await asyncio.gather(*(run_episode(job, complete, threads) for job in jobs))

    return asyncio.run(every())


if __name__ == "__main__":
    run(measure)
