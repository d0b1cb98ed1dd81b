"""The gates of a variant of a scenario: each defect is refused by the gate that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rods.config import Gates
from rods.conversations import Script
from rods.daemon.authors.base import Assignment
from rods.environments.base import Environment, Result
from rods.errors import InfrastructureError
from rods.family.environments.kind import ScenarioKind, replayed_scenario
from rods.gates.ground_truth import Checked, brief, can_vary
from rods.gates.similarity import SimilarityIndex
from rods.tasks import OpenTask
from tests.family.environments.procedural.seeds import drawn

pytestmark = [pytest.mark.slow, pytest.mark.needs("sandbox")]
# a world, a scenario with a guard, another scenario
Sample = tuple[Environment, OpenTask, OpenTask]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    with drawn(tmp_path_factory) as (environment, tasks):
        told = [task for task in tasks if isinstance(task.user, Script)]
        task = next(
            task
            for task in told
            if task.provenance["guards"] and len(task.provenance["witness"]) > 1
        )
        yield environment, task, next(other for other in told if other is not task)


def checked_by(
    environment: Environment,
    task: OpenTask,
    root: OpenTask,
    gates: Gates,
    held_out: SimilarityIndex,
) -> Checked:
    assignment = Assignment("pick", 0, root, root, 1, 0, limits=gates)
    return ScenarioKind().check(environment, assignment, task, gates, held_out)


def refused(
    environment: Environment,
    task: OpenTask,
    root: OpenTask,
    held_out: OpenTask | None = None,
    **gates: Any,
) -> dict[str, str]:
    index = SimilarityIndex()
    if held_out is not None:
        index.add(held_out)
    found = checked_by(environment, task, root, Gates(**gates), index)
    return {one.gate: "; ".join(reason.text for reason in one.reasons) for one in found.rejections}


def test_a_drawn_scenario_passes_and_gives_the_results_of_its_witness(sample: Sample) -> None:
    environment, task, _ = sample
    checked = checked_by(environment, task, task, Gates(), SimilarityIndex())
    assert not checked.rejections and checked.results is not None
    assert len(checked.results[0]) == len(task.provenance["witness"])


def without_a_call(task: OpenTask) -> OpenTask:
    return replace(
        task, provenance={**task.provenance, "witness": task.provenance["witness"][:-1]}, id=""
    )


def true_already(task: OpenTask) -> OpenTask:
    """Its guard stands among the checks of what is to change."""
    return replace(
        task, provenance={**task.provenance, "guards": task.provenance["guards"] - 1}, id=""
    )


def guarded(task: OpenTask) -> OpenTask:
    """A check of what changes is declared a guard."""
    count = len(task.goal_calls)
    return replace(task, provenance={**task.provenance, "guards": count}, id="")


def impossible(task: OpenTask) -> OpenTask:
    return replace(task, state={**(task.state or {}), "next": -1}, id="")


@pytest.mark.parametrize(
    ("spoil", "control"),
    [
        (without_a_call, "always_false"),
        (true_already, "true_at_start"),
        (guarded, "guard_broken"),
        (impossible, "state"),
    ],
)
def test_controls_are_asked_again(
    sample: Sample, spoil: Callable[[OpenTask], OpenTask], control: str
) -> None:
    environment, task, _ = sample
    found = refused(environment, spoil(task), task, profile=False)
    assert list(found) == ["witness"] and control in found["witness"]
    assert not refused(
        environment, spoil(task), task, profile=False, witness=False, grounding=False
    )


def test_every_other_gate_refuses_what_it_is_for(sample: Sample) -> None:
    environment, task, other = sample
    assert "checks" in refused(environment, true_already(task), task)["profile"]
    first = task.provenance["witness"][0]["name"]
    hidden = replace(task, tools=tuple(name for name in task.tools if name != first), id="")
    assert first in refused(environment, hidden, task)["tools"]
    silent = replace(task, user=Script(("Please see to it.",)), id="")
    assert "nobody says or knows" in refused(environment, silent, task)["grounding"]
    telling = replace(task, user=Script((f"Call {first}.",)), id="")
    assert first in refused(environment, telling, task)["leaks"]
    assert (
        "held out"
        in refused(environment, task, task, held_out=replace(other, state=task.state, id=""))[
            "contamination"
        ]
    )
    assert refused(environment, task, task, max_string=2)["arguments"]


def test_replaying_finds_another_result_and_a_broken_goal(sample: Sample) -> None:
    environment, task, _ = sample
    checked = checked_by(environment, task, task, Gates(), SimilarityIndex())
    results = [[brief(result.text) for result in seen] for seen in checked.results or ()]
    kept = replace(task, provenance={**task.provenance, "results": results})
    assert replayed_scenario(environment, kept) == []
    edited = replace(task, provenance={**task.provenance, "results": [["no", *results[0][1:]]]})
    assert "on record is something else" in str(replayed_scenario(environment, edited)[0])
    assert "always_false" in str(replayed_scenario(environment, without_a_call(kept))[0])


def test_a_world_that_breaks_is_no_fault_of_the_scenario(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, task, _ = sample
    dead = SimpleNamespace(
        call=lambda call: Result("the worker process is gone", error="infrastructure")
    )
    monkeypatch.setattr(environment, "reset", lambda state: dead)
    for judge in (
        lambda: refused(environment, task, task),
        lambda: replayed_scenario(environment, task),
    ):
        with pytest.raises(InfrastructureError, match="is gone"):
            judge()


def test_a_scenario_without_its_witness_is_not_varied(sample: Sample) -> None:
    _, task, _ = sample
    assert can_vary(task) and not can_vary(replace(task, provenance={}))
    with pytest.raises(ValueError, match="has a witness that cannot be read"):
        can_vary(replace(task, provenance={"witness": [{"name": "look"}]}))
