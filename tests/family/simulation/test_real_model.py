"""A real, small model plays tools, users and verifiers. `make llm-smoke WHOLE=1` runs this;
`make llm-smoke` and `make test` do not: ten minutes of two cores.

What 135M parameters say is of no worth: what is tested is that whatever they say, each conversation
ends in the way that it must, and that every verdict can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rods.calls import Call
from rods.config import Endpoint, Role, Roles, parse_config
from rods.environments.base import Instance
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedOutcome, NeedText, Outcome, Reply
from rods.episode.goals import WholeGoal
from rods.episode.model_thread import ModelThread
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.players import simulation_of
from rods.llm import Client, Usage
from rods.players import Players
from tests.environments import ENVIRONMENTS
from tests.family.simulation.conversations import DONE, TAGS, expected, one_drawn

SMALL = Levels(tools=1, calls=1, turns=1, system=3, persona=1, ambiguity=0, criteria=2)
BRIEF = Roles(
    simulated_tool=Role(reason=30, tokens=300),
    simulated_user=Role(reason=30, tokens=300),
    simulated_verifier=Role(reason=30, tokens=160),
)
ASK = TAGS.answer("Is there anything that I should know?")


class Heard:
    """A verifier, and how many verdicts it was asked for and gave."""

    def __init__(self, goal: Any) -> None:
        assert isinstance(goal, WholeGoal)
        self.goal = goal
        self.asked = 0
        self.given = 0

    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        self.asked += 1
        found = self.goal.outcome(instance, need)
        self.given += 1
        return found


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_conversations_that_a_small_model_plays_end_in_every_way_and_are_judged(
    served: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [one_drawn(SMALL, 5, step) for step in range(5)]
    calls = [TAGS.write(expected(task)) for task in tasks]
    # for this nobody is asked
    refused = [TAGS.write([Call(task.tools[0], {"nothing": 1})]) for task in tasks]
    served_well = [(number, [Reply(calls[number]), Reply(DONE)], "finished") for number in range(4)]
    policies: list[tuple[int, Sequence[Reply], str]] = [
        *served_well,  # and the model that plays the user ends, or goes on
        (4, [Reply(ASK), Reply(calls[4]), Reply(ASK)], "finished"),
        (0, [], "finished"),  # no call: judged without anybody
        (1, [Reply("<tool_call>["), Reply(DONE)], "finished"),  # malformed: so is this
        (2, [Reply(refused[2])] * 9, "step_limit"),
        (3, [Reply(refused[3]), Reply("I am", "length")], "length"),
        (4, [Reply(refused[4]), Reply("", "context")], "context"),
        (0, [Reply("", "infrastructure")], "infrastructure"),
    ]
    used: list[Usage] = []
    played = {"tools": "model", "user": "model", "verifier": "model", "tries": 2}
    config = parse_config(
        {"simulation": played, "roles": BRIEF.model_dump(mode="json")}, where="test"
    )
    players = Players(ENVIRONMENTS, config)
    gone = Players(ENVIRONMENTS, config)
    # no thoughts, no more room for an answer that was cut
    served = served.model_copy(update={"thinking_tokens": 0})
    off = {"urls": ("http://127.0.0.1:9/v1",), "patience_seconds": 1.0, "retry_seconds": 1.0}
    nowhere = served.model_copy(update=off)
    with (
        ModelThread(lambda: Client([served], sink=used.append)) as simulation_of(players).line,
        ModelThread(lambda: Client([nowhere])) as simulation_of(gone).line,
    ):
        jobs = [_heard(players.job(tasks[number], TAGS, max_steps=8)) for number, _, _ in policies]
        jobs.append(_heard(gone.job(tasks[0], TAGS, max_steps=8)))  # nobody plays this one
        left = [*(iter(replies) for _, replies, _ in policies), iter([Reply(calls[0])])]

        def complete(waiting: Sequence[tuple[int, NeedText]]) -> list[Reply]:
            return [next(left[index], Reply(DONE)) for index, _ in waiting]

        traces = run_lockstep(jobs, complete)
    ends = [trace.end for trace in traces]
    heard = [job.goal for job in jobs if isinstance(job.goal, Heard)]
    with capsys.disabled():
        said = Counter(str(trace.resolved - 1) for trace in traces if trace.outcome is not None)
        asked = Counter((call.stage, call.outcome) for call in used)
        print(f"\nends {dict(Counter(ends))}, verdicts {dict(said)}, calls {dict(asked)}")
    assert ends[-1] == "infrastructure"
    # A tool's result may break its schema in every try: then nobody has failed, and the
    # conversation is no one's.
    lost = [end for end, (_, _, wanted) in zip(ends, policies, strict=False) if end != wanted]
    assert set(lost) <= {"infrastructure"} and len(lost) < 5, (
        "not one of those that somebody plays came to its end"
    )
    assert set(ends) == {"finished", "step_limit", "length", "context", "infrastructure"}
    assert all((trace.outcome is None) == (trace.end == "infrastructure") for trace in traces)
    assert sum(one.given for one in heard) == sum(one.asked for one in heard) >= 6
    assert [trace.resolved for trace in traces[5:7]] == [0, 0]
    assert {stage for stage, _ in asked} == {
        "simulated_tool",
        "simulated_user",
        "simulated_verifier",
    }


def _heard(job: Job) -> Job:
    return replace(job, goal=Heard(job.goal))
