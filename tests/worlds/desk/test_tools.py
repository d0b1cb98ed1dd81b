"""Desk's tools and worlds: what they give, what they refuse, and that worlds share nothing."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from rods.calls import Call
from rods.worlds.desk import environment
from tests.environments import load
from tests.worlds.desk.transcript import CALLS, GOLDEN, REFUSALS, STATE, transcript


def test_behaviour_is_that_of_the_golden_transcript() -> None:
    recorded = json.loads(GOLDEN.read_text())
    now = transcript()
    if now != recorded:
        changed = [
            new for new, old in zip(now["calls"], recorded["calls"], strict=False) if new != old
        ]
        assert now["behaviour"] > recorded["behaviour"], (
            f"raise world.BEHAVIOUR: {changed[:3]} is new"
        )
        pytest.fail("write the transcript anew: python -m tests.worlds.desk.transcript")


def test_golden_transcript_calls_every_tool_and_meets_every_reachable_refusal() -> None:
    assert all(f"{name}(" in CALLS for name in environment().tools())
    met = " ".join(text for _, text, _ in transcript()["calls"])
    assert [refusal for refusal in REFUSALS if refusal not in met] == []


def test_hash_is_the_same_in_every_process() -> None:
    code = "from rods.worlds.desk import environment; print(environment().hash)"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert hashes == {f"{environment().hash}\n".encode()}


def test_hash_changes_with_behaviour_schemas_and_data(monkeypatch: pytest.MonkeyPatch) -> None:
    from rods.worlds.desk import pools, world

    before = world.Desk().hash
    monkeypatch.setattr(world, "BEHAVIOUR", world.BEHAVIOUR + 1)
    raised = world.Desk().hash
    monkeypatch.setattr(pools, "ROOMS", (*pools.ROOMS, "attic"))
    assert len({before, raised, world.Desk().hash}) == 3


def test_has_at_least_24_typed_tools_in_five_classes() -> None:
    tools = load("desk").tools()
    assert len(tools) >= 24
    assert {tool.group for tool in tools.values()} == {
        "contacts",
        "mail",
        "calendar",
        "files",
        "ledger",
    }
    for tool in tools.values():
        assert tool.bounded and tool.description
        for parameter in tool.parameters:
            schema = parameter.schema
            assert schema["type"] == "integer" or "enum" in schema or "maxLength" in schema


def test_refusal_changes_nothing() -> None:
    desk = environment()
    for line, _, error in transcript()["calls"]:
        if error != "tool":
            continue
        from rods.calls import parse_python_call

        fresh = desk.reset(STATE)
        untouched = desk.reset(STATE)
        if fresh.call(parse_python_call(line, {})).error == "tool":
            assert fresh.same_state(untouched), line


def test_worlds_share_nothing_and_forks_part() -> None:
    desk = environment()
    given = copy.deepcopy(STATE)
    first = desk.reset(given)
    second = desk.reset(given)
    first.call(Call("write_file", {"file": "memo", "text": "stay calm"}))
    assert given == STATE and not first.same_state(second)
    fork = second.fork()
    assert fork.same_state(second)
    fork.call(Call("invite_guest", {"event": "e13", "address": "box39"}))
    assert not fork.same_state(second)


def test_snapshot_is_a_copy_that_restores() -> None:
    desk = environment()
    world = desk.reset(STATE)
    world.call(Call("create_event", {"title": "audit", "day": "friday", "hour": 15}))
    picture = world.snapshot()
    assert desk.reset(picture).same_state(world)
    picture["files"].clear()
    assert world.snapshot()["files"]


def test_state_that_leaves_classes_out_is_completed_with_empty_ones() -> None:
    desk = environment()
    assert desk.reset(None).same_state(desk.reset({}))
    assert (
        desk.reset({"contacts": {}}).call(Call("find_bill", {"vendor": "acme"})).text
        == '{"error":"no such bill"}'
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("weather",), "rain"),
        (("today",), "sunday"),
        (("today",), {}),
        (("contacts", "ada", "team"), "board"),
        (("contacts", "ada", "team"), ["sales"]),
        (("contacts", "ada"), {"address": "box12"}),
        (("contacts",), []),
        (("mail", "next"), 5),
        (("mail", "next"), 24.0),
        (("mail", "inbox", "m11", "flagged"), 1),
        (
            ("mail", "inbox", "x11"),
            {"sender": "box12", "subject": "a", "text": "b", "flagged": False},
        ),
        (("calendar", "events", "e13", "day"), "sunday"),
        (("calendar", "events", "e13", "hour"), True),
        (("calendar", "events", "e13", "room"), None),
        (("calendar", "events", "e13", "guests"), ["box30", "box12"]),
        (("calendar", "events", "e10"), STATE["calendar"]["events"]["e13"]),
        (("files", "memo", "text"), ""),
        (("files", "memo", "text"), "x" * 61),
        (("files", "memo", "size"), 3),
        (("ledger", "accounts", "cash"), -1),
        (("ledger", "accounts"), None),
        (("ledger", "bills", "i15", "amount"), 0),
    ],
)
def test_illegal_state_is_rejected_with_its_place(path: tuple[str, ...], value: Any) -> None:
    state = copy.deepcopy(STATE)
    part = state
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(ValueError, match="state"):
        environment().reset(state)


def test_state_that_is_not_json_is_rejected() -> None:
    for state in ({"today": {1, 2}}, {"today": "\ud800"}, {1: 2}):
        with pytest.raises(ValueError, match="state"):
            environment().reset(state)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({}, "bad_arguments"),
        ({"file": "memo"}, "bad_arguments"),
        ({"file": "memo", "text": None}, "bad_arguments"),
        ({"file": "memo", "text": ["a"]}, "bad_arguments"),
        ({"file": "memo", "text": "a", "mode": "w"}, "bad_arguments"),
        ({"file": "memo", "text": "x" * 10**7}, "bounds"),
        ({"file": "memo", "text": "\ud800"}, "bounds"),
        ({"file": "memo", "text": ""}, "bounds"),
    ],
)
def test_bad_arguments_are_results_never_exceptions(arguments: dict[str, Any], kind: str) -> None:
    world = environment().reset(STATE)
    result = world.call(Call("write_file", arguments))
    assert result.error == kind
    assert json.loads(result.text) == result.value and len(result.text) < 60
    assert world.same_state(environment().reset(STATE))


def test_results_and_worlds_stay_small_whatever_is_called() -> None:
    world = environment().reset({"ledger": {"accounts": {"cash": 0}, "bills": {}, "next": 0}})
    for number in range(2000):
        world.call(
            Call("create_file", {"file": f"file{number}", "folder": "old", "text": "x" * 60})
        )
        world.call(Call("send_mail", {"address": "box10", "subject": "audit", "text": "x" * 60}))
        world.call(Call("add_bill", {"vendor": "acme", "amount": 100_000}))
        world.call(Call("add_income", {"account": "cash", "amount": 100_000}))
    assert len(world.call(Call("list_folder", {"folder": "old"})).text) < 4000
    assert world.call(Call("add_income", {"account": "cash", "amount": 100_000})).value == {
        "error": "too much money"
    }
    assert environment().reset(world.snapshot()).same_state(world)


def test_calls_are_quick() -> None:
    world = environment().reset(STATE)
    there = Call("transfer_money", {"amount": 5, "source": "cash", "target": "savings"})
    back = Call("transfer_money", {"amount": 5, "source": "savings", "target": "cash"})
    start = time.process_time()
    for _ in range(5000):
        world.call(there)
        world.call(back)
    assert 10_000 / (time.process_time() - start) > 100_000
