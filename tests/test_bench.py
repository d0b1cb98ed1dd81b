"""Measurements say what they claim, what it is compared with, and how to run them."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from bench import nano_feedback, nano_loop, nano_personas
from bench.__main__ import NOT_MEASUREMENTS
from rods.config import identity_diff, parse_config
from tests import tables

CHANGES = {  # what each condition of bench.nano_loop changes, and nothing else
    "static data": {"selection.seeds_per_step: 6 → 0"},
    "static pool": {"pool.static: False → True"},
    "random seeds": {"selection.order: 'proxy' → 'random'"},
    "binary reward": {"selection.boundary: 'progress' → 'binary'"},
    "no retirement": {"pool.retirement: True → False"},
    "same functions": {"pipeline.functions: 'other' → 'same'"},
    "variance": {"selection.order: 'proxy' → 'variance'"},
    "few originals": {"data.train: 36 → 12"},
    "few originals, random seeds": {"data.train: 36 → 12", "selection.order: 'proxy' → 'random'"},
}
HOOK = "training.advantage_hook: '' → 'rods.family.seal.weights:seal'"
VARIANTS = "selection.seeds_per_step: 0 → 6"
BASE = ("base",)
ALL = ("base", "long_context", "miss_func", "miss_param")
# of Environment Tuning: types, reward, feedback, whether variants are written, steps (of 8 tasks)
STAGES = {
    1: (BASE, "format", "plain", False, 2),
    2: (BASE, "progress", "hints", False, 6),
    3: (ALL, "progress", "hints", True, 8),
    4: (ALL, "progress", "plain", True, 8),
}
# steps
WITHOUT = {
    1: {2: 8, 3: 8, 4: 8},
    2: {1: 4, 3: 12, 4: 8},
    3: {1: 2, 2: 10, 4: 12},
    4: {1: 2, 2: 6, 3: 16},
}
SCRIPTS = sorted(
    path
    for path in (Path(__file__).parent.parent / "bench").glob("*.py")
    if path.stem not in NOT_MEASUREMENTS
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_measurement_states_claim_anchor_and_command(script: Path) -> None:
    text = " ".join(
        (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split()
    )
    assert "Claim: " in text
    assert "Anchor: " in text or "Anchors: " in text or "Anchors, " in text
    assert f"Command: `python -m bench.{script.stem}" in text


def test_a_condition_differs_from_rods_in_what_its_name_says() -> None:
    found = {name: identity(nano_loop.LOOP, name) for name in nano_loop.LOOP.conditions}
    rods = found.pop("RODS")
    assert rods["sync"] == "lockstep" and rods["training"]["deterministic"]
    assert {name: set(identity_diff(rods, changed)) for name, changed in found.items()} == CHANGES


def identity(study: nano_loop.Study, name: str) -> dict[str, Any]:
    return parse_config(study.configuration(name, 3), where="test").identity()


def staged(name: str) -> tuple[list[tuple[Any, ...]], list[str], set[str]]:
    """Of a condition of the feedback study: its stages with their steps, the interface of each, and
    what else differs from static data."""
    study = nano_feedback.STUDY
    static = identity(study, study.anchor)
    found = identity(study, name)
    tasks = found["data"]["train"]
    batch = found["training"]["batch_tasks"]
    left = found["training"]["steps"]
    stages = []
    for stage in found["curriculum"]["stages"]:
        there = tasks * len(stage["types"]) // len(ALL)
        assert there % batch == 0 and stage["until"] == "epochs", "whole batches, and no plateau"
        steps = stage["epochs"] * there // batch or left
        left -= steps
        variants = stage["expand"] and stage["reward"] != "format"
        stages.append((tuple(stage["types"]), stage["reward"], stage["feedback"], variants, steps))
    assert left == 0
    others = {
        one for one in identity_diff(static, found) if not one.startswith("curriculum.stages")
    }
    return stages, [stage["interface"] for stage in found["curriculum"]["stages"]], others


@pytest.mark.needs("feedback")
def test_a_condition_of_the_feedback_study_is_what_its_name_says() -> None:
    study = nano_feedback.STUDY
    static = [(ALL, "progress", "plain", True, 24)]
    whole = list(STAGES.values())
    known: dict[str, tuple[list[tuple[Any, ...]], list[str], set[str]]] = {
        "static data": (static, [""], set()),
        "Environment Tuning": (whole, [""] * 4, set()),
        "SEAL active": (static, ["seal-active"], {HOOK}),
        "SEAL full": (static, ["seal-full"], {HOOK}),
        "RODS": (static, [""], {VARIANTS}),
        "Environment Tuning + SEAL": (whole, ["seal-full"] * 3 + [""], {HOOK}),
        "Environment Tuning + RODS": (whole, [""] * 4, {VARIANTS}),
        "SEAL + RODS": (static, ["seal-full"], {HOOK, VARIANTS}),
        "all three": (whole, ["seal-full"] * 3 + [""], {HOOK, VARIANTS}),
    }
    for gone, steps in WITHOUT.items():
        stages = [(*STAGES[number][:-1], count) for number, count in steps.items()]
        known[f"Environment Tuning without stage {gone}"] = (stages, [""] * 3, set())
        assert study.against(f"Environment Tuning without stage {gone}") == "Environment Tuning"
    assert {name: staged(name) for name in study.conditions} == known
    assert list(study.conditions) == list(known), "the table's order"


def test_users_who_know_nothing_are_all_that_the_control_of_the_persona_study_changes() -> None:
    study = nano_personas.STUDY
    found = {name: identity(study, name) for name in study.conditions}
    changed = identity_diff(found["asking"], found["mute users"])
    assert changed == ["data.tasks: 'desk-personas' → 'desk-personas-mute'"]


def test_runs_that_spent_more_than_others_are_named() -> None:
    lines = [
        {"condition": "static data", "seed": seed, "rollouts": 1536, "updates": 24}
        for seed in (1, 2)
    ]
    assert not nano_feedback.unequal([]) and not nano_feedback.unequal(lines)
    (other,) = nano_feedback.unequal(
        [*lines, {"condition": "RODS", "seed": 1, "rollouts": 1600, "updates": 25}]
    )
    assert other == "RODS, seed 1: 1600 rollouts, 25 updates"


def test_the_recorded_runs_of_the_feedback_study_spent_the_same() -> None:
    lines = nano_feedback.STUDY.recorded()
    values = nano_feedback.STUDY.configuration("static data", 1)
    steps = values["training"]["steps"]
    batch = values["training"]["batch_tasks"]
    assert not nano_feedback.unequal(lines)
    spent = {(line["updates"], line["rollouts"]) for line in lines}
    assert spent == {(steps, steps * batch * values["rollouts"]["rollouts_per_task"])}


def test_a_finished_run_is_one_line_and_is_not_run_again_until_its_configuration_changes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "experiments"
    asked = []
    folder.mkdir()
    for name in ("rods.toml", "conditions.toml"):
        (folder / name).write_text((nano_loop.LOOP.folder / name).read_text())
    study = nano_loop.Study(folder, "test")

    def trained(path: Path, name: str, seed: int, values: dict[str, Any]) -> dict[str, Any]:
        asked.append((name, seed))
        return {"condition": name, "seed": seed, "identity": nano_loop.identity(values)}

    def run() -> list[tuple[str, int]]:
        asked.clear()
        study.run_missing(2, ("static data",), trained)
        return sorted(asked)

    every = [(name, seed) for name in ("RODS", "static data") for seed in (1, 2)]
    assert run() == every and run() == []
    lines = (folder / "results.jsonl").read_text().splitlines()
    (folder / "results.jsonl").write_text(
        "\n".join(line for line in lines if json.loads(line)["seed"] == 1) + "\n"
    )
    assert run() == [one for one in every if one[1] == 2]
    (folder / "rods.toml").write_text(
        (folder / "rods.toml").read_text().replace("train = 36", "train = 24")
    )
    assert run() == every


def line(condition: str, seed: int, end: float) -> dict[str, Any]:
    parts = dict.fromkeys(nano_loop.PARTS, end)
    return {
        "condition": condition,
        "seed": seed,
        "start": dict.fromkeys(parts, 0.1),
        "end": parts,
        "originals": {"too_hard": 1, "boundary": 2, "mastered": 1, "truncated": 0},
        "varied": 0.5,
        "variants": {"first_reward": {"variants": 2 * seed, "mean": seed / 2, "in_boundary": 0.5}},
    }


def test_the_table_pairs_each_condition_with_rods_seed_by_seed() -> None:
    lines = [line("RODS", 1, 0.4), line("RODS", 2, 0.6), line("RODS", 3, 0.9)]
    lines += [line("static data", 1, 0.3), line("static data", 2, 0.3)]
    rows = list(nano_loop.table(lines, nano_loop.LOOP))
    assert "too hard 25%, boundary 50%, mastered 25%" in rows[0]
    cells = next(row for row in rows if row.startswith("| static data ")).split(" | ")
    assert cells[1] == "2" and cells[2].startswith("+0.200") and cells[6].startswith("+0.200 (")
    assert cells[7:10] == ["50%", "0.83", "50%"]


def test_a_condition_is_paired_with_the_one_that_it_names() -> None:
    lines = [
        line("RODS", 1, 0.9),
        line("few originals", 1, 0.5),
        line("few originals, random seeds", 1, 0.2),
    ]
    few, random_seeds = (
        row.split(" | ") for row in list(nano_loop.table(lines, nano_loop.LOOP))[-2:]
    )
    assert few[6] == "+0.400" and random_seeds[6] == "+0.300"


def page(name: str) -> str:
    return (nano_loop.ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_page_has_the_table_of_the_recorded_runs() -> None:
    lines = nano_loop.LOOP.recorded()
    assert {line["condition"] for line in lines} == nano_loop.LOOP.conditions.keys()
    program = "\n".join(nano_loop.table(lines, nano_loop.LOOP))
    assert (
        tables.rows(page("nano.md"), "gained", "paper").keys() == nano_loop.LOOP.conditions.keys()
    )
    assert not tables.differences(page("nano.md"), program, "gained", "paper")


def test_the_page_of_the_feedback_study_has_its_tables() -> None:
    lines = nano_feedback.STUDY.recorded()
    assert {line["condition"] for line in lines} == nano_feedback.STUDY.conditions.keys()
    program = "\n".join(nano_feedback.table(lines, nano_feedback.STUDY))
    _, section = page("what-did-not-pay.md").split("on plain desk\n")
    assert not tables.differences(section, program, "gained", "over its anchor")


def test_a_study_runs_seed_by_seed_what_is_compared_with_its_anchor_and_then_the_rest(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "experiments"
    asked = []
    folder.mkdir()
    for name in ("static_data.toml", "conditions.toml"):
        (folder / name).write_text((nano_feedback.STUDY.folder / name).read_text())
    study = nano_loop.Study(folder, "test")

    def trained(path: Path, name: str, seed: int, values: dict[str, Any]) -> dict[str, Any]:
        asked.append((name, seed))
        return {"condition": name, "seed": seed, "identity": nano_loop.identity(values)}

    study.run_missing(2, (), trained)
    names = list(study.conditions)
    assert asked == [
        (name, seed) for part in (names[:9], names[9:]) for seed in (1, 2) for name in part
    ]


def test_the_page_shows_the_recorded_runs_of_the_persona_study() -> None:
    lines = nano_personas.STUDY.recorded()
    assert {name: len(of) for name, of in nano_loop.by_condition(lines).items()} == {
        "asking": 10,
        "mute users": 10,
    }
    program = "\n".join(nano_personas.table(lines, nano_personas.STUDY))
    assert not tables.differences(page("nano.md"), program, "asks at end")
