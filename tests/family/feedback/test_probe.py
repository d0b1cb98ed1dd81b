"""Following a remedy in other worlds: what mends a failure there, what does not, and what cannot be
tried."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rods.analysis.plausible_calls import KnownValues
from rods.environments.base import Features
from rods.family.feedback.failures import pattern
from rods.family.feedback.gates import DOCUMENTED, RefusedCall, Remedy, mends, witnesses
from rods.tasks import Task
from rods.worlds import bfcl as bfcl_environment, desk
from tests.environments import Late, load

DESK = Late(lambda: desk.generate(7, 120, 0))


def met(
    environment: str, tasks: Sequence[Task], tool: str, words: str, **shapes: str
) -> list[RefusedCall]:
    world = load(environment)
    return witnesses(
        world, tasks, world.tools()[tool], words, [shapes] if shapes else [], random.Random(1)
    )


@pytest.mark.parametrize(
    ("tool", "words", "good", "poor"),
    [
        (
            "move_event",
            "no such event",
            Remedy("look_up", "find_event", "event"),
            Remedy("first", "find_event"),
        ),
        (
            "pay_bill",
            "no such bill",
            Remedy("look_up", "find_bill", "bill"),
            Remedy("first", "get_balance"),
        ),
        ("write_file", "file locked", Remedy("first", "unlock_file"), Remedy("first", "lock_file")),
        (
            "pay_bill",
            "not enough money",
            Remedy("first", "add_income"),
            Remedy("first", "find_bill"),
        ),
        (
            "move_event",
            "no such event",
            Remedy("argument", argument="event", shape="a9"),
            Remedy("first", "list_day"),
        ),
    ],
)
def test_a_good_remedy_mends_the_call_and_a_poor_one_does_not(
    tool: str, words: str, good: Remedy, poor: Remedy
) -> None:
    world = load("desk")
    found = met("desk", DESK, tool, words, event="a")
    assert len(found) >= 2 and len({tuple(map(str, one.calls)) for one in found}) == len(found)
    for one in found:
        result = one.world.fork().call(one.call)
        assert result.error == "tool" and pattern(one.call, result) == words
    assert 2 * sum(mends(world, one, good) for one in found) >= len(found)
    assert not any(mends(world, one, poor) for one in found)


def test_a_path_where_a_name_is_read_is_brought_about_by_its_shape() -> None:
    bfcl_environment.fetch()
    tasks = [
        task for task in bfcl_environment.tasks() if task.split == "train" and task.type == "base"
    ]
    world = load("bfcl")
    found = met("bfcl", tasks, "cat", "cat: {file_name}: Invalid character", file_name="a/a.a")
    assert found and any("/" in one.call.arguments["file_name"] for one in found)
    assert any(
        mends(world, one, Remedy("argument", argument="file_name", shape="a.a")) for one in found
    )
    assert not any(mends(world, one, Remedy("first", "pwd")) for one in found)


def test_worlds_of_tasks_that_never_call_the_tool_bring_its_refusal_about() -> None:
    others = [task for task in DESK if all(call.name != "pay_bill" for call in task.goal_calls)]
    found = met("desk", others, "pay_bill", "no such bill")
    assert len(found) >= 2 and all(one.call.name == "pay_bill" for one in found)


def test_a_text_where_a_number_is_read_is_brought_about_by_its_shape() -> None:
    bfcl_environment.fetch()
    tasks = [task for task in bfcl_environment.tasks() if task.split == "train"]
    words = "cannot create mpf from {value}"
    found = met("bfcl", tasks, "logarithm", words, value="a", base="integer")
    assert found and all(isinstance(one.call.arguments["value"], str) for one in found)


def test_the_values_of_the_refused_call_are_looked_up() -> None:
    world = load("desk")
    found = met("desk", DESK, "move_event", "no such event", event="a")
    for one in found:
        refused = one.call.arguments["event"]
        assert any(value == refused for _, value in one.known.values)
    titles = [
        (one, call.arguments["title"])
        for one in found
        for call in one.calls
        if call.name == "find_event"
    ]
    assert titles
    for one, title in titles:  # stood where the id belongs, and nothing else is known
        known = KnownValues()
        known.add_all({**one.call.arguments, "event": title}.items())
        alone = replace(one, known=known, calls=())
        assert mends(world, alone, Remedy("look_up", "find_event", "event"))


def test_a_remedy_that_cannot_be_followed_says_why() -> None:
    world = load("desk")
    tool = world.tools()["move_event"]
    seen = [{"event": "a"}]
    assert Remedy("look_up", "find_event", "event").faults(world, tool, seen) == []
    assert Remedy("argument", argument="day", shape=DOCUMENTED).faults(world, tool, seen) == []
    for poor in (
        Remedy("look_up", "open_window", "event"),
        Remedy("look_up", "find_event", "title"),
        Remedy("first", "move_event"),
        Remedy("argument", argument="event", shape="a"),
        Remedy("argument", argument="event"),
        Remedy("argument", argument="event", shape=DOCUMENTED),
    ):
        assert poor.faults(world, tool, seen), poor


def test_nothing_is_brought_about_where_worlds_cannot_be_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = load("desk")
    monkeypatch.setattr(world, "features", replace(Features(), fork=False))
    assert met("desk", DESK, "move_event", "no such event") == []


def test_what_no_world_says_is_not_brought_about() -> None:
    assert met("desk", DESK, "move_event", "the moon is full") == []
