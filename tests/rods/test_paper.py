"""Rows of docs/paper.md: with the paper's value a setting does what its row says, and with another
it does not.

Each row is held by a test of this file (`ROWS`, `OWN`) or by one that stands elsewhere (`HELD`).
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.generate.configuration import PAPER as PAGE, paper_page
from rods import dialects
from rods.buffers.folds.seeds import Unfinished
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.creation import create_run
from rods.buffers.run.runfolder import POOL
from rods.buffers.trainer_log import TrainerLog
from rods.calls import Call
from rods.config import Config, Data, Stage, parse_config, preset
from rods.daemon.service import Service
from rods.daemon.watching import SeedQueue
from rods.observations import Group, Rollout
from rods.rules import retirement
from rods.rules.curriculum import Course, selects
from rods.rules.order import EpochSlot
from rods.rules.selection import TaskFacts, select, signals
from rods.rules.tracker import Standing
from rods.rules.zones import zone_of
from rods.trainer.advantages import advantages
from rods.trainer.policy import Batch, BatchSlot
from rods.trainer.simulated import SimulatedPolicy
from rods.trainer.training_run import TrainingRun
from rods.worlds import desk
from rods.worlds.sources import load_tasks
from tests.buffers.world import Players, SyncDaemonLog, make_run, originals
from tests.daemon.pipelines import THREADS, Bench, author, failure, seed, spoil
from tests.environments import Late
from tests.parts import ROOT

PAPER = parse_config({"preset": "rods-paper", "policy": {"kind": "simulated"}}, where="x")
DESK = Late(lambda: desk.generate(3, 12, 4))


def group(task: str, resolved: list[int]) -> Group:
    rollouts = tuple(
        Rollout(done, 4, int(done == 4), 0.0, done / 4, "finished") for done in resolved
    )
    return Group(task, 1, "identity", "progress", (0.0, 1.0), rollouts)


def picked(
    config: Config, groups: list[Group], last: dict[str, int] | None = None, **generation: int
) -> list[str]:
    active = {one.task: TaskFacts("base", generation.get(one.task, 0)) for one in groups}
    return [
        pick.task
        for pick in select(20, signals(groups, config.selection), active, last or {}, config)
    ]


def standing(mean: float, groups: int = 4, variance: float = 0.1) -> Standing:
    entry = (1, 1, mean, mean * mean, 1)
    return Standing(groups, mean, variance, zone_of(mean, PAPER.zones), entries=(entry,) * groups)


def leaves(config: Config, mean: float, groups: int = 4) -> bool:
    """Whether a variant whose groups have this mean leaves by layer 1 or 2."""
    seen = standing(mean, groups)
    return bool(
        retirement.burn_in("t", seen, 0, config.pool) or retirement.drift("t", seen, config.pool)
    )


def form(config: Config) -> str:
    """How a call and an answer are written."""
    dialect = dialects.load(config.policy.dialect)
    return dialect.write([Call("rest")]) + dialect.answer("Done.")


def rollouts(config: Config) -> int:
    """How many of one task a step plays."""
    (played,) = SimulatedPolicy(config).groups(
        Batch(1, 0, 1, Stage(), (BatchSlot(0, DESK[0]),), "hash")
    )
    return len(played.rollouts)


def plateau(config: Config) -> bool:
    """Whether a stage ends with the third epoch in which the score of validation was 0.405 after
    0.4."""
    course = Course(epochs=5, scores=(0.4, 0.405, 0.405), norms=(1.0, 1.1))
    following, _ = course.epoch_over(config.curriculum, 0.405)
    return following is not None and following.stage == 2


def late(config: Config) -> list[int]:
    """The steps whose picks are served, in order, by a daemon that comes to them after 30 steps."""
    queue = SeedQueue(config.selection.queue_steps or None)
    queue.add([Unfinished(f"{step}-a", step, 0, "a", 0, {}) for step in (28, 29, 1, 2)])
    queue.advance(30, 0)
    return [pick.step for pick in iter(queue.take, None)]


def given_up(config: Config) -> list[int]:
    """The attempts in which plans fail, of a seed for which all do."""
    bench = Bench(config)
    never = spoil(author(), "plan", *[failure("no_pattern")] * 99)
    assert asyncio.run(bench.write(seed(), never)) == "no_pattern"
    return [rejection.attempt for rejection in bench.rejections]


ROWS: list[tuple[str, Any, Callable[[Config], Any]]] = [
    ("policy.dialect", "compact", lambda c: "<tool_call>" in form(c) and "<answer>" in form(c)),
    ("rollouts.rollouts_per_task", 8, lambda c: rollouts(c) == 16),
    ("curriculum.plateau", 0.004, plateau),
    ("curriculum.plateau_epochs", 4, plateau),
    ("curriculum.plateau_after", 7, plateau),
    (
        "zones.boundary_low",
        0.3,
        lambda c: zone_of(0.2, c.zones) == "boundary" and zone_of(0.19, c.zones) == "too_hard",
    ),
    ("zones.boundary_high", 0.8, lambda c: zone_of(0.85, c.zones) == "boundary"),
    ("selection.seeds_per_step", 0, lambda c: picked(c, [group("a", [0, 4])]) == ["a"]),
    # 4·r̄·(1−r̄) of 0.5 without any variance against 0.625 with much
    (
        "selection.order",
        "variance",
        lambda c: picked(c, [group("a", [2, 2]), group("b", [1, 4])]) == ["a", "b"],
    ),
    ("selection.skip_zero_variance", True, lambda c: picked(c, [group("a", [2, 2])]) == ["a"]),
    ("selection.boundary", "binary", lambda c: picked(c, [group("a", [1, 3])]) == ["a"]),
    ("selection.groups", [["miss_func"]], lambda c: picked(c, [group("a", [0, 4])]) == ["a"]),
    (
        "selection.pass_on_quota",
        True,
        lambda c: len(picked(c, [group(f"t{i}", [0, 4]) for i in range(16)])) == 6,
    ),
    ("selection.exclusion_steps", 12, lambda c: picked(c, [group("a", [0, 4])], {"a": 7}) == []),
    ("selection.queue_steps", 2, lambda c: late(c) == [1, 2, 28, 29]),
    ("selection.max_generation", 2, lambda c: picked(c, [group("a", [0, 4])], a=9) == ["a"]),
    ("pool.burn_in", False, lambda c: leaves(c, 0.1, 1)),
    ("pool.burn_in_below", 0.05, lambda c: leaves(c, 0.1, 1)),
    ("pool.burn_in_observations", 2, lambda c: leaves(c, 0.1, 1)),
    ("pool.drift", False, lambda c: leaves(c, 1.0)),
    ("pool.mastered_above", 1.0, lambda c: leaves(c, 0.97)),
    ("pool.too_hard_below", 0.05, lambda c: bool(retirement.drift("t", standing(0.1), c.pool))),
    ("pipeline.attempts", 2, lambda c: max(given_up(c)) == 3),
    ("pipeline.planner_retries", 2, lambda c: given_up(c)[:4] == [1, 1, 1, 2]),
]


@pytest.mark.parametrize(("key", "other", "holds"), ROWS, ids=[row[0] for row in ROWS])
def test_a_setting_changes_what_its_row_says(
    key: str, other: Any, holds: Callable[[Config], Any]
) -> None:
    section, name = key.split(".")
    assert name in preset("rods-paper")[section]
    assert holds(PAPER), "with the paper's value"
    values = getattr(PAPER, section).model_copy(update={name: other})
    assert not holds(PAPER.model_copy(update={section: values})), "the setting changes nothing"


@pytest.mark.needs("bfcl")
def test_the_tasks_are_those_of_bfcl(wheel_file: Path) -> None:
    for data, world in ((PAPER.data, "bfcl"), (Data(), "desk")):
        few = data.model_copy(update={"train": 2, "held_out": 1})
        assert {task.environment.name for task in load_tasks(few, Path())} == {world}


def trained(folder: Path, **sections: Any) -> list[tuple[Batch, list[Group]]]:
    """The batches of a run with the simulated policy, whose skill stays as it is, to its end."""
    values = {
        "policy": {"kind": "simulated", "growth": 0.0},
        "rollouts": {"rollouts_per_task": 2},
        **sections,
    }
    made = create_run(folder, parse_config(values, where="x"), DESK)
    with TrainingRun(made) as run:
        policy = SimulatedPolicy(run.config)
        seen = list[tuple[Batch, list[Group]]]()
        run.begin(policy)
        while run.stopping is None:
            batch = run.next_batch()
            groups = policy.groups(batch)
            run.record(batch, groups)
            policy.practise(groups)
            run.after_update()
            seen.append((batch, groups))
        assert run.stopping == "finished"
    return seen


def test_a_run_has_as_many_steps_and_a_step_as_many_tasks_as_is_said(tmp_path: Path) -> None:
    for steps, tasks in ((2, 3), (3, 5)):
        seen = trained(tmp_path / str(steps), training={"steps": steps, "batch_tasks": tasks})
        assert [len(batch.slots) for batch, _ in seen] == [tasks] * steps


def test_three_stages_are_form_and_progress_on_base_and_all_tasks_with_them(tmp_path: Path) -> None:
    few = {"steps": 13, "batch_tasks": 3}
    every = {task.type for task in DESK}
    stages = [stage.model_dump() for stage in PAPER.curriculum.stages]
    for name, curriculum in (("paper", {"stages": stages}), ("default", {})):
        seen = trained(tmp_path / name, training=few, curriculum=curriculum)
        told = dict[int, tuple[set[str], set[str], set[bool]]]()
        for batch, groups in seen:
            types, rewards, expands = told.setdefault(batch.stage, (set(), set(), set()))
            types |= {slot.task.type for slot in batch.slots}
            rewards |= {group.reward for group in groups}
            expands.add(selects(batch.rules))
        if name == "paper":
            first = ({"base"}, {"format_codes"}, {False})
            second = ({"base"}, {"progress"}, {False})
            assert told == {1: first, 2: second, 3: (every, {"progress"}, {True})}
        else:
            assert told == {1: (every, {"progress"}, {True})}


def merged(folder: Path, rewards: Any, **pool: Any) -> list[Record]:
    """The records of the epochs of a run under the paper's rules for the pool, but for `pool`."""
    run = make_run(folder, pool={**PAPER.pool.model_dump(), **pool})
    daemon = SyncDaemonLog(run)
    players = Players(run, TrainerLog(run), daemon)
    players.trainer.start()
    players.rewards = rewards
    for number in range(3):
        players.epoch(number)
    players.trainer.close()
    daemon.close()
    return [record for record in read(run.path / POOL) if record["kind"] == "epoch"]


def test_the_pool_holds_as_many_variants_as_is_said_and_no_more(tmp_path: Path) -> None:
    def half(step: int, slot: EpochSlot, expected: int) -> list[int]:
        return [0, expected] * 2

    for most, held in ((PAPER.pool.max_generated, 4), (1, 1)):
        epochs = merged(tmp_path / str(most), half, max_generated=most)
        assert max(record["counts"]["generated"] for record in epochs) == held


def test_variants_that_wait_never_keep_seeds_from_being_picked(tmp_path: Path) -> None:
    for most, waits in ((PAPER.pool.staging_epochs, False), (0.1, True)):
        run = make_run(
            tmp_path / str(most), pool={**PAPER.pool.model_dump(), "staging_epochs": most}
        )
        players = Players(run, TrainerLog(run), SyncDaemonLog(run))
        players.trainer.start()
        players.epoch(0)
        assert players.daemon is not None
        players.trainer.close()
        players.daemon.close()
        service = Service(run, THREADS)
        service.watch.look(0)
        assert service.watch.staged() == 3 and service._full() == waits
        service.log.close()


def test_what_has_left_as_too_hard_is_never_tried_again(tmp_path: Path) -> None:
    given = {task.id for task in originals()}

    def hopeless(step: int, slot: EpochSlot, expected: int) -> list[int]:
        return [0, expected] * 2 if slot.task_id in given else [0] * 4

    for share, again in ((PAPER.pool.retest_fraction, False), (0.1, True)):
        epochs = merged(tmp_path / str(share), hopeless, retest_fraction=share)
        assert any(record["counts"]["retired"] for record in epochs)
        assert any(record["counts"]["retests"] for record in epochs) == again


def test_advantages_are_trl_s_and_not_to_the_digit_those_of_appendix_b_5() -> None:
    rewards = np.array([[1.0] * 4 + [0.0] * 12])
    found = advantages(rewards, PAPER.training.advantage_baseline, PAPER.training.advantage_scale)
    assert (found[0, 0], ((rewards - rewards.mean()) / rewards.std())[0, 0]) == pytest.approx(
        (1.677, 1.732), abs=5e-4
    )
    assert "1.677 for 1.732" in paper_page()


def test_no_seed_that_was_picked_is_dropped() -> None:
    assert SeedQueue(PAPER.selection.queue_steps or None).bound is None


OWN = {  # rows that a whole test of this file holds
    "data.tasks": test_the_tasks_are_those_of_bfcl,
    "training.batch_tasks": test_a_run_has_as_many_steps_and_a_step_as_many_tasks_as_is_said,
    "training.steps": test_a_run_has_as_many_steps_and_a_step_as_many_tasks_as_is_said,
    "curriculum.stages": test_three_stages_are_form_and_progress_on_base_and_all_tasks_with_them,
    "pool.max_generated": test_the_pool_holds_as_many_variants_as_is_said_and_no_more,
    "pool.staging_epochs": test_variants_that_wait_never_keep_seeds_from_being_picked,
    "pool.retest_fraction": test_what_has_left_as_too_hard_is_never_tried_again,
}
MERGER = "buffers/merging/test_merger.py"
LLM = "daemon/authors/llm"
PIPELINE = "daemon/test_pipeline.py"
UPDATES = "trainer/test_updates.py::test_each_setting_of_the_algorithm_changes_the_update"
EACH_GATE = f"{PIPELINE}::test_each_gate_rejects_and_each_can_be_switched_off"
GATE = "rods/gates/test_gates.py::test_every_gate_has_a_switch"
HELD = {  # rows that a test elsewhere holds, under tests/
    "policy.kind": "family/planning/test_plan.py::"
    "test_a_plan_needs_no_weights_and_without_a_model_says_what_needs_none",
    "training.learning_rate": "trainer/test_adopted.py::"
    "test_a_fork_takes_its_first_step_with_its_own_learning_rate",
    "training.kl": UPDATES,
    "training.clip_low": UPDATES,
    "training.clip_high": UPDATES,
    "training.loss": UPDATES,
    "training.advantage_baseline": UPDATES,
    "training.advantage_scale": UPDATES,
    "training.engine_correction": "trainer/test_trl_settings.py::"
    "test_trl_is_told_of_vllm_only_where_it_sets_it_up",
    "zones.probe": "rods/rules/test_selection.py::"
    "test_with_the_window_as_probe_tasks_of_one_rollout_a_step_become_seeds",
    "selection.candidates": "daemon/test_watching.py::"
    "test_candidates_are_the_steps_own_groups_or_the_whole_pool",
    "pool.inject_fraction": f"{MERGER}::"
    "test_injection_is_capped_by_the_share_of_the_active_pool_and_the_rest_waits_in_log_order",
    "pool.retirement": f"{MERGER}::"
    "test_without_retirement_every_merge_injects_its_share_whatever_the_limit",
    "pool.capacity": f"{MERGER}::test_every_layer_can_be_switched_off",
    "pool.static": f"{MERGER}::test_a_static_pool_is_written_once_and_then_frozen",
    "pipeline.author": "daemon/test_llm_service.py::"
    "test_without_an_endpoint_it_says_what_is_missing",
    "pipeline.recipes": f"{LLM}/test_ablations.py::"
    "test_in_the_paper_s_form_models_plan_single_tools_write_the_world_and_answer_in_free_text",
    "pipeline.high_level": f"{LLM}/test_error_types.py::"
    "test_a_model_writes_high_level_functions_which_are_decomposed",
    "pipeline.calls": f"{LLM}/test_forming.py::"
    "test_each_type_is_written_with_as_few_calls_as_its_form_needs",
    "pipeline.fallback_prompt": f"{LLM}/test_error_types.py::"
    "test_no_prompts_ends_the_seed_before_any_call_unless_the_general_template_may_be_used",
    "pipeline.refine_cycles": f"{PIPELINE}::"
    "test_a_second_fault_or_one_in_the_calls_drops_the_candidate",
    "pipeline.narrative": f"{PIPELINE}::test_planning_switches_change_what_is_planned",
    "pipeline.rewrite": f"{PIPELINE}::test_without_the_rewrite_each_turn_is_worded_for_itself",
    "pipeline.feedback": f"{PIPELINE}::"
    "test_the_blocklist_grows_over_attempts_and_blind_retry_knows_nothing",
    "pipeline.judge": f"{PIPELINE}::test_without_the_judge_nobody_objects",
    "pipeline.adversarial": f"{PIPELINE}::test_without_stage_five_only_plain_types_are_written",
    "pipeline.functions": f"{PIPELINE}::test_planning_switches_change_what_is_planned",
    **{
        f"gates.{name}": EACH_GATE
        for name in ("replay", "tools", "arguments", "profile", "duplicates")
    },
    **{f"gates.{name}": GATE for name in ("leaks", "grounding", "requests", "missing")},
    "gates.fair_blanks": "rods/gates/test_missing.py::"
    "test_a_request_that_is_fully_specified_beside_the_vague_one_is_refused",
    "operation.workers": "daemon/test_llm_service.py::"
    "test_as_many_seeds_are_written_at_once_as_there_are_workers",
    "operation.endpoints.structured": "rods/llm/test_faults.py::test_schemas_can_be_switched_off",
}


@cache
def names_in(file: str) -> frozenset[str]:
    """The tests that stand in a file under tests/."""
    made = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")).body
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        one.name for one in made if isinstance(one, kinds) and one.name.startswith("test_")
    )


def test_every_row_of_the_page_is_held_by_a_test_that_there_is() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    held = [*(key for key, *_ in ROWS), *OWN, *HELD]
    assert sorted(held) == sorted(rows), "give a new row a test, here or in HELD"
    for place in HELD.values():
        file, _, name = place.partition("::")
        assert name in names_in(file), place
