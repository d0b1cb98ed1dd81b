"""The recipes of the baselines differ from RODS in one switch each; tests/rods/test_ablations.py
shows what it does.

What is compared is run to its end by `rods up`, trainer and daemon as real processes, with the
simulated policy.
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

from rods.config import identity_diff, read_config

pytestmark = pytest.mark.slow

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
        config.write_text(
            tomli_w.dumps(
                {**values, "sync": "lockstep", "curriculum": {"stages": [{"epochs": EPOCHS}]}}
            )
        )
        command = [
            sys.executable,
            "-m",
            "rods.console",
            "up",
            str(folder / name),
            "--config",
            str(config),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        return folder / name

    return finished


COMPARE = [sys.executable, "-m", "rods.console", "compare"]


@pytest.mark.needs("twins")
def test_runs_are_compared_task_by_task(run: Any) -> None:
    folders = [str(run("rods")), str(run("static_data"))]
    done = subprocess.run(
        [*COMPARE, *folders], capture_output=True, text=True, timeout=120, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("rods", "static_data"))]
    *ends, difference = lines
    assert len(ends) == 2 and all("on 8 held-out tasks" in line for line in ends)
    assert difference.startswith("rods over static_data (selection.seeds_per_step: 0 → 6): ")


@pytest.mark.needs("twins")
def test_runs_that_share_no_task_are_not_compared(run: Any, tmp_path: Path) -> None:
    values = tomllib.loads((FOLDER / "static_data.toml").read_text())
    for section, keys in SMALL.items():
        values[section] = {**values[section], **keys}
    del values["policy"]["carelessness"]
    values["data"] |= {"held_out": 1, "random_seed": 5}
    values["training"]["steps"] = 2
    (tmp_path / "c.toml").write_text(
        tomli_w.dumps({**values, "curriculum": {"stages": [{"epochs": 1}]}})
    )
    trained = [
        sys.executable,
        "-m",
        "rods.trainer",
        str(tmp_path / "other"),
        "--config",
        str(tmp_path / "c.toml"),
    ]
    subprocess.run(trained, check=True, capture_output=True, timeout=120)
    folders = [str(run("static_data")), str(tmp_path / "other")]
    done = subprocess.run(
        [*COMPARE, *folders], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2 and "no held-out task" in done.stderr, done
