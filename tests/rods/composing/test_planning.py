"""Plans: the seed's shape with other functions, or the same ones; what is blocked stays out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from rods.analysis.profile import distance, isomorphic, profile
from rods.canonical import keyed_random
from rods.composing import planning
from rods.composing.plan_search import PlanShape, Table
from rods.composing.planning import outline
from rods.composing.records import ComposeError, Plan
from rods.config import Gates
from rods.tasks import Task
from rods.worlds import desk as desk_environment
from tests.environments import Late
from tests.rods.composing.drafts import DESK, desk, made, planned

SEEDS = Late(lambda: desk_environment.generate(21, 60, 0))


def _plan(
    seed: Task,
    functions: str = "other",
    blocked: frozenset[str] = frozenset(),
    narrative: bool = True,
) -> Plan:
    rng = keyed_random(1, "plan", seed.id)
    shape = profile(DESK, seed)
    told: Any = {
        "limits": Gates(),
        "blocked": blocked,
        "functions": functions,
        "narrative": narrative,
    }
    return planning.plan(desk(), DESK, shape, seed.type, seed=seed, rng=rng, **told)


def _plans() -> Iterator[tuple[Task, Plan]]:
    """A plan of each seed that has one; the others have no pattern, and fail for nothing else."""
    for seed in SEEDS:
        try:
            yield seed, _plan(seed)
        except ComposeError as error:
            assert error.type == "no_pattern"


def _multiset(plan: Plan) -> Counter[str]:
    return Counter(tool for turn in plan.turns for tool in turn.tools)


def test_other_functions_keep_turns_and_nearly_the_counts_and_avoid_the_seeds_functions() -> None:
    planned = 0
    repeated = 0
    calls = 0
    for seed, plan in _plans():
        planned += 1
        assert len(plan.turns) == len(seed.calls)
        for turn, wanted in zip(plan.turns, seed.calls, strict=True):
            assert abs(len(turn.tools) - len(wanted)) <= 1 and bool(turn.tools) == bool(wanted)
        own = Counter(call.name for turn in seed.calls for call in turn)
        assert _multiset(plan) != own
        repeated += (_multiset(plan) & own).total()
        calls += _multiset(plan).total()
    assert planned > 0.9 * len(SEEDS)
    # of the root's API classes; look-ups that feed others are few in each
    assert repeated < 0.25 * calls


def test_same_functions_are_called_turn_by_turn_in_order() -> None:
    planned = 0
    for seed in SEEDS:
        try:
            plan = _plan(seed, "same")
        except ComposeError:
            continue
        planned += 1
        assert [turn.tools for turn in plan.turns] == [
            tuple(call.name for call in turn) for turn in seed.calls
        ]
    assert planned > 0.9 * len(SEEDS)


def test_plan_has_the_seeds_depth() -> None:
    for seed in SEEDS[:20]:
        wanted = profile(DESK, seed).depth
        for functions in ("other", "same"):
            try:
                plan = _plan(seed, functions)
            except ComposeError:
                continue
            table = Table()
            for number, turn in enumerate(plan.turns):
                for name in turn.recipes:
                    table.add(desk().recipes[name], number)
            assert table.depth == wanted


def test_blocked_functions_and_recipes_stay_out() -> None:
    seed = SEEDS[0]
    blocked = frozenset(_multiset(_plan(seed))) | {"see_today"}
    again = _plan(seed, blocked=blocked)
    assert not blocked & set(_multiset(again))
    assert all("see_today" not in turn.recipes for turn in again.turns)
    with pytest.raises(ComposeError) as caught:
        _plan(seed, blocked=frozenset(DESK.tools()))
    assert caught.value.type == "no_pattern"
    with pytest.raises(ComposeError):
        _plan(seed, "same", blocked=frozenset({seed.calls[0][0].name}))


def test_same_key_gives_the_same_plan() -> None:
    assert _plan(SEEDS[1]) == _plan(SEEDS[1])


def test_narrative_is_optional() -> None:
    assert _plan(SEEDS[0]).narrative["story"] in {story.name for story in desk().book.stories}
    assert _plan(SEEDS[0], narrative=False).narrative == {}


def test_shape_is_read_off_the_profile() -> None:
    task, _ = made(planned(["plan_event"], ["invite_to_it", "see_today"]))
    shape = planning.shape_of(profile(DESK, task))
    assert shape.counts == (1, 3) and shape.depth == 2 and shape.edges == {(1, 1): 1, (0, 1): 1}
    assert shape.classes == ({"calendar": 1}, {"contacts": 1, "calendar": 2})


def test_impossible_shape_is_no_pattern() -> None:
    with pytest.raises(ComposeError) as caught:
        planning.plan(desk(), DESK, PlanShape((1,), depth=4), "base", rng=random.Random(0))
    assert caught.value.type == "no_pattern"
    with pytest.raises(ComposeError):  # nothing can be asked in vain first in a base task
        planning.plan(desk(), DESK, PlanShape((0, 1)), "base", rng=random.Random(0))


def test_turns_asked_in_vain_need_something_to_withhold() -> None:
    for seed in range(20):
        plan = planning.plan(
            desk(), DESK, PlanShape((2, 0, 1)), "miss_func", rng=random.Random(seed)
        )
        assert set(plan.turns[2].tools) - set(plan.turns[0].tools)
        plan = planning.plan(desk(), DESK, PlanShape((0, 1)), "miss_param", rng=random.Random(seed))
        says = [
            domain
            for name in plan.turns[1].recipes
            for domain in desk().recipes[name].user_slots.values()
        ]
        assert any(desk().family(domain) in desk().book.vague for domain in says)


def test_outline_of_a_plan_is_the_profile_that_its_task_gets() -> None:
    groups = {name: tool.group for name, tool in DESK.tools().items()}
    alike = 0
    tasks = [task for task in SEEDS if task.type == "base"]
    for task in tasks:
        turns = [
            tuple(desk().recipes[name] for name in turn["recipes"])
            for turn in task.provenance["plan"]["turns"]
        ]
        seen = outline(turns, groups, task.type)
        found = profile(DESK, task)
        assert [[node.tool for node in turn] for turn in seen.turns] == [
            [node.tool for node in turn] for turn in found.turns
        ]
        alike += seen.edges == found.edges
    assert alike > 0.9 * len(tasks)


def test_variants_keep_their_roots_limits_before_anything_runs() -> None:
    """What is planned passes the gate, and nine in ten plans keep the edges from turn to turn
    exactly."""
    groups = {name: tool.group for name, tool in DESK.tools().items()}
    apart = []
    kept = 0
    planned = 0
    for seed, plan in _plans():
        root = profile(DESK, seed)
        planned += 1
        seen = outline(
            [tuple(desk().recipes[name] for name in turn.recipes) for turn in plan.turns],
            groups,
            seed.type,
        )
        assert isomorphic(root, seen, Gates()) == []
        apart.append(distance(root, seen))
        kept += root.links == seen.links
    assert planned > 0.9 * len(SEEDS) and kept > 0.9 * planned
    assert sum(apart) / len(apart) < 0.2 and max(apart) < 0.5


def test_a_table_predicts_the_edges_of_the_profile() -> None:
    """Of values that an earlier recipe left, of values passed on inside one, and none of what the
    user said."""
    task, _ = made(planned(["plan_event"], ["invite_to_it", "see_today"]))
    table = Table()
    for turn, names in enumerate((["plan_event"], ["invite_to_it", "see_today"])):
        for name in names:
            recipe = desk().recipes[name]
            feeding = table.feeding(recipe, turn)
            before = table.edges.copy()
            table.add(recipe, turn)
            assert table.edges - before == {
                (origin, turn): count for origin, count in feeding.items()
            }
    assert table.edges == profile(DESK, task).links == {(0, 1): 1, (1, 1): 1}
    assert table.holds(0) and table.holds(1) and not table.holds(2)


def test_same_functions_come_as_near_to_the_edges_as_they_can() -> None:
    kept = planned = 0
    for seed in SEEDS:
        try:
            plan = _plan(seed, "same")
        except ComposeError:
            continue
        table = Table()
        for number, turn in enumerate(plan.turns):
            for name in turn.recipes:
                table.add(desk().recipes[name], number)
        planned += 1
        kept += table.edges == profile(DESK, seed).links
    assert kept > 0.9 * planned
