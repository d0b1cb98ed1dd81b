"""A daemon with the language-model author beside a simulated trainer, for half an hour.

Claim: from the record of a step to its variants in staging takes at most one step. Anchor: the
paper's step of 222 s (004 Appendix N), scaled. Command: `python -m bench.llm_daemon`.

Everything is quicker by one factor: a step takes 12 seconds (3 with --quick), and the stub, which
plays all roles, answers after 2 to 10 seconds times that factor. Trainer and daemon are the real
processes under `rods up`; what is measured is read from the run's logs afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
import tomli_w

from bench.figures import Figure, run
from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL, REJECTED, SEEDS
from rods.buffers.usage import costs

PAPER_STEP = 222.0  # seconds
# seconds: about 200 tokens at 30 ms, a model of 32B parameters with 64 calls in flight
ANSWER = 2.0, 10.0
RUNS = Path(__file__).parent.parent / "runs"
QUARTER = 4  # memory at the end is compared with that after the first quarter


def measure(quick: bool) -> list[Figure]:
    """Latency from a step's record to its variants', what became of the picks, and the daemon's
    memory."""
    step, steps = (3.0, 5) if quick else (12.0, 150)
    scale = step / PAPER_STEP
    script = Script(
        answer="bench.fixtures.llm_stub.roles:answer",
        latency=(ANSWER[0] * scale, ANSWER[1] * scale),
    )
    with tempfile.TemporaryDirectory(dir=RUNS) as folder, Stub(script) as stub:
        path = Path(folder) / "run"
        file = Path(folder) / "config.toml"
        file.write_text(tomli_w.dumps(_config(stub.url, step, steps)))
        memory = _run(path, file)
        return _figures(path, step, None if quick else step, memory)


def _config(url: str, step: float, steps: int) -> dict[str, Any]:
    return {
        "data": {"tasks": "desk", "train": 400, "held_out": 20},
        "policy": {"kind": "simulated", "skill": 0.4, "growth": 0.0005},
        "training": {"batch_tasks": 32, "steps": steps},
        "pipeline": {"author": "llm"},
        "pool": {"staging_epochs": 0.0},
        "operation": {
            "steps_per_second": 1 / step,
            "workers": 64,
            "endpoints": [{"model": "stub", "urls": [url], "concurrency": 64}],
        },
    }


def _run(path: Path, file: Path) -> list[tuple[float, float]]:
    """Runs to the end; the daemon's resident MB by time."""
    command = [
        sys.executable,
        "-m",
        "rods.console",
        "up",
        str(path),
        "--config",
        str(file),
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    memory = []
    began = time.monotonic()
    try:
        while process.poll() is None:
            time.sleep(1)
            if size := _resident(path):
                memory.append((time.monotonic() - began, size))
    finally:
        process.terminate()
        process.wait()
    return memory


def _resident(path: Path) -> float:
    """0 while there is no daemon."""
    try:
        pid = orjson.loads((path / "heartbeat.daemon.json").read_bytes())["pid"]
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
    except (OSError, ValueError, KeyError):
        return 0.0


def _figures(
    path: Path, step: float, reach: float | None, memory: list[tuple[float, float]]
) -> list[Figure]:
    closed = {one["step"]: one["time"] for one in _kind(path / OBSERVATIONS, "step")}
    late = sorted(one["time"] - closed[one["step"]] for one in _kind(path / EXPANDED, "expanded"))
    picked = _kind(path / SEEDS, "picked")
    finished = _kind(path / SEEDS, "finished")
    spent = costs(path).as_json()
    injected = _kind(path / POOL, "injected")
    stale = sum(one["dropped_stale"] is not None for one in finished)
    early = memory[len(memory) // QUARTER][1]
    last = memory[-1][1]
    anchor = f"a step of {step:g} s"

    def late_at(share: float) -> float:
        return late[int(share * (len(late) - 1))] if late else float("nan")

    return [
        Figure("language-model author: minutes beside the trainer", memory[-1][0] / 60, "min"),
        Figure("picks", len(picked), "", "finished", len(finished)),
        Figure("accepted variants", len(late), "", "injected", len(injected)),
        Figure("dropped as stale", stale, "picks"),
        Figure("candidates rejected", len(_kind(path / REJECTED, "rejected")), ""),
        Figure("seed to staging, median", late_at(0.5), "s", anchor, step, reach, False),
        Figure("seed to staging, 99th percentile", late_at(0.99), "s", anchor, step, reach, False),
        Figure("seed to staging, longest", late_at(1.0), "s", anchor, step),
        Figure(
            "seed to staging, within a step",
            100 * sum(one <= step for one in late) / max(1, len(late)),
            "%",
        ),
        Figure(
            "calls for an accepted variant", spent["calls_per_accepted"] or float("nan"), "calls"
        ),
        Figure("daemon's memory at the end", last, "MB", "after the first quarter", early),
    ]


def _kind(path: Path, kind: str) -> list[Record]:
    return [record for record in read(path) if record["kind"] == kind]


if __name__ == "__main__":
    run(measure)
