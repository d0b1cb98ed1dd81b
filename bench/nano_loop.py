"""Does the loop teach? nano on desk, as in `make demo`, against the same steps without it.

For every random seed (of data, order, rollouts and daemon) the demonstration's warm-started policy is trained four
times on the same few originals, by the two real processes: on static data, with variants of boundary seeds (other
functions, the demonstration's own setting), with variants of randomly selected seeds, and with variants that call the
seed's own functions. Every run is scored on the same held-out tasks with the same draws, so all differences are paired
over tasks; their intervals are those of `evaluation.scoring`. More supervised warm start would beat all of them: the
comparison is between ways to spend the same steps of reinforcement learning.

The full size takes about half an hour on two cores and is meant for a quiet machine; `--quick` trains for a few steps,
only to show that static data and the loop run. Warm-started policies are kept in the usual cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Figure, run
from buffers.creation import toml
from evaluation.heldout import per_task, score_run
from evaluation.scoring import paired
from rods.config import read_config

DEMO = Path(__file__).parent.parent / "console" / "demo.toml"
RUNS = Path(__file__).parent.parent / "runs"
SEEDS = (1, 2, 3)
CONDITIONS: dict[str, dict[str, dict[str, Any]]] = {
    "static": {"selection": {"seeds_per_step": 0}},
    "boundary": {},
    "random": {"selection": {"order": "random"}},
    "same functions": {"pipeline": {"functions": "same"}},
}
QUICK: dict[str, dict[str, Any]] = {
    "data": {"train": 4, "held_out": 8},
    "policy": {"warm_start_steps": 20},
    "training": {"steps": 2, "batch_tasks": 4},
}


def measure(quick: bool) -> list[Figure]:
    """Held-out progress gained in training, and over static data, with 95 % intervals over tasks."""
    figures = []
    for seed in SEEDS[:1] if quick else SEEDS:
        with tempfile.TemporaryDirectory(dir=RUNS) as folder:
            scores = {
                name: _scores(Path(folder) / name.replace(" ", "_"), changes, seed, quick)
                for name, changes in CONDITIONS.items()
                if not quick or name in ("static", "boundary")
            }
        for name, (start, end) in scores.items():
            gain = paired(start, end)
            figures.append(
                _figure(f"seed {seed}, {name}: held-out progress gained", gain, name == "boundary" and not quick)
            )
        for name in [name for name in scores if name != "static"]:
            over = paired(scores["static"][1], scores[name][1])
            figures.append(_figure(f"seed {seed}, {name} over static data", over, False))
    return figures


def _figure(claim: str, difference: Any, judged: bool) -> Figure:
    """`difference` with the lower end of its interval, which for the demonstration's own setting must lie above 0."""
    said = difference.as_json()
    low, high = said["interval"]
    return Figure(f"{claim} {said['mean']:+.3f}, interval to {high:+.3f}, from", low, "", reach=0.0 if judged else None)


def _scores(path: Path, changes: dict[str, dict[str, Any]], seed: int, quick: bool) -> tuple[dict[str, float], ...]:
    """Mean held-out progress per task at the start and the end of one run."""
    values = read_config(DEMO).model_dump(mode="json", exclude_defaults=True)
    numbers = {"order": seed, "rollouts": seed, "daemon": seed}
    for part in (changes, {"random_seeds": numbers, "data": {"random_seed": seed}}, QUICK if quick else {}):
        for section, keys in part.items():
            values[section] = {**values.get(section, {}), **keys}
    config = path.with_suffix(".toml")
    config.write_text(toml(values), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "console.main", "up", str(path), "--config", str(config), "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{path.name}: rods up ended with {done.returncode}: {done.stderr[-2000:]}")
    return tuple(_per_task(score_run(path, which)) for which in ("start", "end"))


def _per_task(summary: dict[str, Any]) -> dict[str, float]:
    return per_task(Path(summary["file"]))["progress"]


if __name__ == "__main__":
    run(measure)
