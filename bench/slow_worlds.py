"""Do slow tools, users and verifiers wait together? Answers a second of 64 episodes whose players
answer after 0.5 s.

Claim: 90 % of Little's law (episodes ÷ latency) in lock-step and served. Anchor: the same players
one after another, as lock-step advances episodes that wait for nobody. Command: `python -m
bench.slow_worlds`.

Every call, every text of a user and every verdict is a request over HTTP to a stub in a process of
its own, through one client. The policy answers at once: it calls a tool, then asks the user
something, and so on. Lock-step is the driver of local and colocated engines, asyncio with a thread
an episode that of the served one.

Conversations of drawn tasks differ in length, and the last ones leave the others' places empty.
Their figure, with the players of a run, their questions and ledgers, is the time of the longest one
alone over the time of all.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bench.figures import Figure, run
from bench.fixtures.llm_stub import Script, Stub
from rods import dialects
from rods.calls import Call
from rods.config import Endpoint, parse_config
from rods.conversations import Persona, Rubric
from rods.environments.base import Instance, Result, reference
from rods.environments.loading import Environments
from rods.episode.drivers import Job, run_episode, run_lockstep
from rods.episode.engine import Exchange, NeedOutcome, NeedText, Outcome, Reply, Trace
from rods.episode.model_thread import ModelThread
from rods.episode.watchdog import Lanes
from rods.family.simulation.difficulty import levels
from rods.family.simulation.generating import draw_task, open_task
from rods.family.simulation.players import simulation_of
from rods.family.simulation.repository import shipped
from rods.family.simulation.settings import DifficultyRules
from rods.gates.reference_policy import ReferencePolicy
from rods.llm import Client, Request
from rods.players import Players
from rods.tasks import OpenTask
from rods.worlds.desk.world import environment

# the latter in seconds
EPISODES = 64
LATENCY = 0.5
DESK = environment()
TAGS = dialects.load("tags")
CALL = TAGS.write([Call("find_bill", {"vendor": "falcon"})])
ASK = TAGS.answer("Which one?")
Policy = Callable[[NeedText], Reply]
Driver = Callable[[Sequence[Job], Sequence[Policy]], list[Trace]]


class Everybody:
    """Tools, user and verifier, who all ask the stub."""

    def __init__(self, line: ModelThread) -> None:
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

    def fork(self) -> Everybody:
        return self

    def same_state(self, other: Instance) -> bool:
        return self is other


def measure(quick: bool) -> list[Figure]:
    """Share of the answers a second that latency and episodes allow, from the first episode's begin
    to the last's end."""
    turns = 3 if quick else 8
    ways: list[tuple[str, Driver]] = [("in lock-step", run_together), ("served", run_served)]
    with Stub(Script(latency=LATENCY, answer_bytes=200)) as stub:
        alone = _share(stub, run_alone, 2, 1)  # of two, the rest would take minutes
        shares = [(how, _share(stub, way, EPISODES, turns)) for how, way in ways]
    with Stub(Script(latency=LATENCY, answer="bench.fixtures.llm_stub.players:answer")) as stub:
        drawn = [(how, _longest(stub, way)) for how, way in ways]
    anchor = "one after another", alone
    return [
        *(
            Figure(f"{EPISODES} episodes {how}", share, "of Little's law", *anchor, 0.9)
            for how, share in shares
        ),
        *(Figure(f"{EPISODES} drawn tasks {how}", share, "longest ÷ all") for how, share in drawn),
    ]


def _share(stub: Stub, way: Driver, episodes: int, turns: int) -> float:
    """The measured answers a second over `EPISODES` ÷ `LATENCY`."""
    endpoint = Endpoint(model="stub", urls=(stub.url,), concurrency=EPISODES)
    with ModelThread(lambda: Client((endpoint,))) as line:
        jobs = [_job(Everybody(line), turns)] * episodes
        way(jobs[:1], [_policy])  # connections, imports
        stub.forget()
        began = time.perf_counter()
        traces = way(jobs, [_policy] * episodes)
        seconds = time.perf_counter() - began
    answers = stub.counts()["good"]
    if {trace.end for trace in traces} != {"finished"} or answers != episodes * 2 * turns:
        raise RuntimeError(
            f"{answers} answers, and episodes ended {[trace.end for trace in traces]}"
        )
    return answers / seconds / (EPISODES / LATENCY)


def _job(players: Everybody, turns: int) -> Job:
    """An episode with `turns` texts of its user, and in each a call: with the verdict two answers a
    turn."""
    persona = Persona("a bill is found", "Find me a bill.", turns=turns)
    task = OpenTask(
        reference(DESK), "base", persona, Rubric(("The bill is found.",)), ("find_bill",)
    )
    return Job(task, DESK, TAGS, players, user=players.user, world=lambda: players, waits=True)


def _policy(need: NeedText) -> Reply:
    """It calls a tool, then asks the user."""
    return Reply(ASK if need.messages[-1].content.startswith("<tool_response") else CALL)


def _longest(stub: Stub, way: Driver) -> float:
    """The answers of the longest of `EPISODES` conversations times `LATENCY`, over the seconds that
    all took."""
    environments = Environments()
    world = environments.load("repository")
    drawn = [
        draw_task(shipped(), levels(DifficultyRules(), 60, 1, 0, slot), 1, 0, slot)
        for slot in range(EPISODES)
    ]
    tasks = [open_task(one, reference(world)) for one in drawn]
    plain = Players(environments)
    played = [plain.job(task, TAGS, max_steps=8) for task in tasks]
    policies = [ReferencePolicy(job, job.task.goal_calls) for job in played]
    known = run_lockstep(
        played, lambda waiting: [policies[index].reply(need) for index, need in waiting]
    )
    replies = [[step.text for turn in trace.turns for step in turn.steps] for trace in known]
    used: Counter[str] = Counter()
    endpoint = Endpoint(model="stub", urls=(stub.url,), concurrency=EPISODES)
    by_model = dict.fromkeys(("tools", "user", "verifier"), "model")
    players = Players(environments, parse_config({"simulation": by_model}, where="bench"))
    player = simulation_of(players)
    with ModelThread(
        lambda: Client((endpoint,), sink=lambda call: used.update([call.account]))
    ) as player.line:
        jobs = [players.job(task, TAGS, max_steps=8) for task in tasks]
        way(jobs[:1], [_replaying(replies[0])])
        used.clear()
        began = time.perf_counter()
        way(jobs, [_replaying(texts) for texts in replies])
        seconds = time.perf_counter() - began
    return max(used.values()) * LATENCY / seconds


def _replaying(texts: Sequence[str]) -> Policy:
    left = iter(texts)
    return lambda need: Reply(next(left, TAGS.answer("That is done.")))


def run_alone(jobs: Sequence[Job], policies: Sequence[Policy]) -> list[Trace]:
    return run_together([replace(job, waits=False) for job in jobs], policies)


def run_together(jobs: Sequence[Job], policies: Sequence[Policy]) -> list[Trace]:
    return run_lockstep(jobs, lambda waiting: [policies[index](need) for index, need in waiting])


def run_served(jobs: Sequence[Job], policies: Sequence[Policy]) -> list[Trace]:
    async def one(job: Job, policy: Policy, threads: Lanes) -> Trace:
        async def complete(need: NeedText) -> Reply:
            return policy(need)

        return await run_episode(job, complete, threads)

    async def every() -> list[Trace]:
        with Lanes(len(jobs), "episode") as threads:
            pairs = zip(jobs, policies, strict=True)
            return await asyncio.gather(*(one(job, policy, threads) for job, policy in pairs))

    return asyncio.run(every())


if __name__ == "__main__":
    run(measure)
