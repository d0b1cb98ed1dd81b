"""Padding without a catalogue: long, and with one right answer still."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rods.analysis.flows import Flow
from rods.composing import task_types
from rods.composing.bind import realise
from rods.composing.records import Draft, Plan, PlannedTurn
from rods.daemon.authors.catalogue_free import catalogue_with_tools, padded
from rods.environments.base import Environment, Result
from rods.errors import InfrastructureError
from rods.tasks import Task
from tests.environments import load
from tests.rods.composing.shelf_environment import NAME, STATE, Shelf


def drafted(
    first: str, second: str, fed: str, values: Mapping[str, Any], state: Mapping[str, Any] = STATE
) -> Draft:
    """One turn of two calls, in which `fed` of the second comes from the result of the first."""
    plan = Plan((PlannedTurn((first, second), (first, second)),))
    draft = realise(
        load(NAME),
        catalogue_with_tools(load(NAME)),
        plan,
        state,
        lambda choice: values[choice.slot],
    )
    one, other = draft.turns[0]
    return replace(
        draft, turns=((one, replace(other, flows={**other.flows, fed: Flow("result", (0, 0))})),)
    )


def longer(draft: Draft, text: str, number: int) -> Task:
    rng = random.Random(number)
    return task_types.finished(
        catalogue_with_tools(load(NAME)),
        load(NAME),
        draft,
        [text],
        "long_context",
        rng,
        later_tools={},
        missing=[],
    )


def notes(task: Task) -> Mapping[str, Any]:
    assert task.state is not None
    found: Mapping[str, Any] = task.state["notes"]
    return found


def test_what_the_user_asks_for_stays_the_only_one_of_its_kind() -> None:
    draft = drafted("find", "read", "note_id", {"title": "attic", "note_id": 202})
    for number in range(20):
        task = longer(draft, "Please find my note titled attic and read it to me.", number)
        assert task.provenance["results"][0][0] == '{"note_ids":[202]}'
        assert len(notes(task)) > 2 * len(STATE["notes"])
        assert [note["title"] for note in notes(task).values()].count("attic") == 1


@pytest.mark.parametrize(
    ("said", "kept"),
    [("valves", "201"), ("nails", "301"), ("tin", "301"), ("boiler", "201"), ("titles", "")],
)
def test_an_entry_of_which_a_word_is_spoken_is_not_copied(said: str, kept: str) -> None:
    pages = {"nails": {"of": ["tin"], "pieces": 90}, "hooks": {"of": ["brass"], "pieces": 7}}
    state = {
        **STATE,
        "notes": {**STATE["notes"], "301": {"title": "shed", "body": "rakes", "pages": pages}},
    }
    plan = Plan((PlannedTurn(("total",), ("total",)),))
    draft = realise(load(NAME), catalogue_with_tools(load(NAME)), plan, state, lambda choice: None)
    copied = [
        note["title"]
        for number in range(10)
        for key, note in notes(
            longer(draft, f"Add up my counters; nothing about {said}.", number)
        ).items()
        if key not in state["notes"]
    ]
    titles = {note["title"] for note in state["notes"].values()}
    assert set(copied) == titles - ({state["notes"][kept]["title"]} if kept else set())


@pytest.mark.parametrize("first", ["find", "newest"])  # a part of a word is found, too
def test_a_collection_that_feeds_a_later_call_stays_as_it_is_and_others_grow(first: str) -> None:
    values = {"title": "e", "note_ids": [203], "color": "blue"}
    task = longer(drafted(first, "label", "note_ids", values), "Mark that note blue.", 1)
    assert notes(task) == STATE["notes"] and "203" in task.provenance["results"][0][0]
    assert task.state is not None and len(task.state["counters"]) > len(STATE["counters"])


@pytest.mark.parametrize(
    ("key", "notes", "longer"),
    [
        ("rear_left", STATE["notes"], False),
        ("door_1", STATE["notes"], True),
        ("rear_left", {}, True),
    ],
)
def test_a_table_of_settings_grows_only_where_nothing_else_can(
    key: str, notes: Mapping[str, Any], longer: bool
) -> None:
    state = {"notes": notes, "counters": {}, "doors": {key: "locked", "trunk": "locked"}}
    draft = Draft(Plan(()), state, ())
    environment = SimpleNamespace(reset=lambda state: None)
    grown = padded(cast(Environment, environment), draft, frozenset(), random.Random(1))
    assert (len(grown["doors"]) > 2) is longer


def test_collections_behind_those_that_may_not_grow_are_tried_too() -> None:
    names = ["nails", "hooks", "bolts", "screws", "brads", "tacks", "rivets", "washers", "pegs"]
    pages = {name: {"pieces": number} for number, name in enumerate(names)}
    state = {
        **STATE,
        "notes": {
            **STATE["notes"],
            **{str(id): {"title": f"a{id}", "pages": pages} for id in range(5)},
        },
    }
    draft = drafted("find", "read", "note_id", {"title": "attic", "note_id": 202}, state)
    task = longer(
        draft, f"Find my note titled attic and read what it says of {', '.join(names)}.", 1
    )
    assert task.state is not None and len(task.state["counters"]) > len(STATE["counters"])


def test_a_world_that_breaks_while_it_is_padded_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draft = drafted("find", "read", "note_id", {"title": "attic", "note_id": 202})
    monkeypatch.setattr(
        Shelf, "call", lambda self, call: Result("the worker died", error="infrastructure")
    )
    with pytest.raises(InfrastructureError, match="the worker died"):
        longer(draft, "Read my attic note.", 1)
