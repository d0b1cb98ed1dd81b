"""A user's own environment that brings tools, schemas and a state, and nothing else: whole variants
of every type, also where the world shows no snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from bench.fixtures.llm_stub import Stub
from rods.calls import Call
from rods.environments.base import reference
from rods.gates.ground_truth import replay
from rods.tasks import RETURN_SENTENCE, TASK_TYPES, Task, TaskType
from tests.daemon.authors.catalogue_free import typed_environment as clinic
from tests.daemon.authors.llm.early import early
from tests.environments import load

STAND_IN = "bench.fixtures.llm_stub.roles:answer"
TOY = "tests.rods.toy_environment"
STATE: dict[str, Any] = {
    "notes": {
        "101": {"title": "garden", "body": "water the roses"},
        "102": {"title": "kitchen", "body": "buy flour"},
        "103": {"title": "office", "body": "call the printer"},
    },
    "counters": {"visits": 3, "sales": 1},
}
ASK = "Show me all titles of my notes."
COUNT = "Add 5 to sales."
MARK = "Mark note 102 as blue."
TITLES = Call("titles")
ADD = Call("count", {"name": "sales", "amount": 5})
LABEL = Call("label", {"note_ids": [102], "color": "blue"})


def root(factory: str, type: TaskType) -> Task:
    """A seed of two requests, the second of which is made in vain at first where the type wants
    that."""
    script = (f"{ASK} {MARK}", COUNT)
    calls = ((TITLES, LABEL), (ADD,))
    held_out = {}
    if type == "miss_func":
        script = (script[0], COUNT, RETURN_SENTENCE)  # type: ignore[assignment]
        calls = ((TITLES, LABEL), (), (ADD,))  # type: ignore[assignment]
        held_out = {2: ("count",)}
    elif type == "miss_param":
        script = (script[0], "Add something to sales.", "It is 5.")  # type: ignore[assignment]
        calls = ((TITLES, LABEL), (), (ADD,))  # type: ignore[assignment]
    environment = load(f"{TOY}:{factory}")
    return Task(
        reference(environment), type, script, calls, tuple(environment.tools()), held_out, STATE
    )


@pytest.mark.few(4, others="slow")
@pytest.mark.parametrize("habit", ["good", STAND_IN])
@pytest.mark.parametrize("factory", ["environment", "modest"])
@pytest.mark.parametrize("type", TASK_TYPES)
async def test_tools_and_schemas_are_enough_for_variants_of_every_type(
    stub: Stub, factory: str, type: TaskType, habit: str
) -> None:
    seed = root(factory, type)
    async with early(stub, habit, f"{TOY}:{factory}") as who:
        outcomes = [await who.write(seed, pick=f"{number}-x") for number in range(4)]
    variants = [one for one in outcomes if isinstance(one, Task)]
    assert len(variants) >= 2, (
        outcomes,
        [(one.error, one.evidence) for one in who.bench.rejections],
    )
    for variant in variants:
        assert variant.type == type and not replay(load(f"{TOY}:{factory}"), variant)
        assert variant.calls != seed.calls and [bool(calls) for calls in variant.calls] == [
            bool(calls) for calls in seed.calls
        ]
        assert {"planner", "rewrite_turns", "judge_quality"} <= variant.provenance["prompts"].keys()


async def test_of_a_world_that_types_bind_variants_have_states_of_their_own(stub: Stub) -> None:
    async with early(stub, STAND_IN, clinic.NAME) as who:
        outcomes = [await who.write(clinic.seed(), pick=f"{number}-x") for number in range(6)]
    rejected = [(one.error, one.evidence) for one in who.bench.rejections]
    variants = [one for one in outcomes if isinstance(one, Task)]
    assert len(variants) >= 3, (outcomes, rejected)
    assert "accept this state" not in str(rejected)
    assert all(one.state != clinic.STATE for one in variants)
