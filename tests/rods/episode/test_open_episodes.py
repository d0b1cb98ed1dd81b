"""Episodes with a played user and goals judged at the end, through both drivers; played again they
come to the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from rods import dialects
from rods.calls import Call
from rods.conversations import Checks, Limits, Persona, Rubric, Script
from rods.environments.base import Instance, Result, reference
from rods.episode.drivers import Job, run_episode, run_lockstep
from rods.episode.engine import Exchange, NeedCalls, NeedOutcome, NeedText, Outcome, Reply, Trace
from rods.episode.goals import FinalState, goal_of
from rods.episode.rewards import score
from rods.episode.users import NOTHING_TO_ADD, procedural_user
from rods.errors import InfrastructureError, UserError
from rods.gates.ground_truth import unjudgeable
from rods.tasks import OpenTask
from rods.worlds.desk.world import environment

DESK = environment()
TAGS = dialects.load("tags")
STATE: dict[str, Any] = {
    "ledger": {
        "accounts": {"cash": 100, "savings": 500},
        "bills": {"i13": {"vendor": "falcon", "amount": 60, "paid": False}},
        "next": 14,
    }
}
CLIENT = Persona(
    "Pay the bill of falcon from the cash account.",
    "Please pay a bill for me.",
    {"vendor": "It is the one of falcon.", "account": "Take it from cash."},
)
PAID = Checks(
    (
        Call("bill_is_paid", {"bill": "i13"}),
        Call("account_holds", {"account": "cash", "amount": 40}),
    )
)
TASK = OpenTask(
    reference(DESK), "base", CLIENT, PAID, ("find_bill", "pay_bill", "get_balance"), state=STATE
)
FIND = TAGS.write([Call("find_bill", {"vendor": "falcon"})])
PAY = TAGS.write([Call("pay_bill", {"bill": "i13", "account": "cash"})])
WRONG = TAGS.write([Call("pay_bill", {"bill": "i13", "account": "savings"})])
ASK = TAGS.answer("Which vendor is it?")
WHICH = TAGS.answer("And from which account?")
DONE = TAGS.answer("Paid.")
GOOD = [ASK, FIND, WHICH, PAY, DONE]


def job(task: OpenTask = TASK, **fields: Any) -> Job:
    return Job(task, DESK, TAGS, **{"max_steps": 4, "goal": goal_of(DESK, task), **fields})


def played(texts: Sequence[str], task: OpenTask = TASK, **fields: Any) -> Trace:
    left = iter(texts)
    return run_lockstep([job(task, **fields)], lambda waiting: [Reply(next(left))])[0]


def said(trace: Trace) -> list[str]:
    return [message.content for message in trace.messages if message.role == "user"]


def test_the_user_answers_when_asked_and_ends_when_it_is_asked_nothing() -> None:
    trace = played(GOOD)
    assert (trace.end, trace.resolved, trace.expected, trace.binary) == ("finished", 2, 2, 1)
    assert trace.outcome == Outcome(2, 2)
    assert [text for text in said(trace) if "tool_response" not in text] == [
        CLIENT.query,
        *CLIENT.knows.values(),
    ]
    assert len(trace.turns) == 3 and all(turn.verdict is None for turn in trace.turns)
    left = iter(GOOD)

    async def complete(need: NeedText) -> Reply:
        return Reply(next(left))

    assert asyncio.run(run_episode(job(), complete)) == trace


def test_checks_are_passed_of_all_wherever_the_policy_ended() -> None:
    wrong = played([ASK, FIND, WHICH, WRONG, DONE])
    assert (wrong.resolved, wrong.expected, wrong.binary) == (1, 2, 0)
    assert wrong.outcome is not None and wrong.outcome.notes == (str(PAID.calls[1]),)
    assert score(wrong, "progress").reward == 0.5 and score(wrong, "rubric").reward == 0.0
    silent = played([DONE])
    assert (silent.end, silent.resolved) == ("finished", 0) and score(
        silent, "rubric"
    ).reward == -1.0
    runaway = played([ASK, FIND, PAY, FIND, FIND])
    assert (runaway.end, runaway.resolved) == ("step_limit", 2)


def test_a_script_is_walked_to_its_end_and_judged_once() -> None:
    task = replace(TASK, user=Script(("Pay falcon's bill.", "From cash.", "Thanks.")), id="")
    trace = played([ASK, PAY, DONE, DONE], task)
    assert len(trace.turns) == 3 and trace.outcome == Outcome(2, 2)


@pytest.mark.parametrize(
    "texts", [GOOD, [ASK, FIND, WHICH, WRONG, DONE], [ASK, FIND, PAY, FIND, FIND], ["!"] * 4]
)
def test_an_episode_of_the_same_replies_is_the_same(texts: list[str]) -> None:
    trace = played(texts)
    kept = Trace.from_json(trace.as_json())
    assert played(texts).as_json() == trace.as_json() == kept.as_json()
    other = replace(TASK, goal=Checks(PAID.calls[:1]), id="")
    assert played(texts, other).outcome != trace.outcome


def test_a_user_is_bounded_by_its_turns() -> None:
    task = replace(TASK, user=replace(CLIENT, turns=3), id="")
    endless = played([ASK] * 9, task, user=lambda persona, exchange: "What else?")
    assert (endless.end, len(endless.turns)) == ("finished", 3)
    for empty in ("", " \n"):
        assert (
            len(played([ASK] * 9, task, user=lambda persona, exchange, text=empty: text).turns) == 1
        )


def test_a_user_makes_its_further_requests_once_the_earlier_ones_are_served() -> None:
    task = replace(TASK, user=replace(CLIENT, further=("Now the balance.", "And thanks.")), id="")
    trace = played([ASK, PAY, DONE, WHICH, DONE, DONE], task)
    texts = [text for text in said(trace) if "tool_response" not in text]
    assert texts == [
        CLIENT.query,
        CLIENT.knows["vendor"],
        "Now the balance.",
        CLIENT.knows["account"],
        "And thanks.",
    ]
    assert trace.end == "finished"


@pytest.mark.parametrize(
    ("limits", "texts", "replies", "carried_out"),
    [
        # the world is as it should be, and the policy was cut
        (Limits(replies=3), [ASK, FIND, PAY, DONE], 3, 2),
        (Limits(replies=2), [ASK, WHICH, PAY], 2, 0),  # the user has answered, and nobody may reply
        (Limits(tool_turns=1), [ASK, FIND, PAY, DONE], 3, 1),  # the second call is not carried out
        (Limits(tool_turns=2, replies=5), GOOD, 5, 2),
    ],
)
def test_a_conversation_that_reaches_a_limit_ends_there_and_is_judged(
    limits: Limits, texts: list[str], replies: int, carried_out: int
) -> None:
    task = replace(TASK, limits=limits, id="")
    trace = played(texts, task)
    steps = [step for turn in trace.turns for step in turn.steps]
    assert (len(steps), sum(len(step.results) for step in steps)) == (replies, carried_out)
    assert trace.end == ("finished" if texts is GOOD else "step_limit")
    assert trace.outcome == goal_outcome(task, trace)
    assert played(texts, task) == trace


def goal_outcome(task: OpenTask, trace: Trace) -> Outcome:
    """What is to come of the calls that `trace` has carried out."""
    world = DESK.reset(task.state)
    goal = goal_of(DESK, task)
    assert isinstance(goal, FinalState)
    for step in (step for turn in trace.turns for step in turn.steps):
        for call in step.calls:
            world.call(call)
    return goal.outcome(world, NeedOutcome((), (), ()))


def test_an_instance_that_is_played_sees_the_conversation_and_may_be_made_for_the_job() -> None:
    class Told:
        def results(self, need: NeedCalls) -> list[Result]:
            return [
                Result(f"{call.name} after {len(need.said)} texts, the last {need.said[-1]}")
                for call in need.calls
            ]

    trace = played([ASK, FIND, DONE], world=lambda: cast(Instance, Told()), goal=Always())
    assert [
        result.text for turn in trace.turns for step in turn.steps for result in step.results
    ] == ["find_bill after 2 texts, the last ('It is the one of falcon.', '')"]
    assert trace.messages[4].content == FIND


class Always:
    def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
        return Outcome(2, 2)


def test_a_user_that_breaks_is_never_the_policy_s_failure() -> None:
    def broken(persona: Persona, exchange: Exchange) -> str:
        raise InfrastructureError("nobody answers")

    trace = played([ASK], user=broken)
    assert (trace.end, trace.outcome, trace.expected) == ("infrastructure", None, 2)
    assert score(trace, "rubric").reward is None


def test_a_check_that_breaks_is_never_the_policy_s_failure() -> None:
    class Lost(FinalState):
        def outcome(self, instance: Instance, need: NeedOutcome) -> Outcome:
            raise InfrastructureError("gone")

    trace = run_lockstep([replace(job(), goal=Lost(PAID))], lambda waiting: [Reply(DONE)])[0]
    assert trace.end == "infrastructure"


@pytest.mark.parametrize(
    ("answers", "reply"),
    [
        (["What is it about?"], NOTHING_TO_ADD),
        (["Which vendor?"], "It is the one of falcon."),
        (
            ["Which vendors are there, and which accounts?"],
            "It is the one of falcon. Take it from cash.",
        ),
        (["The vendor is noted."], ""),
        (["Which vendor?", "Sorry, which vendor?"], "As I said: It is the one of falcon."),
    ],
)
def test_what_the_procedural_user_says(answers: list[str], reply: str) -> None:
    exchange: list[tuple[str, str]] = []
    text = CLIENT.query
    for answer in answers:
        exchange.append((text, answer))
        text = procedural_user(CLIENT, exchange)
    assert text == reply


def test_the_procedural_user_never_says_what_nobody_has_asked() -> None:
    for question in (
        "What shall I do?",
        "Which bill?",
        "How much, from where, to whom?",
        "Are you sure?",
    ):
        text = procedural_user(CLIENT, [(CLIENT.query, question)])
        assert "falcon" not in text and "cash" not in text


def test_no_policy_can_ask_a_check() -> None:
    peek = TAGS.write([PAID.calls[0]])
    trace = played([peek, DONE])
    assert trace.turns[0].steps[0].results[0].error == "unknown_tool"
    assert not {"bill_is_paid", "account_holds"} & DESK.tools().keys()


def test_a_rubric_is_judged_elsewhere() -> None:
    with pytest.raises(UserError, match=r"nothing here judges by a rubric.*rods trainer observe"):
        goal_of(DESK, replace(TASK, goal=Rubric(("Paid.",)), id=""))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"goal": Checks((Call("bill_is_torn"),))}, "has no check 'bill_is_torn'"),
        ({"goal": Checks((Call("find_bill", {"vendor": "falcon"}),))}, "has no check 'find_bill'"),
        (
            {"goal": Checks((Call("bill_is_paid", {"bil": "i13"}),))},
            "cannot be asked (bad_arguments)",
        ),
        (
            {"goal": Checks((Call("account_holds", {"account": "cash", "amount": 100}),))},
            "hold before anything is done",
        ),
        ({"tools": ("fly",)}, "has no tool 'fly'"),
        ({"state": {"nothing": 1}}, "the initial state is rejected"),
        ({"environment": replace(TASK.environment, hash="old")}, "written for desk old"),
    ],
)
def test_a_task_that_cannot_be_judged_says_why(changes: dict[str, Any], words: str) -> None:
    assert unjudgeable(DESK, TASK) == []
    assert words in str(unjudgeable(DESK, replace(TASK, **changes, id=""))[0])
