"""What a training process takes beside what `rods plan` says: its peak memory over one GRPO step.

Claim: the estimate of the plan is not below what is measured. Anchor: that estimate, for the rows
and tokens that the step really had (a plan assumes full contexts). Command: `python -m
bench.memory`.

Measured is anonymous memory, from the moment at which everything is imported, in a process of its
own; on a GPU what its tensors take there at most. `--config FILE` measures the first step of that
run instead, as many tokens as it has.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tomli_w

from bench.figures import Figure, run
from rods.config import read_config

SMOLLM2 = Path.home() / ".cache/rods/smollm2-135m-instruct"
SMALL: dict[str, Any] = {
    "data": {"tasks": "desk-small", "train": 8, "held_out": 4},
    "training": {"batch_tasks": 4, "steps": 1, "kl": 0.0},
    "rollouts": {
        "rollouts_per_task": 4,
        "max_steps": 3,
        "max_reply_tokens": 32,
        "max_context_tokens": 500,
    },
    "operation": {"threads": 1, "precision": "float32"},
}
NANO = {**SMALL, "policy": {"kind": "nano", "warm_start_steps": 3}}
REAL = {
    **SMALL,
    "policy": {"kind": "transformers", "model": str(SMOLLM2), "dialect": "compact"},
    "training": {"batch_tasks": 2, "steps": 1, "kl": 0.0},
    "rollouts": {
        "rollouts_per_task": 2,
        "max_steps": 2,
        "max_reply_tokens": 24,
        "max_context_tokens": 800,
    },
    "operation": {"threads": 1, "precision": "float32", "micro_batch": 1},
}
CHILD = """
import json, sys, threading, time
from pathlib import Path
import torch
from rods.trainer import main, plan, token_scores
from rods.config import read_config

gpu = torch.cuda.is_available()

def taken():
    if gpu:
        return torch.cuda.max_memory_allocated()
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

seen, peak, whole = [], [0], token_scores.score_tokens
def score(compute, model, ids, mask, *args, **options):
    seen.append((options["rows"], int(mask.any(0).sum())))
    return whole(compute, model, ids, mask, *args, **options)
token_scores.score_tokens = score
def watch():
    while True:
        peak[0] = max(peak[0], taken())
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
before = taken()
code = main.run([sys.argv[1], "--config", sys.argv[2]])
config = read_config(Path(sys.argv[2]))
model = plan.model_shape(next(Path(sys.argv[1]).glob("checkpoints/step_00000001*/policy")))
rows, tokens = max(seen)
config = config.model_copy(update={
    "rollouts": config.rollouts.model_copy(update={"max_context_tokens": max(16, tokens)}),
    "operation": config.operation.model_copy(update={"micro_batch": rows})})
print(json.dumps({"code": code, "measured": peak[0] - before, "rows": rows, "tokens": tokens,
                  "estimate": plan.estimate_memory(config, model, 1, "whole", gpu=gpu),
                  "gpu": gpu}))
"""


def measure(quick: bool, config: str = "") -> list[Figure]:
    """Nano, and in the full size SmolLM2-135M-Instruct where it has been fetched."""
    if config:
        asked = read_config(Path(config))
        one = asked.training.model_copy(update={"steps": 1, "checkpoint_steps": 1})
        values = asked.model_copy(update={"training": one}).model_dump(
            mode="json", exclude_none=True
        )
        return [_taken(Path(config).stem, values)]
    figures = [_taken("nano", NANO)]
    if not quick and SMOLLM2.is_dir():
        figures.append(_taken("SmolLM2-135M-Instruct", REAL))
    return figures


def _taken(name: str, values: dict[str, Any]) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "c.toml"
        config.write_text(tomli_w.dumps(values))
        command = [sys.executable, "-c", CHILD, f"{folder}/run", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    print(
        {purpose: round(value / 1e6, 1) for purpose, value in found["estimate"].items()},
        file=sys.stderr,
    )
    claim = (
        f"memory of a GRPO step{' on a GPU' * found['gpu']}, {name}, {found['rows']} × "
        f"{found['tokens']} tokens"
    )
    anchor = found["estimate"]["in all at most"] / 1e6
    return Figure(claim, found["measured"] / 1e6, "MB", "the estimate", anchor)


if __name__ == "__main__":
    run(measure, config="the configuration of a run, whose first step is measured")
