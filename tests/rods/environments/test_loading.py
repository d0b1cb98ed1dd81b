"""Environments by name: one object a name, errors that help, and settings that stay with whoever
holds them."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from rods.calls import Call
from rods.config import Sandbox
from rods.environments.base import Environment, kept
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.worlds.sandbox.environment import Sandboxed

TOY = "tests.rods.toy_environment:"
CONFINED = Sandbox(environments=("desk",), workers=1, lowest_tier="limits")


def test_each_is_made_once_and_a_name_without_a_colon_is_one_of_ours() -> None:
    environments = Environments()
    assert environments.load("desk") is environments.load("desk")
    assert environments.load(TOY + "environment") is not Environments().load(TOY + "environment")
    assert environments.load("rods.worlds.desk:environment").hash == environments.load("desk").hash


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param(
            "nowhere",
            "unknown environment → use bfcl, desk, repository or your own 'package.module:factory'",
            marks=pytest.mark.needs("bfcl", "simulation"),
        ),
        ("nowhere.at_all:environment", "no module 'nowhere'"),
        (TOY + "nothing", "has no 'nothing'"),
    ],
)
def test_what_cannot_be_found_is_told(name: str, told: str) -> None:
    with pytest.raises(UserError) as refused:
        Environments().load(name)
    assert told in str(refused.value) and repr(name) in str(refused.value)


def test_two_settings_live_side_by_side_and_what_was_started_is_ended() -> None:
    plain = Environments()
    with Environments(CONFINED) as confined:
        inside = confined.load("desk")
        outside = plain.load("desk")
        assert isinstance(inside, Sandboxed) and not isinstance(outside, Sandboxed)
        assert inside.hash == outside.hash
        assert plain.load("desk") is outside and confined.load("desk") is inside
        worker = inside._cells[0].worker
        assert worker.pid is not None
    assert worker.pid is None


WORLD = """
from dataclasses import dataclass
from rods.environments.typed import TypedEnvironment

@dataclass
class Count:
    number: int = 0

world = TypedEnvironment("counting.py:environment", Count, behaviour=1)

@world.tool("Counting")
def count(state: Count) -> int:
    \"\"\"Counts.\"\"\"
    state.number += 1
    return state.number

def environment():
    return world
"""


def test_a_file_s_world_is_the_same_confined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counting.py").write_text(WORLD)
    monkeypatch.chdir(tmp_path)
    name = "counting.py:environment"
    plain = Environments().load(name)
    with Environments(Sandbox(environments=(name,), workers=1, lowest_tier="limits")) as confined:
        inside = confined.load(name)
        assert isinstance(inside, Sandboxed)
        assert (inside.name, inside.hash) == (plain.name, plain.hash) and plain.name == name
        world = inside.reset({"number": 4})
        assert world.call(Call("count")).value == 5
        assert world.snapshot() == {"number": 5}


def test_what_is_derived_from_an_environment_is_kept_for_the_object() -> None:
    asked: list[Environment] = []

    @kept
    def count(environment: Environment) -> int:
        asked.append(environment)
        return len(asked)

    one, other = (Environments().load(TOY + "environment") for _ in range(2))
    assert [count(one), count(one), count(other), count(one)] == [1, 1, 2, 1]
    many = [Environments().load(TOY + "environment") for _ in range(300)]
    assert [count(each) for each in many] == [*range(3, 303)] and [
        count(each) for each in many
    ] == [*range(3, 303)]
    assert count(one) == 1
    gone = weakref.ref(other)
    asked.clear()
    del other
    gc.collect()
    assert gone() is None  # with what was derived of it
