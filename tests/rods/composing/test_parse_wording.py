"""The gates that read a task's texts, results and world: each clause refuses its own fault and
nothing else.

On the toy environment, which has no phrase book: what holds here holds for a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rods.calls import Call
from rods.environments.base import Environment, Features, reference
from rods.gates.ground_truth import run
from rods.gates.missing import missing
from rods.gates.texts import leaks, requests
from rods.gates.values import grounding
from rods.tasks import RETURN_SENTENCE, Task
from tests.environments import load
from tests.rods.toy_environment import Toy, World, environment

TOY = environment()
STATE = {
    "notes": {
        "7": {"title": "rent", "body": "pay on monday"},
        "8": {"title": "milk", "body": "two bottles"},
    }
}


def task(*turns: tuple[str, Sequence[Call]], world: Environment = TOY, **changes: Any) -> Task:
    """A task of (text, calls) turns, all tools of the toy environment visible, two notes in the
    world."""
    fields: dict[str, Any] = {
        "state": STATE,
        "tools": tuple(TOY.tools()),
        "type": "base",
        **changes,
    }
    script = tuple(text for text, _ in turns)
    calls = tuple(tuple(calls) for _, calls in turns)
    return Task(reference(world), script=script, calls=calls, **fields)


def found(gate: Any, made: Task, world: Environment = TOY) -> list[str]:
    return [str(reason) for reason in gate(world, made, run(world, made))]


def read(note: int) -> Call:
    return Call("read", {"note_id": note})


def label(*notes: int, color: str = "blue") -> Call:
    return Call("label", {"note_ids": list(notes), "color": color})


LABEL = Call("label", {"note_ids": [7]})


@pytest.mark.parametrize(
    "turns",
    [
        [("Read me note 7.", [read(7)])],
        [("Read me the seventh note, number seven.", [read(7)])],
        [("I speak of note 7.", [Call("titles")]), ("Read it to me.", [read(7)])],
        [
            ("Write a note.", [Call("write", {"title": "Write a note", "body": ""})]),
            ("Read it.", [read(103)]),
        ],
        [("Label note 7.", [Call("label", {"note_ids": [7], "color": "red"})])],  # the default
        # listed in the document, and no other one is named
        [("Label note 7 like the sky.", [label(7)])],
        [("Read me the note about the rent.", [read(7)])],  # a look at the titles would show it
    ],
)
def test_a_value_may_come_from_texts_results_documents_and_tools(turns: Any) -> None:
    assert found(grounding, task(*turns)) == []


def test_a_value_out_of_nothing_is_refused() -> None:
    (reason,) = found(
        grounding,
        task(
            (
                "Add some to the counter of apples.",
                [Call("count", {"name": "apples", "amount": 31})],
            )
        ),
    )
    assert reason == "turn 0, call 0: count: nobody says amount=31, and nothing shows it"
    assert found(
        grounding, task(("Write a note, please.", [Call("write", {"title": "plans", "body": ""})]))
    )
    # another value of the list is said
    assert found(grounding, task(("Label note 7 red.", [label(7)])))
    later = task(
        ("Read me a note.", [read(7)]),
        ("I meant note 7.", [Call("titles")]),
        tools=("read", "titles"),
    )
    assert found(grounding, later) == []  # the titles show it
    assert found(
        grounding,
        task(("Read me a note.", [read(7)]), ("I meant note 7.", [read(7)]), tools=("read",)),
    )


def test_a_world_that_cannot_be_forked_shows_nothing() -> None:
    stiff = Toy("environment", World, features=Features(fork=False))
    made = task(("Read me the note about the rent.", [read(7)]), world=stiff)
    assert found(grounding, made, stiff) and not found(
        grounding, task(("Read me note 7.", [read(7)])), stiff
    )


def test_dates_and_identifiers_may_be_said_in_words() -> None:
    def wrote(text: str, title: str) -> list[str]:
        return found(grounding, task((text, [Call("write", {"title": title, "body": ""})])))

    assert wrote("Write a note for June 2nd, 2026.", "2026-06-02") == []
    assert wrote("Write a note for 02/06/2026.", "2026-06-02") == []
    assert wrote("Write a note on the rear left door.", "rear_left") == []
    assert wrote("Write a note for June 3rd, 2026.", "2026-06-02")


def test_calls_have_to_be_asked_for() -> None:
    asked = task(("Read me note 7 and add up all counters.", [read(7), Call("total")]))
    assert found(requests, asked) == []
    (reason,) = found(requests, task(("Read me note 7.", [read(7), Call("total")])))
    assert reason == "turn 0, call 1: nobody asks for total()"
    needed = task(("Read me the rent note.", [Call("titles"), read(7)]))
    assert found(requests, needed) == []  # without the list nobody knows the number


def test_what_is_asked_for_has_to_be_done() -> None:
    for text, left in (
        ("Read me notes 7 and 8.", "8.0"),
        ("Read me note 7 and the one called 'shopping list'.", "'shopping list'"),
        ("Read me note 7 and send it to box_12.", "'box_12'"),
    ):
        assert found(requests, task((text, [read(7)]))) == [
            f"turn 0: {left} is asked about and no call uses it"
        ]
    assert found(requests, task(("Read me note 7.", [read(7)]), ("And now note 8.", []))) == [
        "turn 1: no call does what it asks for"
    ]
    # the result says it
    assert found(requests, task(("Read me note 7 about 'pay on monday'.", [read(7)]))) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Set note_id to 7 and read it.", "names 'note_id'"),
        ("Use read for note 7.", "names the tool 'read'"),
        ("Read note 7 with the read function.", "names the tool 'read'"),
        ('Read note 7: {"note_id": 7}.', "artefact '{'"),
        ("Read note 7. <think>", "artefact"),
        ("Step 1: read note 7.", "artefact"),
    ],
)
def test_texts_that_give_the_machinery_away(text: str, reason: str) -> None:
    assert any(reason in each.text for each in leaks(TOY, task((text, [read(7)]))))


def test_plain_words_and_values_may_be_said() -> None:
    assert leaks(TOY, task(("Count on me to read and label note 7.", [read(7)]))) == []
    assert (
        leaks(
            TOY,
            task(
                ("Write a note called note_id.", [Call("write", {"title": "note_id", "body": ""})])
            ),
        )
        == []
    )


def vain(
    supply: str, calls: Sequence[Call], before: str = "Add some to a counter.", **changes: Any
) -> Task:
    return task(
        ("Hello there.", [Call("total")]),
        (before, []),
        (supply, calls),
        type="miss_param",
        **changes,
    )


def test_a_missing_value_must_be_missing() -> None:
    adds = [Call("count", {"name": "apples", "amount": 31})]
    assert found(missing, vain("The counter is apples, by 31.", adds)) == []
    # said before
    assert found(missing, vain("I mean 31.", adds, "Add 31 to the counter of apples."))
    # default
    assert found(
        missing, vain("By 1.", [Call("count", {"name": "fish", "amount": 1})], "Add to the fish.")
    )
    (shown,) = found(missing, vain("I mean note 7.", [read(7)], "Read me a note."))
    assert "a visible tool shows note_id=7" in shown
    assert (
        found(
            missing, vain("I mean note 7.", [read(7)], "Read me a note.", tools=("read", "total"))
        )
        == []
    )
    earlier = task(
        ("List my notes.", [Call("titles")]),
        ("Read one.", []),
        ("Number 7.", [read(7)]),
        type="miss_param",
    )
    assert "is in an earlier result" in found(missing, earlier)[0]


def test_a_turn_in_vain_must_be_served_by_the_next() -> None:
    assert (
        "nothing follows"
        in found(missing, task(("Read one.", []), ("Seven.", []), type="miss_param"))[0]
    )
    assert (
        "without a turn" in found(missing, task(("Read note 7.", [read(7)]), type="miss_param"))[0]
    )


def held_out(
    request: str, call: Call, world: Environment, state: Any, tools: tuple[str, ...]
) -> Task:
    turns = ((request, ()), (RETURN_SENTENCE, (call,)))
    return task(
        *turns,
        world=world,
        type="miss_func",
        state=state,
        tools=tools,
        later_tools={1: (call.name,)},
    )


@pytest.mark.needs("bfcl")
def test_a_missing_tool_must_have_no_stand_in() -> None:
    world = load("bfcl")
    files = {
        "root": {
            "home": {
                "type": "directory",
                "contents": {
                    "a.txt": {"type": "file", "content": "one line"},
                    "old": {"type": "directory", "contents": {}},
                },
            }
        }
    }
    state = {
        "classes": ["GorillaFileSystem"],
        "config": {"GorillaFileSystem": files},
        "long_context": False,
    }
    move = Call("mv", {"source": "a.txt", "destination": "old"})
    show = Call("cat", {"file_name": "a.txt"})

    def ways(request: str, call: Call, *tools: str) -> list[str]:
        made = held_out(request, call, world, state, (call.name, *tools))
        return found(missing, made, world)

    assert ways("Move a.txt into old.", move, "ls", "cd", "touch", "cat") == []
    (two,) = ways("Move a.txt into old.", move, "ls", "cp", "rm", "cat")
    assert "cp(source='a.txt', destination='old'), rm(file_name='a.txt')" in two
    (one,) = ways("Show me a.txt.", show, "ls", "tail")
    assert "tail(file_name='a.txt')" in one
    assert ways("Show me a.txt.", show, "ls", "wc", "cp") == []


def test_an_unknown_tool_is_another_gates_business() -> None:
    made = vain("I mean note 7.", [read(7)], "Read me a note.", tools=("read", "total", "fly"))
    assert found(missing, made) == [] and found(grounding, made) == []
