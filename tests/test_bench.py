"""Measurements say what they claim, what it is compared with, and how to run them."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from bench import nano_loop
from bench.__main__ import NOT_MEASUREMENTS
from rods.config import identity_diff, parse_config

CHANGES = {  # what each condition of bench.nano_loop changes, and nothing else
    "static data": {"selection.seeds_per_step: 6 → 0"},
    "static pool": {"pool.static: False → True"},
    "random seeds": {"selection.order: 'proxy' → 'random'"},
    "binary reward": {"selection.boundary: 'progress' → 'binary'"},
    "no retirement": {"pool.retirement: True → False"},
    "same functions": {"pipeline.functions: 'other' → 'same'"},
    "variance": {"selection.order: 'proxy' → 'variance'"},
    "forgetting": {"selection.order: 'proxy' → 'forgetting'"},
    "rising difficulty": {"selection.order: 'proxy' → 'rising'"},
    "head starts": {"rollouts.head_start: 0.0 → 0.5"},
    "max-variance rollouts": {"rollouts.rollouts_per_task: 8 → 12", "training.update_rollouts: 0 → 6"},
    "few originals": {"data.train: 36 → 12"},
    "few originals, random seeds": {"data.train: 36 → 12", "selection.order: 'proxy' → 'random'"},
}
SCRIPTS = sorted(
    path for path in (Path(__file__).parent.parent / "bench").glob("*.py") if path.stem not in NOT_MEASUREMENTS
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_measurement_states_claim_anchor_and_command(script: Path) -> None:
    text = " ".join((ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").split())
    assert "Claim: " in text
    assert "Anchor: " in text or "Anchors: " in text or "Anchors, " in text
    assert f"Command: `python -m bench.{script.stem}" in text


def test_a_condition_differs_from_rods_in_what_its_name_says() -> None:
    def identity(changes: dict[str, Any]) -> dict[str, Any]:
        return parse_config(nano_loop.configuration(changes, 3), where="test").identity()

    found = nano_loop.conditions()
    rods = identity(found.pop("RODS"))
    assert rods["sync"] == "lockstep" and rods["training"]["deterministic"]
    assert {name: set(identity_diff(rods, identity(changes))) for name, changes in found.items()} == CHANGES


def test_a_finished_run_is_one_line_and_is_not_run_again_until_its_configuration_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = tmp_path / "experiments", []
    folder.mkdir()
    for name in ("rods.toml", "conditions.toml"):
        (folder / name).write_text((nano_loop.FOLDER / name).read_text())
    monkeypatch.setattr(nano_loop, "FOLDER", folder)

    def trained(path: Path, name: str, seed: int, values: dict[str, Any]) -> dict[str, Any]:
        asked.append((name, seed))
        return {"condition": name, "seed": seed, "identity": nano_loop.identity(values)}

    def run() -> list[tuple[str, int]]:
        asked.clear()
        nano_loop.run_missing(folder / "results.jsonl", 2, ("static data",), trained)
        return sorted(asked)

    every = [(name, seed) for name in ("RODS", "static data") for seed in (1, 2)]
    assert run() == every and run() == []
    lines = (folder / "results.jsonl").read_text().splitlines()
    (folder / "results.jsonl").write_text("\n".join(line for line in lines if json.loads(line)["seed"] == 1) + "\n")
    assert run() == [one for one in every if one[1] == 2]
    (folder / "rods.toml").write_text((folder / "rods.toml").read_text().replace("train = 36", "train = 24"))
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
    rows = list(nano_loop.table(lines))
    assert "too hard 25%, boundary 50%, mastered 25%" in rows[0]
    cells = next(row for row in rows if row.startswith("| static data ")).split(" | ")
    assert cells[1] == "2" and cells[2].startswith("+0.200") and cells[6].startswith("+0.200 (")
    assert cells[7:10] == ["50%", "0.83", "50%"]


def test_a_condition_is_paired_with_the_one_that_it_names() -> None:
    lines = [line("RODS", 1, 0.9), line("few originals", 1, 0.5), line("few originals, random seeds", 1, 0.2)]
    few, random_seeds = (row.split(" | ") for row in list(nano_loop.table(lines))[-2:])
    assert few[6] == "+0.400" and random_seeds[6] == "+0.300"


def test_the_page_has_the_table_of_the_recorded_runs() -> None:
    lines = nano_loop.recorded(nano_loop.FOLDER / "results.jsonl")
    assert {line["condition"] for line in lines} == nano_loop.conditions().keys()
    rows = list(nano_loop.table(lines))
    assert "\n".join(rows[2:]) in (nano_loop.FOLDER.parent.parent / "docs/nano.md").read_text(encoding="utf-8")
