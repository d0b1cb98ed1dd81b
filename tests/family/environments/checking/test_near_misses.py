"""Checks that calls earn full marks by which do not what was asked for are refused, each kind by
its own control; sound ones pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.checking.scenarios import Scenario, WitnessCall, reasons, validate

SOURCE = '''\
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from rods.environments.typed import ToolError, TypedEnvironment

Key = Annotated[str, Field(pattern=r"^p[0-9]{1,4}$", max_length=5)]
Name = Annotated[str, Field(min_length=1, max_length=20)]


@dataclass
class Plant:
    name: Name
    room: Name
    wet: bool = False
    note: str = ""


@dataclass
class World:
    plants: dict[str, Plant] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    moves: int = 0
    next: Annotated[int, Field(ge=1, le=9999)] = 1


WORLD = TypedEnvironment("plants.py:environment", World, behaviour=1)


def environment() -> TypedEnvironment[World]:
    return WORLD


def _plant(db: World, plant: str) -> Plant:
    if plant not in db.plants:
        raise ToolError("there is no such plant")
    return db.plants[plant]


@WORLD.tool("Plants", reads=True)
def find(db: World, name: Name) -> list[str]:
    """The keys of the plants of a name."""
    return [key for key, plant in db.plants.items() if plant.name == name]


@WORLD.tool("Plants", reads=False)
def water(db: World, plant: Key) -> bool:
    """Waters a plant."""
    if _plant(db, plant).wet:
        raise ToolError("it is wet")
    db.plants[plant].wet = True
    db.log.append(f"water {plant}")
    return True


@WORLD.tool("Plants", reads=False)
def move(db: World, plant: Key, room: Name) -> bool:
    """Moves a plant."""
    if _plant(db, plant).room == room:
        raise ToolError("it is there")
    db.plants[plant].room = room
    db.moves += 1
    db.log.append(f"move {plant} {room}")
    return True


@WORLD.tool("Plants", reads=False)
def label(db: World, plant: Key, note: Name) -> bool:
    """Puts a note on a plant."""
    if _plant(db, plant).note == note:
        raise ToolError("it is there")
    db.plants[plant].note = note
    db.log.append(f"label {plant}")
    return True


@WORLD.tool("Plants", reads=False)
def remove(db: World, plant: Key) -> bool:
    """Takes a plant away."""
    _plant(db, plant)
    del db.plants[plant]
    db.log.append(f"remove {plant}")
    return True


@WORLD.tool("Plants", reads=False)
def add(db: World, name: Name, room: Name) -> str:
    """Adds a plant; its key."""
    key = f"p{db.next}"
    db.plants[key] = Plant(name, room)
    db.next += 1
    db.log.append(f"add {key}")
    return key
'''
CHECKS = {  # by name: what is true of the world
    "fern_is_wet": 'any(each.name == "fern" and each.wet for each in db.plants.values())',
    "fern_is_in_the_hall": 'any(each.name == "fern" and each.room == "hall" for each in '
    "db.plants.values())",
    "fern_is_gone": 'not any(each.name == "fern" for each in db.plants.values())',
    "fern_has_a_note": 'any(each.name == "fern" and each.note for each in db.plants.values())',
    "rose_is_wet": 'any(each.name == "rose" and each.wet for each in db.plants.values())',
    "rose_is_in_the_hall": 'any(each.name == "rose" and each.room == "hall" for each in '
    "db.plants.values())",
    "moved_twice": "db.moves == 2",
    "something_changed": "db.log != [] and bool(db.log[-1])",
    "logged": '"water p1" in db.log',
    "every_fern_is_wet": 'all(each.wet for each in db.plants.values() if each.name == "fern")',
    "something_moved": 'any(each.room == "hall" for each in db.plants.values())',
    "one_is_wet_in_the_hall": 'any(each.wet and each.room == "hall" for each in '
    "db.plants.values())",
    "p5_is_a_wet_rose": '"p5" in db.plants and db.plants["p5"].name == "rose" and '
    'db.plants["p5"].wet',
    "p5_is_there": '"p5" in db.plants',
}
CONTROLS = {
    "another_value",
    "another_target",
    "another_tool",
    "by_chance",
    "log_alone",
    "minted_key",
    "needless",
}
STATE: dict[str, Any] = {
    "plants": {
        "p1": {"name": "fern", "room": "attic", "wet": False},
        "p2": {"name": "palm", "room": "attic", "wet": False},
        "p3": {"name": "moss", "room": "cellar", "wet": False},
        "p4": {"name": "iris", "room": "bath", "wet": False},
    },
    "next": 5,
}
FIND = WitnessCall(Call("find", {"name": "fern"}))
WATER = WitnessCall(Call("water", {"plant": "p1"}), {"plant": 0})
MOVE = WitnessCall(Call("move", {"plant": "p1", "room": "hall"}), {"plant": 0})
ADD = WitnessCall(Call("add", {"name": "rose", "room": "hall"}))
WATER_IT = WitnessCall(Call("water", {"plant": "p5"}), {"plant": 0})
REMOVE = WitnessCall(Call("remove", {"plant": "p1"}), {"plant": 0})
LABEL = WitnessCall(Call("label", {"plant": "p1", "note": "mind it"}), {"plant": 0})
WATERED = Scenario(STATE, ("Water the fern.",), (FIND, WATER), ())
MOVED = Scenario(STATE, ("Bring the fern into the hall.",), (FIND, MOVE), ())
BOTH = Scenario(STATE, ("Water the fern, and bring it into the hall.",), (FIND, WATER, MOVE), ())
ADDED = Scenario(STATE, ("Add a rose in the hall, and water it.",), (ADD, WATER_IT), ())
GONE = Scenario(STATE, ("Take the fern away.",), (FIND, REMOVE), ())
NOTED = Scenario(STATE, ("Leave some note at the fern.",), (FIND, LABEL), ())
ON = WitnessCall(Call("move", {"plant": "p1", "room": "roof"}), {"plant": 0})
TWICE = Scenario(
    STATE, ("Bring the fern into the hall, then onto the roof.",), (FIND, MOVE, ON), ()
)
SOUND = [
    (WATERED, "fern_is_wet"),
    (MOVED, "fern_is_in_the_hall"),
    (BOTH, "fern_is_wet fern_is_in_the_hall"),
    (ADDED, "rose_is_wet rose_is_in_the_hall"),
    (GONE, "fern_is_gone"),
    (NOTED, "fern_has_a_note"),  # what the note says was left open
]
# A scenario with checks, and the controls that find them.
UNSOUND = [
    (WATERED, "something_changed", {"another_value", "another_tool", "by_chance"}),
    (BOTH, "fern_is_in_the_hall something_changed", {"needless"}),
    (WATERED, "logged", {"log_alone"}),
    (BOTH, "fern_is_in_the_hall logged", {"log_alone"}),
    (WATERED, "every_fern_is_wet", {"another_tool"}),
    (BOTH, "every_fern_is_wet fern_is_in_the_hall", set()),  # one that is gone is not in the hall
    (MOVED, "something_moved", {"another_value"}),
    (BOTH, "fern_is_wet something_moved", {"another_value"}),
    (BOTH, "one_is_wet_in_the_hall", {"another_target"}),
    (TWICE, "moved_twice", {"another_value", "another_target"}),
    (ADDED, "p5_is_a_wet_rose rose_is_in_the_hall", {"minted_key"}),
    (ADDED, "p5_is_there rose_is_wet rose_is_in_the_hall", {"minted_key"}),
]


@pytest.fixture
def plants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    """A world of plants with those checks, in this process."""
    made = (
        f'\n\n@WORLD.check\ndef {name}(db: World) -> bool:\n    """{name}."""\n    return {what}\n'
        for name, what in CHECKS.items()
    )
    (tmp_path / "plants.py").write_text(SOURCE + "".join(made))
    monkeypatch.chdir(tmp_path)
    with Environments() as environments:
        yield environments.load("plants.py:environment")


def checked(scenario: Scenario, checks: str) -> Scenario:
    return replace(scenario, checks=tuple(Call(name, {}) for name in checks.split()))


@pytest.mark.few(4, others="slow")
@pytest.mark.parametrize(("scenario", "checks"), SOUND)
@pytest.mark.parametrize("random_seed", range(3))
def test_sound_checks_pass(
    plants: Environment, scenario: Scenario, checks: str, random_seed: int
) -> None:
    assert validate(plants, checked(scenario, checks), random_seed).faults == ()


@pytest.mark.few(6, others="slow")
@pytest.mark.parametrize(("scenario", "checks", "controls"), UNSOUND)
@pytest.mark.parametrize("random_seed", range(3))
def test_checks_that_something_else_satisfies_are_refused(
    plants: Environment, scenario: Scenario, checks: str, controls: set[str], random_seed: int
) -> None:
    found = validate(plants, checked(scenario, checks), random_seed)
    told = set(reasons(found))
    assert told <= CONTROLS and controls <= told and bool(controls) is bool(told), found
    assert all(fault.where and fault.remedy for fault in found.faults)
