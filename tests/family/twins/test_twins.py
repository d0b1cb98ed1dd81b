"""Twins of a run: what is made, that it is trained by as many rollouts, and what the comparison
says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rods.buffers.run.run import Run
from rods.config import identity_diff, parse_config
from rods.errors import UserError
from rods.family.twins.run_sets import PlayedRollouts, ScoredRun, over
from tests.console.conftest import CONFIG, finished, rods

TWINS = {
    "static": ["selection.seeds_per_step: 6 → 0"],
    "random": ["selection.order: 'proxy' → 'random'"],
    "refill": ["rollouts.refill: 0 → 2", "selection.seeds_per_step: 6 → 0"],
}


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("twins"))


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_differs_in_what_is_in_question_and_has_the_tasks_of_the_start(
    run: Path, name: str
) -> None:
    done = rods("twin", run, f"--{name}", "--seeds", "2", "--only-make", "--json")
    folders = [Path(path) for path in json.loads(done.stdout)["runs"]]
    assert [folder.name for folder in folders] == [
        *("run", f"run-{name}"),
        *("run-seed2", f"run-{name}-seed2"),
    ]
    runs = [Run.open(folder) for folder in folders]
    own, twin, again, second = (each.config.identity() for each in runs)
    assert identity_diff(own, twin) == TWINS[name] == identity_diff(again, second)
    assert [line.partition(":")[0] for line in identity_diff(own, again)] == [
        f"random_seeds.{seed}" for seed in ("daemon", "drawn", "order", "rollouts")
    ]
    assert all([*each.tasks] == [*runs[0].tasks] for each in runs)
    assert runs[1].config.operation == runs[0].config.operation


@pytest.mark.slow
@pytest.mark.parametrize("name", ["static", "refill"])
def test_a_twin_is_trained_by_as_many_rollouts_and_compared(run: Path, name: str) -> None:
    done = rods("twin", run, f"--{name}", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    first, twin = (each["rollouts"][0] for each in result["sets"])
    step = (3 if name == "refill" else 1) * 8 * 4  # with its rounds
    # what refills stops as soon as that is seen, and such a policy's steps take no time
    assert first == twin if name == "static" else first <= twin <= first + 8 * step
    assert not any(each["unfinished"] for each in result["sets"])
    assert len(result["over"][0]["by_seed"]) == 1
    assert twin == PlayedRollouts(Run.open(run.with_name(f"run-{name}"))).total()
    again = rods("twin", run, f"--{name}")  # nothing is left to train
    assert again.returncode == 0 and "step " not in again.stdout
    assert again.stdout == rods("compare", run).stdout
    assert f"→ `rods twin {run} --{name} --seeds 3`" in again.stdout


def test_what_cannot_be_compared_is_refused_with_a_remedy(run: Path, tmp_path: Path) -> None:
    alone = rods("compare", run)
    assert alone.returncode == 2 and "→ `rods twin RUN`" in alone.stderr
    made = rods("twin", run, "--only-make")
    assert made.returncode == 0 and f"rods compare {run} {run}-static" in made.stdout
    static = rods("twin", f"{run}-static", "--only-make")
    assert static.returncode == 2 and "writes no variants" in static.stderr
    (tmp_path / "c.toml").write_text(CONFIG.replace("held_out = 12", "held_out = 0"))
    shutil.copytree(run, same := tmp_path / "same")
    twice = rods("compare", run, same)
    assert twice.returncode == 2 and "name one of the two" in twice.stderr


def test_a_run_that_goes_on_longer_takes_its_twin_along(run: Path) -> None:
    assert rods("twin", run, "--only-make").returncode == 0
    assert rods("trainer", "extend", run, "--steps", "20").returncode == 0
    assert rods("twin", run, "--only-make").returncode == 0
    assert Run.open(run.with_name("run-static")).config.training.steps == 20


def _runs(name: str, seeds_per_step: int, progress: list[float]) -> dict[str, ScoredRun]:
    """Of each random seed one, with this progress on each of three held-out tasks."""
    runs: dict[str, ScoredRun] = {}
    for seed, mean in enumerate(progress):
        values = {
            "policy": {"kind": "simulated"},
            "selection": {"seeds_per_step": seeds_per_step},
            "random_seeds": {"order": seed},
        }
        config = parse_config(values, where="test")
        run: Any = SimpleNamespace(name=name, path=Path(name), config=config, manifest={})
        runs[str(seed)] = ScoredRun(run, 9, 100, dict.fromkeys("abc", mean))
    return runs


def test_the_interval_is_over_random_seeds_and_says_how_many_more_would_tell() -> None:
    base = [0.4, 0.4, 0.4]
    told = over(_runs("a", 4, [0.60, 0.61, 0.59]), _runs("b", 0, base))
    assert told["changes"] == ["selection.seeds_per_step: 0 → 4"] and told["tasks"] == 3
    assert len(told["by_seed"]) == 3 and told["difference"]["interval"][0] > 0
    assert told["difference"]["mean"] == pytest.approx(0.2) and told["needed"] <= 3
    loose = over(_runs("a", 4, [0.60, 0.40, 0.50]), _runs("b", 0, base))
    low, high = loose["difference"]["interval"]
    # 0.1 with a deviation of 0.1: t(n - 1) / √n has to be below 1
    assert low < 0 < high and loose["needed"] == 7
    none = over(_runs("a", 4, [0.50, 0.30, 0.40]), _runs("b", 0, base))
    assert none["needed"] is None


def test_only_runs_of_the_same_random_seeds_are_paired() -> None:
    assert len(over(_runs("a", 4, [0.6, 0.6]), _runs("b", 0, [0.4]))["by_seed"]) == 1
    with pytest.raises(UserError, match="same random seeds"):
        over({"1": _runs("a", 4, [0.6])["0"]}, _runs("b", 0, [0.4]))


def test_a_fork_beside_a_run_is_no_twin_of_it(run: Path) -> None:
    assert rods("trainer", "fork", run, f"{run}-fork").returncode == 0
    alone = rods("compare", run)
    assert alone.returncode == 2 and "→ `rods twin RUN`" in alone.stderr
