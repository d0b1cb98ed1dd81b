"""The gates of a variant of a scenario: the same controls as for any other scenario, and what it has like its root.

Everything is read from the task's own record (`worlds.checking.scenarios.scenario_of`) and played in fresh worlds, so
that it does not matter who has written it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from rods.config import Gates
from rods.conversations import Persona
from rods.environments.base import Environment, Result, Tool
from rods.faults import Gate
from rods.gates.drawn import ungrounded
from rods.gates.ground_truth import brief, foreign, oversized, unknown
from rods.gates.leaks import leaks
from rods.gates.records import Checked, GateRejection, Reason
from rods.gates.similarity import SimilarityIndex, contamination, duplicates
from rods.simulation.generating import levels_of
from rods.tasks import AnyTask, OpenTask, Task
from worlds.checking.scenarios import (
    Scenario,
    ScenarioProfile,
    control,
    played,
    profile,
    scenario_of,
)


def check_scenario(
    environment: Environment,
    task: OpenTask,
    root: OpenTask,
    gates: Gates,
    *,
    pool: SimilarityIndex,
    held_out: SimilarityIndex,
) -> Checked:
    """Asks every gate that is switched on and holds for a scenario; the controls come last, as `witness`, and only
    where nothing else objects. Raises InfrastructureError where the world broke."""
    scenario, tools, user = _scenario(task), environment.tools(), task.user
    strange = [*unknown(environment, task), *_unoffered(scenario, task)]
    oversize = [Reason(why, call=at) for at, one in enumerate(scenario.witness) for why in oversized(one.call, gates)]
    asked: list[tuple[Gate, list[Reason]]] = [
        ("replay", foreign(environment, task) if gates.replay else []),
        ("tools", strange if gates.tools else []),
        ("arguments", oversize if gates.arguments else []),
        ("leaks", leaks(environment, task) if gates.leaks else []),
        ("profile", unlike(tools, root, task) if gates.profile else []),
        ("duplicates", duplicates(task, pool) if gates.duplicates else []),
        ("contamination", contamination(task, held_out) if gates.contamination else []),
    ]
    seen: tuple[Result, ...] = ()
    if not strange and not any(reasons for _, reasons in asked):
        faults, seen = _controlled(environment, scenario)
        calls = [each.call for each in scenario.witness][: len(seen)]
        asked += [
            ("witness", faults if gates.witness else []),
            ("grounding", ungrounded(tools, user, calls, seen) if gates.grounding else []),
        ]
    return Checked((seen,), None, tuple(GateRejection(gate, tuple(why)) for gate, why in asked if why))


def varied(task: AnyTask) -> bool:
    """Whether variants can be written of `task`: it has ground truth, was drawn from tool documents, or is a scenario
    with its witness. Raises ValueError for a witness that cannot be read."""
    return isinstance(task, Task) or levels_of(task) is not None or scenario_of(task) is not None


def replayed_scenario(environment: Environment, task: OpenTask) -> list[Reason]:
    """Why an admitted variant does not hold any more; empty when it does: it passes all controls again, and its witness
    gives the results on record. Raises InfrastructureError where the world broke."""
    if strange := foreign(environment, task):
        return strange
    faults, seen = _controlled(environment, _scenario(task))
    return faults or _otherwise(task, seen)


def unlike(tools: Mapping[str, Tool], root: OpenTask, task: OpenTask) -> list[Reason]:
    """How the task differs from its root in what variants keep."""
    try:
        old, new = (_profile(tools, one) for one in (root, task))
    except KeyError as error:
        return [Reason(f"there is no tool {error}, so its profile is not known")]
    return [
        Reason(f"{field.name}: {getattr(new, field.name)} instead of {getattr(old, field.name)}")
        for field in fields(ScenarioProfile)
        if getattr(new, field.name) != getattr(old, field.name)
    ]


def _profile(tools: Mapping[str, Tool], task: OpenTask) -> ScenarioProfile:
    return profile(tools, _scenario(task), asked=isinstance(task.user, Persona))


def _scenario(task: OpenTask) -> Scenario:
    scenario = scenario_of(task)
    assert scenario is not None, f"task {task.id} has no witness"
    return scenario


def _controlled(environment: Environment, scenario: Scenario) -> tuple[list[Reason], tuple[Result, ...]]:
    """What the controls find, and the results of the witness. The world is that of tasks which passed them."""
    found = control(environment, scenario, sound=True)
    faults = [Reason(f"{fault.control}: {fault.where} {fault.what}".replace(":  ", ": ")) for fault in found.faults]
    if faults:
        return faults, ()
    results = played(environment.reset(dict(scenario.state)), scenario.witness)
    return [], tuple(result for result in results if result is not None)


def _unoffered(scenario: Scenario, task: OpenTask) -> list[Reason]:
    calls = (each.call.name for each in scenario.witness)
    return [Reason(f"its witness calls {name}, which is not offered") for name in calls if name not in task.tools]


def _otherwise(task: OpenTask, seen: tuple[Result, ...]) -> list[Reason]:
    """The calls of the witness that do not give the results on record."""
    recorded = task.provenance.get("results")
    kept = recorded[0] if isinstance(recorded, list) and recorded else [brief(result.text) for result in seen]
    if kept == [brief(result.text) for result in seen]:
        return []
    return [Reason(f"its witness gave {[result.text[:60] for result in seen]}, on record is something else")]
