"""Initial states: generated where the environment can, else the seed's in a model's words, within its shape."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.authors.llm.computing import Compute
from daemon.authors.llm.worlds import Worlds, fitting
from rods.composing.plain import library
from rods.environments import load
from tests.daemon.llm.early import planned
from tests.daemon.llm.test_own_environment import STATE, TOY, root
from tests.daemon.llm.world import asker_at, assignment, playing
from tests.daemon.pipelines import THREADS
from tests.llm_stub import Stub

NAME = f"{TOY}:environment"


async def made(stub: Stub, habit: str) -> tuple[dict[str, Any], int]:
    """The world for a plan, and the calls that it took."""
    stub.use(playing(f"tests.daemon.llm.early_habits:{habit}"))
    async with asker_at(stub) as asker:
        worlds = Worlds(library(NAME), asker, Compute(THREADS), generated=False)
        given = assignment(root("environment", "base"), load(NAME))
        return await worlds.state(given, planned(NAME, ("titles",), ("count",))), asker.account.calls


async def test_a_model_gives_the_seed_s_world_other_contents(stub: Stub) -> None:
    state, calls = await made(stub, "redecorating")
    assert calls == 1 and state["notes"].keys() > STATE["notes"].keys()
    assert state["notes"]["101"] == {"title": "attic", "body": "water the roses"}
    load(NAME).reset(state)


@pytest.mark.parametrize("habit", ["remodelling", "forbidden"])
async def test_a_world_of_another_shape_is_refused_and_the_seed_s_kept(stub: Stub, habit: str) -> None:
    assert await made(stub, habit) == (STATE, 3)


async def test_a_generated_world_costs_no_call_and_is_not_the_seed_s(stub: Stub) -> None:
    async with asker_at(stub) as asker:
        worlds = Worlds(library("desk"), asker, Compute(THREADS), generated=True)
        state = await worlds.state(assignment(), planned("desk", ("mail_person",), ("plan_event",)))
        assert asker.account.calls == 0 and state != assignment().seed.state
        load("desk").reset(state)


def test_of_a_patch_that_fits_in_part_the_largest_parts_are_taken() -> None:
    entry = {"title": "cellar", "body": "empty it"}
    patch = {"notes": {"104": entry, "101": {"title": "attic"}, "cellar": entry}, "shelves": {"one": 1}}
    assert list(fitting(STATE, patch)) == [{"notes": {"104": entry}}, {"notes": {"101": {"title": "attic"}}}]
    assert list(fitting(STATE, {"counters": {"visits": 9, "sales": 2}})) == [{"counters": {"visits": 9, "sales": 2}}]
    assert list(fitting(STATE, {})) == []
