"""Whose fault it is what a server behind an address refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.openenv_transcripts import behind, serving
from rods.calls import Call
from rods.environments.base import Features, Parameter, Result, Tool
from rods.errors import InfrastructureError
from tests.environments import load

FAULTY = Tool("fault", "toys", "Does it.", (Parameter("by", {"type": "integer"}, required=False),))


class World:
    """Whose code is at fault."""

    def call(self, call: Call) -> Result:
        raise TypeError("a fault of the world")

    def snapshot(self) -> Any:
        return {}

    def fork(self) -> World:
        return self

    def same_state(self, other: object) -> bool:
        return True


BROKEN: Any = SimpleNamespace(
    name="broken",
    hash="broken",
    features=Features(deterministic=True, snapshot=True, fork=True, state_visible=True),
    tools=lambda: {FAULTY.name: FAULTY},
    reset=lambda state: World(),
)


def test_what_a_tool_of_the_server_breaks_over_is_the_machinerys() -> None:
    with serving(BROKEN) as address:
        world = behind(address).reset(None)
        with pytest.raises(InfrastructureError, match="fault was not carried out"):
            world.call(Call("fault"))


def test_what_a_server_says_of_a_state_is_said_of_the_task() -> None:
    with serving(load("desk")) as address, pytest.raises(ValueError, match="no seed"):
        behind(address).reset({"reset": {"seed": 3}})
