"""Calls that nobody needs are refused by what they do, not by their words."""

from dataclasses import replace

import pytest

from rods.calls import Call
from rods.environments.base import reference
from rods.gates.ground_truth import needless, run
from rods.gates.texts import unasked
from rods.tasks import Task
from tests.environments import load


def _told(world, calls, state=None, script=None):
    environment = load(world)
    task = Task(
        reference(environment),
        "base",
        script or tuple("x" for _ in calls),
        calls,
        tuple(environment.tools()),
        state=state or {},
    )
    results = run(environment, task)
    assert all(result.error is None for turn in results for result in turn), results
    told = [*needless(environment, task, results), *unasked(environment, task, results)]
    return [(reason.turn, reason.call, reason.text) for reason in told]


def _needless(calls, state):
    told = _told("bfcl", calls, state)
    return [(turn, index) for turn, index, why in told if "nobody" not in why]


CAR = {"classes": ["VehicleControlAPI"], "config": {"VehicleControlAPI": {"fuelLevel": 6.0}}}
FILL = Call("fillFuelTank", {"fuelAmount": 19})
FUEL = Call("displayCarStatus", {"option": "fuel"})
WARM = Call("adjustClimateControl", {"temperature": 25, "fanSpeed": 20})
COOL = Call("adjustClimateControl", {"temperature": 20})
COOL_TOO = Call("adjustClimateControl", {"temperature": 20, "fanSpeed": 30})


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("I'm helping to prepare the workshop. When is it?", True),
        ("When's the workshop?", True),
        ("The workshop will be fun.", False),
        ("The workshop will be fun when you are there.", False),
    ],
)
def test_a_question_word_asks_for_what_it_is_about(text: str, asked: bool) -> None:
    event = {"title": "workshop", "day": "monday", "hour": 9, "room": "", "guests": []}
    state = {"today": "monday", "calendar": {"events": {"e14": event}, "next": 24}}
    told = _told("desk", ((Call("find_event", {"title": "workshop"}),),), state, (text,))
    assert any("nobody asks for" in why for *_, why in told) is not asked


@pytest.mark.parametrize(
    ("calls", "refused"),
    [
        (((FUEL,), (FUEL,)), [(1, 0)]),
        (((FUEL,), (FILL,), (FILL,)), []),
        (((FILL, FUEL),), [(0, 1)]),
        (((FUEL,), (FILL,), (WARM,)), []),
        (((WARM, COOL_TOO),), []),
        (((WARM,), (FILL,), (FUEL, COOL_TOO)), [(2, 0)]),
        (((WARM,), (Call("get_current_speed", {}),), (FILL,), (COOL,)), [(3, 0)]),
        (((WARM,), (WARM,)), [(1, 0)]),
    ],
)
def test_what_is_known_set_or_undone(calls, refused):
    assert sorted(set(_needless(calls, CAR))) == refused


def test_no_turn_is_played_again_where_calls_wait_for_another_process(monkeypatch):
    world = load("bfcl")
    monkeypatch.setattr(world, "features", replace(world.features, waits=True))
    assert not _needless(((FUEL,), (FUEL,)), CAR)


def test_a_tool_with_a_twin_is_named():
    asks = Call("get_outside_temperature_from_google", {})
    for text, refused in (("How warm is it outside?", True), ("Ask Google how warm it is.", False)):
        told = _told("bfcl", ((asks,),), CAR, (text,))
        assert any("another tool does it too" in why for _, _, why in told) is refused
