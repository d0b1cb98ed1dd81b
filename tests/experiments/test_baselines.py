"""The recipes of the baselines differ from RODS in one switch each, and the switch changes what a run does.

Each is run to its end by `rods up`, trainer and daemon as real processes, with the simulated policy.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from buffers.log.records import Record
from buffers.log.tail import read
from buffers.run.runfolder import POOL, SEEDS
from rods.config import identity_diff, read_config

FOLDER = Path(__file__).parent.parent.parent / "experiments" / "baselines"
SWITCHES = {
    "static_data": ["selection.seeds_per_step: 6 → 0"],
    "random_seeds": ["selection.order: 'proxy' → 'random'"],
    "static_pool": ["pool.static: False → True"],
}
EPOCHS = 6
SMALL: dict[str, Any] = {
    "data": {"train": 12, "held_out": 8},
    "policy": {"kind": "simulated", "dialect": "compact", "skill": 0.4, "growth": 0.02},
    "training": {"batch_tasks": 4, "steps": 200, "checkpoint_steps": 20},
    "operation": {"poll_seconds": 0.05},
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_recipe_differs_from_rods_in_its_switch_alone(name: str) -> None:
    rods, other = (read_config(FOLDER / f"{each}.toml") for each in ("rods", name))
    assert identity_diff(rods.identity(), other.identity()) == SWITCHES[name]
    assert rods.operation == other.operation
    assert f"`{name}.toml`" in (FOLDER / "README.md").read_text()


def test_the_recipe_of_rods_is_the_demonstrations() -> None:
    demo = tomllib.loads((FOLDER.parent.parent / "console" / "demo.toml").read_text())
    assert tomllib.loads((FOLDER / "rods.toml").read_text()) == demo


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("baselines")

    @cache
    def finished(name: str) -> Path:
        values = tomllib.loads((FOLDER / f"{name}.toml").read_text())
        for section, keys in SMALL.items():
            values[section] = {**values[section], **keys}
        del values["policy"]["carelessness"]
        config = folder / f"{name}.toml"
        config.write_text(tomli_w.dumps({**values, "sync": "lockstep", "curriculum": {"stages": [{"epochs": EPOCHS}]}}))
        command = [sys.executable, "-m", "console", "up", str(folder / name), "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        return folder / name

    return finished


def epochs(path: Path) -> list[Record]:
    return [record for record in read(path / POOL) if record["kind"] == "epoch"]


def injecting(path: Path) -> list[int]:
    """The epochs that opened with new variants."""
    return [record["epoch"] for record in epochs(path) if record["counts"]["injected"]]


def picks(path: Path) -> list[Record]:
    return [record for record in read(path / SEEDS) if record["kind"] == "picked"]


def outside(path: Path) -> list[Record]:
    """Picks of tasks that were not at the boundary, or whose rollouts agreed."""
    return [
        pick
        for pick in picks(path)
        if not (0.2 <= pick["why"].get("mean", -1) <= 0.85) or not pick["why"].get("variance")
    ]


def test_rods_keeps_injecting_variants_of_boundary_tasks(run: Any) -> None:
    assert len(injecting(run("rods"))) >= 3
    assert picks(run("rods")) and not outside(run("rods"))


def test_static_data_writes_and_changes_nothing(run: Any) -> None:
    path = run("static_data")
    assert not picks(path) and not injecting(path)
    assert {record["counts"]["slots"] for record in epochs(path)} == {12}
    assert len(epochs(path)) == EPOCHS


def test_random_seeds_are_drawn_whatever_their_rewards(run: Any) -> None:
    path = run("random_seeds")
    assert len(outside(path)) >= 3
    assert {pick["why"]["order"] for pick in picks(path)} == {"random"}
    assert injecting(path)


def test_a_static_pool_is_written_once_and_then_frozen(run: Any) -> None:
    path = run("static_pool")
    assert len(injecting(path)) == 1 and epochs(path)[-1]["counts"]["generated"] == 36
    assert {pick["epoch"] for pick in picks(path)} == {0}
    (first,) = injecting(path)
    later = [record for record in epochs(path) if record["epoch"] >= first]
    assert len(later) > 2
    assert len({record["counts"]["slots"] for record in later}) == 1
    assert not any(record["counts"]["retired"] for record in later[1:])


def test_runs_are_compared_task_by_task(run: Any) -> None:
    folders = [str(run("rods")), str(run("static_data"))]
    done = subprocess.run(
        [sys.executable, str(FOLDER / "compare.py"), *folders], capture_output=True, text=True, timeout=120, check=True
    )
    *ends, difference = done.stdout.splitlines()
    assert len(ends) == 2 and all("on 8 held-out tasks" in line for line in ends)
    assert difference.startswith("rods over static_data: ")


def test_runs_that_share_no_task_or_a_single_one_are_compared_all_the_same(run: Any, tmp_path: Path) -> None:
    values = tomllib.loads((FOLDER / "static_data.toml").read_text())
    for section, keys in SMALL.items():
        values[section] = {**values[section], **keys}
    del values["policy"]["carelessness"]
    values["data"] |= {"held_out": 1, "random_seed": 5}
    values["training"]["steps"] = 2
    (tmp_path / "c.toml").write_text(tomli_w.dumps({**values, "curriculum": {"stages": [{"epochs": 1}]}}))
    trained = [sys.executable, "-m", "trainer", str(tmp_path / "other"), "--config", str(tmp_path / "c.toml")]
    subprocess.run(trained, check=True, capture_output=True, timeout=120)
    folders = [str(run("static_data")), str(tmp_path / "other"), str(tmp_path / "other")]
    for order in (folders, folders[1:]):
        command = [sys.executable, str(FOLDER / "compare.py"), *order]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0 and "inf" not in done.stdout, done
        last = done.stdout.splitlines()[-1]
        assert ("share no held-out task" in last) if len(order) == 3 else last == "other over other: +0.000"
