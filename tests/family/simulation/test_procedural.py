"""Drawn tasks are played and judged without any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rods.calls import Call
from rods.conversations import Persona, Rubric
from rods.episode.engine import Trace
from rods.errors import UserError
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.generating import CRITERIA, found_by_calls
from rods.gates.ground_truth import unjudgeable
from rods.players import Players
from rods.tasks import OpenTask
from tests.environments import ENVIRONMENTS
from tests.family.simulation.conversations import (
    DONE,
    TAGS,
    WORLD,
    drawn,
    expected,
    one_drawn,
    play,
    played,
    witness,
)

PLAYERS = Players(ENVIRONMENTS)
ALL = Levels(tools=6, calls=2, turns=1, system=1, persona=1, ambiguity=1, criteria=4)
TASK = next(task for step in range(50) if len(expected(task := one_drawn(ALL, 9, step))) == 2)


def notes(trace: Trace) -> str:
    assert trace.outcome is not None
    return " ".join(trace.outcome.notes)


def test_a_witness_of_every_drawn_task_earns_all_and_with_a_call_left_out_less() -> None:
    jobs = [PLAYERS.job(task, TAGS, max_steps=8) for task in drawn()]
    for task in drawn():
        assert unjudgeable(WORLD, task) == [] and OpenTask.from_json(task.as_json()) == task
    whole = played(jobs, [witness(task) for task in drawn()])
    assert not [notes(trace) for trace in whole if trace.resolved != 2]
    assert {trace.end for trace in whole} == {"finished"}
    less = played(jobs, [witness(task, expected(task)[:-1]) for task in drawn()])
    assert all(trace.resolved < 2 for trace in less)
    assert sum(len(task.user.further) for task in drawn() if isinstance(task.user, Persona)) > 20


def changed(call: Call, name: str, value: object) -> Call:
    return Call(call.name, {**call.arguments, name: value})


@pytest.mark.parametrize(
    ("replies", "earned", "missed"),
    [
        (lambda calls: [DONE], 0, "no tool was called"),
        (lambda calls: ['<tool_call>{"name": ', *map(one, calls), DONE], 0, "could not be read"),
        (lambda calls: [*map(one, calls), DONE], 2, "all criteria are met"),
        (lambda calls: [one(calls[0]), *map(one, calls), DONE], 1, "no_redundancy is missed"),
        (
            lambda calls: [TAGS.write([Call("teleport")]), *map(one, calls), DONE],
            1,
            "there is no tool teleport",
        ),
    ],
)
def test_what_a_conversation_earns(
    replies: Callable[[Sequence[Call]], Sequence[str]], earned: int, missed: str
) -> None:
    trace = play(PLAYERS, replace(TASK, limits=None, id=""), replies(expected(TASK)))
    assert (trace.resolved, trace.expected) == (earned, 2) and missed in notes(trace)


def one(call: Call) -> str:
    return TAGS.write([call])


BOOKED = {"book_id": "BOK-12345", "member_id": "MEM-0001"}


SEARCH = Call("search_flights", {"origin": "Oslo", "destination": "Rome", "date": "2026-05-04"})


def flight(number: str) -> Call:
    return Call("book_flight", {"flight_id": number, "passenger": "Nora Berg", "cabin": "business"})


def searching() -> tuple[OpenTask, list[str]]:
    """A task whose second call needs what the first finds, and the ids that its search shows."""
    knows = {"route": "Oslo to Rome", "day": "May 4, 2026", "who": "Nora Berg, a business seat"}
    task = replace(
        TASK,
        user=Persona("A flight.", "I need a flight.", knows),
        goal=Rubric(CRITERIA, (SEARCH, flight("FL-0001"))),
        tools=("search_flights", "book_flight", "cancel_flight_booking"),
        limits=None,
        id="",
    )
    for seed in range(20):
        task = replace(task, state={"random_seed": seed}, id="")
        result = WORLD.reset(task.state).call(SEARCH).value
        if result["flights"]:
            return task, [entry["flight_id"] for entry in result["flights"]]
    raise AssertionError


def test_what_a_search_returns_is_right_where_no_user_has_the_id() -> None:
    task, ids = searching()
    assert found_by_calls(task) == [Call("book_flight", {"flight_id": "FL-0001"})]
    assert "FL-0001" not in ids
    honest = play(PLAYERS, task, [one(SEARCH), one(flight(ids[0])), DONE])
    assert honest.resolved == 2, notes(honest)
    guessed = play(PLAYERS, task, [one(SEARCH), one(flight("FL-0002")), DONE])
    assert guessed.resolved == 0
    unsearched = play(PLAYERS, task, [one(flight(ids[0])), DONE])
    assert unsearched.resolved == 0
    named = replace(task, user=Persona("A flight.", "FL-0001 for Nora Berg, please."), id="")
    other = play(PLAYERS, named, [one(SEARCH), one(flight(ids[0])), DONE])
    assert found_by_calls(named) == [Call("book_flight", {"cabin": "business"})]
    assert other.resolved == 0, "the user named another"


def library(*calls: Call, knows: str = "BOK-12345, MEM-0001") -> OpenTask:
    tools = ("borrow_book", "return_book", "get_book", "list_loans", "renew_loan")
    persona = Persona("The user wants a book.", "Please do it.", {"details": knows})
    criteria = ("intent", "expected_tools", "no_hallucination", "no_redundancy", "efficiency")
    return replace(
        TASK, user=persona, goal=Rubric(criteria, calls), tools=tools, limits=None, id=""
    )


@pytest.mark.parametrize(
    ("calls", "earned", "said"),
    [
        ([Call("borrow_book", BOOKED)], 2, "all criteria"),
        ([Call("borrow_book", {**BOOKED, "book_id": "BOK-99999"})], 0, "severe: borrow_book"),
        (
            [Call("borrow_book", BOOKED), Call("renew_loan", {"loan_id": "LON-00000"})],
            0,
            "severe: renew_loan",
        ),
        (
            [Call("get_book", {"book_id": "BOK-99999"}), Call("borrow_book", BOOKED)],
            1,
            "nobody gave 'BOK-99999'",
        ),
        ([Call("get_book", {"book_id": 3}), Call("borrow_book", BOOKED)], 1, "failed"),
        (
            [Call("list_loans", {"member_id": "mem-0001"})] * 2 + [Call("borrow_book", BOOKED)],
            1,
            "no_redundancy",
        ),
        ([Call("get_book", {"book_id": "BOK-12345"})], 0, "nothing of what is expected"),
    ],
)
def test_what_calls_earn(calls: Sequence[Call], earned: int, said: str) -> None:
    trace = play(PLAYERS, library(Call("borrow_book", BOOKED)), [*map(one, calls), DONE])
    assert trace.resolved == earned, notes(trace)
    assert said in notes(trace)


def test_what_is_expected_and_said_in_other_words_is_not_invented() -> None:
    call = Call("borrow_book", {"book_id": "BOK-12345", "member_id": "MEM-0001"})
    task = library(call, knows="the book with the number 12345, for member 1")
    trace = play(PLAYERS, task, [one(call), DONE])
    assert "nobody gave" not in notes(trace)


def test_what_tools_have_shown_is_not_invented() -> None:
    task = library(Call("borrow_book", BOOKED))
    loans = [Call("list_loans", {"member_id": "MEM-0001"}), Call("borrow_book", BOOKED)]
    trace = play(PLAYERS, task, [*map(one, loans), DONE])
    assert trace.resolved == 2
    shown = trace.turns[0].steps[0].results[0].value["loans"][0]["book_id"]
    assert (
        play(
            PLAYERS, task, [*map(one, [*loans, Call("get_book", {"book_id": shown})]), DONE]
        ).resolved
        == 2
    )


@pytest.mark.parametrize(
    ("goal", "why"),
    [
        (
            Rubric(("Polite.",), (Call("get_book", {"book_id": "BOK-12345"}),)),
            "its criterion 'Polite.' is none of",
        ),
        (Rubric(("intent",)), "it expects no calls"),
    ],
)
def test_a_rubric_that_rules_cannot_judge_is_refused(goal: Rubric, why: str) -> None:
    with pytest.raises(UserError, match=f"cannot be judged without a model: {why}"):
        PLAYERS.job(replace(library(), goal=goal, id=""), TAGS, max_steps=8)
