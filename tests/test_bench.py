"""Measurements say what they claim, what it is compared with, and how to run them."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from bench import nano_ahead, nano_loop, nano_personas, nano_rungs
from bench.__main__ import NOT_MEASUREMENTS
from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import REJECTED
from rods.config import identity_diff, parse_config
from rods.environments.loading import Environments
from rods.family.triage.diagnoses import Played, diagnose
from rods.family.triage.executed import execute
from rods.players import Players
from rods.tasks import Task
from rods.worlds.sources import load_tasks
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


def test_users_who_know_nothing_are_all_that_the_control_of_the_persona_study_changes() -> None:
    study = nano_personas.STUDY
    found = {name: identity(study, name) for name in study.conditions}
    changed = identity_diff(found["asking"], found["mute users"])
    assert changed == ["data.tasks: 'desk-personas' → 'desk-personas-mute'"]


def test_static_data_is_all_that_a_key_changes_in_the_study_of_rung_seeds() -> None:
    study = nano_rungs.STUDY
    found = {name: identity(study, name) for name in study.conditions}
    assert set(identity_diff(found["RODS"], found["static data"])) == CHANGES["static data"]
    assert found["RODS"] == found[nano_rungs.TAUGHT]
    here = identity_diff(identity(nano_loop.LOOP, "RODS"), found["RODS"])
    assert {change.partition(":")[0] for change in here} == {
        "training.steps",
        "training.checkpoint_steps",
    }


def test_what_a_rung_taught_before_a_run_in_lockstep_waits_for_its_first_merge(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run"
    values = nano_rungs.STUDY.configuration("RODS", 3, {"data": {"train": 6, "held_out": 6}})
    values["training"]["batch_tasks"] = 6
    tasks = load_tasks(parse_config(values, where="test").data, Path(), train_needed=True)
    players = Players(Environments())
    findings = [
        diagnose(task, execute(players, task), {0: Played(4, 4, 0), rung: Played(4, 4, 1)})
        for rung, task in zip((1, 2, 3, 4), tasks, strict=False)
        if isinstance(task, Task)
    ]
    told = nano_rungs.stage(path, values, findings)
    refused = {entry["pick"] for entry in read(path / REJECTED)}
    assert told and len(told) + len(refused) == 3  # rung 4 tells the ground truth
    assert nano_rungs.stage(path, values, findings) == told
    report = verify(path, replay=True)
    assert not report.problems and report.counts["variants that tell a rung"] == len(told)


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


def test_a_study_runs_seed_by_seed_what_is_compared_with_its_anchor_and_then_the_rest(
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


def test_the_page_shows_the_recorded_runs_of_the_study_of_rung_seeds() -> None:
    lines = nano_rungs.STUDY.recorded()
    program = "\n".join(nano_rungs.table(lines, nano_rungs.STUDY))
    assert not tables.differences(page("nano.md"), program, "gained, hopeless")


def test_the_page_shows_the_recorded_runs_of_the_study_of_a_batch_ahead() -> None:
    lines = nano_ahead.STUDY.recorded()
    program = "\n".join(nano_ahead.table(lines, nano_ahead.STUDY))
    assert not tables.differences(page("nano.md"), program, "played ahead")


def test_the_arms_of_the_study_of_a_batch_ahead_differ_in_that_alone() -> None:
    none, ahead = (identity(nano_ahead.STUDY, name) for name in nano_ahead.STUDY.conditions)
    assert identity_diff(none, ahead) == ["rollouts.ahead: 0 → 1"]
