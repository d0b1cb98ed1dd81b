"""Variants of scenarios: a new state and task in the seed's own world, with the profile of its
witness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rods.composing.records import ComposeError
from rods.conversations import Checks, Persona
from rods.daemon.authors.base import Assignment
from rods.environments.base import Environment
from rods.family.environments.checking.scenarios import profile, scenario_of, validate
from rods.family.environments.kind import ProceduralScenarios
from rods.tasks import OpenTask
from tests.daemon.pipelines import THREADS
from tests.family.environments.procedural.seeds import drawn

pytestmark = pytest.mark.slow

WHO = ProceduralScenarios(THREADS)
World = tuple[Environment, list[OpenTask]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with drawn(tmp_path_factory) as (environment, tasks):
        yield environment, tasks[:6]


def given(seed: OpenTask, attempt: int = 1, *, same: bool = False) -> Assignment[OpenTask]:
    return Assignment(f"1-{seed.id}", 0, seed, seed, 1, attempt, same=same)


def changes(environment: Environment, task: OpenTask) -> Counter[str]:
    tools = environment.tools()
    return Counter(
        each["name"] for each in task.provenance["witness"] if not tools[each["name"]].reads
    )


async def test_a_variant_has_its_seed_s_profile_in_another_state_of_the_same_world(
    world: World,
) -> None:
    environment, seeds = world
    assert {type(seed.user).__name__ for seed in seeds} == {"Script", "Persona"}
    moved = 0
    for seed in seeds:
        made = await WHO.write(world[0], given(seed))
        old = scenario_of(seed)
        new = scenario_of(made)
        assert old is not None and new is not None
        asked = isinstance(seed.user, Persona)
        assert isinstance(made.user, Persona) == asked
        tools = environment.tools()
        assert profile(tools, new, asked=asked) == profile(tools, old, asked=asked)
        assert (
            made.environment == seed.environment
            and made.system == seed.system
            and made.tools == seed.tools
        )
        assert (
            made.state != seed.state
            and made.goal_calls != seed.goal_calls
            and made.texts != seed.texts
        )
        assert not validate(environment, new).faults and len(made.provenance["mutants"]) == len(
            new.guards
        )
        moved += changes(environment, made) != changes(environment, seed)
    assert moved >= len(seeds) / 3


async def test_what_is_drawn_is_keyed_by_pick_and_attempt(world: World) -> None:
    seed = world[1][0]
    made, again, other = [await WHO.write(world[0], given(seed, attempt)) for attempt in (1, 1, 2)]
    assert made == again and made.id != other.id


async def test_the_same_functions_are_the_same_changes(world: World) -> None:
    for seed in world[1][:3]:
        made = await WHO.write(world[0], given(seed, same=True))
        assert changes(world[0], made) == changes(world[0], seed)


async def test_a_profile_that_no_drawn_scenario_has_is_refused_with_what_was_met(
    world: World,
) -> None:
    seed = next(seed for seed in world[1] if not seed.provenance["guards"])
    assert isinstance(seed.goal, Checks)
    often = replace(seed, goal=Checks(seed.goal.calls * 20), id="")
    with pytest.raises(
        ComposeError, match=r"no_pattern: none of .* has its profile and passes: .* another profile"
    ):
        await WHO.write(world[0], given(often))


@pytest.mark.parametrize("change", [{"world": 1}, {"world": "0"}, {"random_seed": 78}])
async def test_a_world_that_was_not_drawn_so_has_no_author(
    world: World, change: dict[str, object]
) -> None:
    seed = world[1][0]
    strange = replace(seed, provenance={**seed.provenance, **change})
    with pytest.raises(ComposeError, match="no_prompts: its world was not drawn by chance"):
        await WHO.write(world[0], given(strange))
