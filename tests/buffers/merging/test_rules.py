"""Why a variant is refused, and how admission follows the pool."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from rods.buffers.merging.rules import Admission, Refusal
from rods.buffers.run.run import Run
from rods.canonical import keyed_random
from rods.environments.base import reference
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.documents import from_environment
from rods.family.simulation.generating import draw_task, open_task
from rods.tasks import EnvironmentRef, Task
from tests.buffers.world import variants
from tests.environments import load


def variant(number: int = 0, **changes: Any) -> dict[str, Any]:
    return dataclasses.replace(
        variants(5)[number], provenance={"generation": 1}, id="", **changes
    ).as_json()


def reason(admission: Admission, content: Any) -> str:
    found = admission.examine(content)
    return found.reason if isinstance(found, Refusal) else ""


def test_a_new_variant_of_a_known_environment_is_admitted(past: Run) -> None:
    found = Admission(past).examine(variant())
    assert isinstance(found, Task) and found.script == variants(5)[0].script


def test_an_open_task_that_nothing_vouches_for_is_no_variant(past: Run) -> None:
    desk = load("desk")
    drawn = draw_task(from_environment(desk), Levels(3, 1, 0, 0, 0, 0, 0), 0, 1, 0)
    record = open_task(drawn, reference(desk), provenance={"generation": 1}).as_json()
    record.pop("state")  # of a repository's world
    record.pop("id")
    refused = Admission(past).examine(record)
    assert isinstance(refused, Refusal)
    assert refused.reason == "schema"
    assert "nothing says that it is sound" in refused.detail


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"split": "test"}, "split"),
        ({"environment": EnvironmentRef("desk", "0" * 20)}, "unknown_environment"),
        ({"environment": EnvironmentRef("elsewhere", "0" * 20)}, "unknown_environment"),
    ],
)
def test_what_belongs_elsewhere_is_refused(
    past: Run, changes: dict[str, Any], expected: str
) -> None:
    assert reason(Admission(past), variant(**changes)) == expected


@pytest.mark.parametrize("generation", [None, 0, -1, "1", 1.0])
def test_a_variant_says_its_generation(past: Run, generation: object) -> None:
    assert (
        reason(Admission(past), {**variant(), "provenance": {"generation": generation}}) == "schema"
    )


@pytest.mark.parametrize("content", [None, [], {}, {"id": "x"}, {**{}, "script": 3}])
def test_what_is_no_task_is_refused(past: Run, content: Any) -> None:
    assert reason(Admission(past), content) == "schema"


def test_what_is_or_was_in_the_pool_does_not_come_again(past: Run) -> None:
    one, other = (Task.from_json(variant(number)) for number in (0, 1))
    admission = Admission(past, injected={one.id: 7}, neighbours=[other])
    assert [reason(admission, variant(number)) for number in (0, 1, 2)] == [
        "duplicate",
        "duplicate",
        "",
    ]
    given = dataclasses.replace(next(iter(past.training.values())), provenance={"generation": 1})
    assert reason(admission, given.as_json()) == "duplicate"


def test_near_duplicates_are_of_active_variants_and_held_out_tasks_contaminate(past: Run) -> None:
    admission = Admission(past)
    one = Task.from_json(variant())
    rng = keyed_random(0, "another world")
    near = variant(state={**(one.state or {}), "today": f"day {rng.random()}"})
    assert reason(admission, near) == ""
    admission.admitted(one)
    assert reason(admission, near) == "near_duplicate"
    admission.left(one.id)
    assert reason(admission, near) == ""
    held_out = dataclasses.replace(
        past.held_out[0], split="train", provenance={"generation": 1}, id=""
    )
    assert (
        reason(admission, dataclasses.replace(held_out, type="miss_param", id="").as_json())
        == "contaminated"
    )


def test_given_tasks_stay_neighbours(past: Run) -> None:
    admission = Admission(past)
    given = next(iter(past.training.values()))
    admission.left(given.id)
    assert (
        reason(admission, dataclasses.replace(given, provenance={"generation": 1}).as_json())
        == "duplicate"
    )
