"""A run that never ends: a real trainer and a real daemon, simulated rollouts, as many merges as
months bring.

Claim: neither a step nor a process grows with the past. Anchor: the same processes after a tenth of
it. Command: `python -m bench.uptime` (10,000 merges; about an hour of one core).

Batches are as large as the pool of originals, so that most steps are followed by a merge: what
comes with merges (records, variants that come in and leave, closed parts, folds) piles up as fast
as it can. Parts of logs are small, so that there are many. A step's time is the CPU time of a
process over all its work, the daemon's looks in between among it: where steps take longer, there
are more of these. Memory is what is resident.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from bench.figures import Figure, run
from rods.buffers.log.parts import segments
from rods.buffers.run import runfolder
from rods.buffers.run.heartbeat import read_heartbeat

RUNS = Path(__file__).parent.parent / "runs"
TASKS = 24
STEPS_A_MERGE = 1.5
AT = (0.1, 0.2, 0.7, 0.8)  # of the way
PROCESSES = ("trainer", "daemon")


@dataclass(frozen=True)
class Look:
    """At both processes, behind so many steps."""

    steps: int
    merges: int
    seconds: dict[str, float]  # of CPU time, since they began
    memory: dict[str, float]  # MB


def measure(quick: bool) -> list[Figure]:
    """CPU milliseconds a step and MB of both processes, early and late; then what verifying all of
    it takes."""
    steps = round(STEPS_A_MERGE * (600 if quick else 10_000))
    with tempfile.TemporaryDirectory(dir=RUNS) as folder:
        path = Path(folder) / "run"
        early, late = looks(path, steps)
        began = time.perf_counter()
        said = subprocess.run([*VERB, "verify", path], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        size = sum(file.stat().st_size for file in path.rglob("*.jsonl")) / 1e6
        parts = sum(
            len(segments(path / name))
            for name in (runfolder.OBSERVATIONS, runfolder.POOL, runfolder.SEEDS)
        )
    figures = [
        Figure(
            "merges", late[1].merges, f"in {steps:,} steps, {size:,.0f} MB of logs in {parts} parts"
        )
    ]
    for name in PROCESSES:
        paces = [
            (after.seconds[name] - before.seconds[name]) / (after.steps - before.steps) * 1e3
            for before, after in (early, late)
        ]
        figures.append(
            Figure(f"a step of the {name}, late", paces[1] / paces[0], "×", "early, ms", paces[0])
        )
        held = early[1].memory[name], late[1].memory[name]
        figures.append(
            Figure(
                f"memory of the {name}, late", held[1] - held[0], "MB more", "early, MB", held[0]
            )
        )
    agreed = int(said.returncode == 0)
    return [
        *figures,
        Figure("verify: everything agrees", agreed, "", reach=1),
        Figure("verifying", seconds, "s"),
    ]


VERB = (sys.executable, "-m", "rods.console")


def looks(path: Path, steps: int) -> tuple[tuple[Look, Look], tuple[Look, Look]]:
    """Runs a trainer and a daemon for so many steps; looks at them twice early and twice late."""
    config: dict[str, Any] = {
        "data": {"tasks": "desk", "train": TASKS, "held_out": 0},
        "policy": {"kind": "simulated"},
        "rollouts": {"rollouts_per_task": 4},
        "training": {"batch_tasks": TASKS, "steps": steps, "checkpoint_steps": 100},
        "selection": {"seeds_per_step": 1},
        "pool": {"max_generated": TASKS // 3},
        "operation": {"trace_bytes": 0, "log_part_bytes": 1 << 22},
    }
    file = path.with_suffix(".toml")
    file.write_text(tomli_w.dumps(config), encoding="utf-8")
    command = [*VERB, "up", str(path), "--config", str(file), "--json"]
    found = list[Look]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            told = json.loads(line)
            if (
                told["event"] == "progress"
                and len(found) < len(AT)
                and told["step"] >= AT[len(found)] * steps
            ):
                found.append(looked(path, told["step"], told["epoch"]))
    first, second, third, fourth = found
    return (first, second), (third, fourth)


def looked(path: Path, step: int, merges: int) -> Look:
    """Both processes as they are now."""
    seconds = dict[str, float]()
    memory = dict[str, float]()
    for name in PROCESSES:
        process = Path(f"/proc/{read_heartbeat(path, name)['pid']}")
        # by itself and for it
        used = process.joinpath("stat").read_text().rpartition(")")[2].split()[11:13]
        seconds[name] = sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
        memory[name] = (
            int(process.joinpath("statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        )
    return Look(step, merges, seconds, memory)


if __name__ == "__main__":
    run(measure)
