"""A real pretrained model through the whole path on a CPU: warm-up, GRPO, checkpoint, scores. `make
llm-smoke` runs this; `make test` does not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bench.fixtures.llm_server.server import MODEL
from rods.errors import EXIT_OK
from rods.trainer.advantages import AdvantageEstimate
from rods.trainer.main import run as rods_train
from tests.family.benchmarks.bfcl.runs import evaluate
from tests.trainer.runs import live_steps, write_config

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("RODS_LLM_SMOKE"), reason="needs a real model: make llm-smoke"
    ),
    pytest.mark.timeout(1_500),
]
VALUES: dict[str, Any] = {
    "data.tasks": "desk-small",
    "data.train": 8,
    "data.held_out": 2,
    "policy.kind": "transformers",
    "policy.dialect": "compact",
    "rollouts.rollouts_per_task": 2,
    "rollouts.max_steps": 2,
    "rollouts.max_reply_tokens": 12,
    "rollouts.max_context_tokens": 400,
    "training.batch_tasks": 2,
    "training.steps": 1,
    "training.kl": 0.0,
    "training.advantage_hook": "tests.trainer.test_smollm2:everything_counts",
    "operation.threads": 1,
    "operation.precision": "bf16",
    "operation.micro_batch": 2,
}


def everything_counts(estimate: AdvantageEstimate) -> np.ndarray:
    """Advantages for a policy that earns nothing yet: without them no weight would move."""
    return np.tile([-1.0, 1.0], (len(estimate.rewards), 1))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path)  # gigabytes of weights


def test_a_real_model_is_warmed_up_trained_and_scored(home: Path) -> None:
    warm = home / "warm"
    run = home / "run"
    # without AVX-512's bf16 a CPU is four times slower in it; a step of GRPO is enough of that
    quick = {"policy.model": str(MODEL), "operation.precision": "float32"}
    base = write_config(home / "base.toml", VALUES | quick)
    arguments = [
        "--out",
        str(warm),
        "--passes",
        "0.5",
        "--sequences",
        "4",
        "--learning-rate",
        "1e-4",
    ]
    assert rods_train(["sft", "--config", str(base), *arguments]) == EXIT_OK

    started = write_config(home / "run.toml", VALUES | {"policy.model": str(warm)})
    assert rods_train([str(run), "--config", str(started)]) == EXIT_OK
    ((step, _, groups),) = live_steps(run)
    assert step == 1 and len(groups) == 2
    first, last = sorted((run / "checkpoints").glob("step_*"))
    before, after = (load_file(folder / "policy" / "model.safetensors") for folder in (first, last))
    assert any(not torch.equal(before[name], after[name]) for name in before)

    asked = ("--types", "base", "--tasks-per-type", 1, "--max-tokens", 12, "--max-context", 8192)
    found = evaluate("run", home / "evaluation", "--run", run, *asked)
    assert found["complete"] and found["episodes"] == 1
