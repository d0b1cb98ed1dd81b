"""Initial states: generated where the environment can, else the seed's in a model's words, within its shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from daemon.authors.catalogue_free.plain import library
from daemon.authors.llm.computing import Compute
from daemon.authors.llm.worlds import Worlds, fitting
from rods.composing.records import ComposeError
from rods.environments import load
from tests.daemon.llm.early import early, planned
from tests.daemon.llm.test_own_environment import STATE, TOY, root
from tests.daemon.llm.world import asker_at, assignment, playing
from tests.daemon.pipelines import THREADS

NAME = f"{TOY}:environment"


async def made(
    stub: Stub, habit: str, *, duplicates: bool = True, old: dict[str, Any] = STATE
) -> tuple[dict[str, Any], int]:
    """The world for a plan, and the calls that it took."""
    stub.use(playing(f"tests.daemon.llm.early_habits:{habit}"))
    async with asker_at(stub) as asker:
        worlds = Worlds(library(NAME), asker, Compute(THREADS), generated=False, duplicates=duplicates)
        given = assignment(replace(root("environment", "base"), state=old, id=""), load(NAME))
        return await worlds.state(given, planned(NAME, ("titles",), ("count",))), asker.account.calls


async def test_a_model_gives_the_seed_s_world_other_contents(stub: Stub) -> None:
    state, calls = await made(stub, "redecorating")
    assert calls == 1 and state["notes"].keys() > STATE["notes"].keys()
    assert state["notes"]["101"] == {"title": "attic", "body": "water the roses"}
    load(NAME).reset(state)


NO_WORLD = pytest.mark.parametrize("habit", ["remodelling", "forbidden", "idle", "repeating"])


@NO_WORLD
async def test_no_variant_is_begun_in_the_seed_s_world_where_it_would_be_refused_as_a_duplicate(
    stub: Stub, habit: str
) -> None:
    with pytest.raises(ComposeError) as caught:
        await made(stub, habit)
    assert caught.value.type == "param_gen_failed"


@NO_WORLD
async def test_where_duplicates_are_allowed_the_seed_s_world_is_kept_after_all_tries(stub: Stub, habit: str) -> None:
    assert await made(stub, habit, duplicates=False) == (STATE, 3)


async def test_a_world_that_holds_nothing_may_stay_as_it_is(stub: Stub) -> None:
    empty: dict[str, Any] = {"notes": {}, "counters": {}}
    assert await made(stub, "idle", old=empty) == (empty, 1)


async def test_nothing_is_paid_for_a_variant_after_its_world_has_failed(stub: Stub) -> None:
    async with early(stub, "idle", NAME, attempts=1, planner_retries=1) as who:
        assert await who.write(root("environment", "base")) == "param_gen_failed"
    assert who.stages() == ["plan", "state", "state", "state"]


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
