"""What is tried of a tool: the likeliest calls first, and never more work than the calls that are
asked for."""

import itertools
import random
import time

import pytest

from rods.analysis.plausible_calls import SPREAD, KnownValues, options, plausible
from rods.calls import Call
from rods.environments.base import Parameter, Tool

TYPES = ("string", "integer", "boolean", "array")


def tool(*parameters: Parameter) -> Tool:
    return Tool("search", "files", "Looks.", parameters)


def pool(rng: random.Random) -> KnownValues:
    made = KnownValues()
    for index in range(rng.randrange(12)):
        name = rng.choice(["", "p0", "p1", "other"])
        made.add_all([(name, rng.choice([f"value{index}", index, [f"item{index}"]]))])
    return made


def weighed(one: Tool, values: KnownValues, most: int) -> list[Call]:
    """All combinations, sorted by the sum of their values' ranks; an argument that is left out
    ranks like the best."""
    wide = max(2, int(SPREAD ** (1 / max(1, len(one.parameters)))))
    choices = []
    for parameter in one.parameters:
        ranked = [
            (rank, {parameter.name: v})
            for rank, v in enumerate(options(parameter, values, min(wide, most)))
        ]
        choices.append(ranked if parameter.required else [(0, {}), *ranked])
    combined = sorted(
        itertools.product(*choices), key=lambda chosen: sum(rank for rank, _ in chosen)
    )
    return [
        Call("search", {k: v for _, part in chosen for k, v in part.items()})
        for chosen in combined[:most]
    ]


@pytest.mark.parametrize("count", range(7))
def test_the_likeliest_calls_are_those_of_all_combinations_weighed(count: int) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        parameters = (
            Parameter(f"p{index}", {"type": rng.choice(TYPES)}, required=rng.random() < 0.5)
            for index in range(count)
        )
        one = tool(*parameters)
        values = pool(rng)
        most = rng.choice([1, 6, 40])
        assert list(plausible([one], values, most)) == weighed(one, values, most)


def test_many_optional_parameters_cost_no_more_than_the_calls_that_are_asked_for() -> None:
    values = KnownValues()
    for index in range(20):
        values.add_all([(f"v{index}", f"value{index}")])
    one = tool(*(Parameter(f"p{index}", {"type": "string"}, required=False) for index in range(40)))
    started = time.process_time()
    found = list(plausible([one], values, 300))
    assert len(found) == len({str(call) for call in found}) == 300
    assert found[:3] == [
        Call("search"),
        Call("search", {"p39": "value0"}),
        Call("search", {"p38": "value0"}),
    ]
    assert time.process_time() - started < 5


def test_a_required_parameter_without_a_value_leaves_nothing_to_try() -> None:
    one = tool(
        Parameter("p", {"type": "string"}), Parameter("q", {"type": "string"}, required=False)
    )
    assert list(plausible([one], KnownValues(), 6)) == []
