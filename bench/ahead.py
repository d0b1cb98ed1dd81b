"""How much faster training is where the next batch is played during an update (`rollouts.ahead`).

Claim: at least 1.7 times as many steps in the same time, where rollouts and update take equally
long. Anchor: the same run with `rollouts.ahead = 0`. Command: `python -m bench.ahead`.

nano is trained through TRL, with a stub for its server that answers every request after a fixed
time; an update is stretched to what the rollouts of a step take, as measured before. A step's time
is taken without the first step, which nothing is ahead of; there is no merge in between.

`--policy FOLDER` (~/.cache/rods/smollm2-135m-instruct, say) has vLLM's CPU build serve that policy
on one core (bench/fixtures/llm_server) while it is updated on another, two tasks of four rollouts a
step, in turns: at least 1.5 times as many steps. What vLLM is given has an output head of its own,
since this build keeps a copy of one that is tied (docs/training.md); rewards are replaced, since
that policy earns none, and what nobody learns from costs no update.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.figures import Figure, run
from bench.fixtures.json_server import json_server
from bench.fixtures.llm_server.server import NAME, LlmServer, multiplies_bfloat16
from rods import logs
from rods.buffers.run.creation import create_run
from rods.config import parse_config
from rods.observations import Update
from rods.trainer.advantages import AdvantageEstimate, Array
from rods.trainer.policy import Batch, Stopping
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks

LATENCY = 2.0  # seconds of a reply
BATCH = 2
STEPS = 8
QUICK = 3
WORDS = 600  # about as many as nano has, all of them as likely where it has learnt nothing
TURNS = 3  # runs with and without, by turns, of a policy that vLLM serves
SERVED = 3  # steps of each
CONTEXT = 1024


def measure(quick: bool, policy: str = "") -> list[Figure]:
    """Seconds a step with and without, both with an update of the same length."""
    logs.configure("bench", "error")
    if policy:
        return _by_vllm(Path(policy).expanduser(), 1 if quick else TURNS)
    steps = QUICK if quick else STEPS
    with _served() as url:
        update = _step(url, 3, 0, 0.0).rollouts
        alone = _step(url, steps, 0, update)
        ahead = _step(url, steps, 1, update)
    return [
        Figure(
            f"steps a second with a batch ahead, rollouts and update of {update:.2f} s each",
            alone.whole / ahead.whole,
            "×",
            "seconds a step without; 1.7 to 2 is what can be",
            alone.whole,
            reach=1.7,
        ),
        Figure("a step with a batch ahead", ahead.whole, "s", "the longer half of it", update),
    ]


def _by_vllm(policy: Path, turns: int) -> list[Figure]:
    """The same where rollouts take what a model takes on one core, and updates what they take on
    another."""
    with tempfile.TemporaryDirectory() as folder:
        _with_a_head_of_its_own(policy, Path(folder))
        first, second, *_ = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {second})  # what is started inherits it
        with LlmServer(
            Path(folder) / "server.log", threads=1, context=CONTEXT, policy=Path(folder)
        ) as server:
            os.sched_setaffinity(0, {first})
            pairs = [
                (
                    _step(server.url, SERVED, 0, 0.0, folder),
                    _step(server.url, SERVED, 1, 0.0, folder),
                )
                for _ in range(turns)
            ]
    whole = median(alone.whole for alone, _ in pairs)
    rollouts = median(alone.rollouts for alone, _ in pairs)
    return [
        Figure(
            f"steps a second with a batch ahead, vLLM on one core and updates on another, "
            f"{rollouts:.1f} s of rollouts in a step",
            median(alone.whole / ahead.whole for alone, ahead in pairs),
            "×",
            f"seconds a step without; {whole / max(rollouts, whole - rollouts):.2f} is what can be",
            whole,
            reach=1.5,
        )
    ]


def _with_a_head_of_its_own(policy: Path, folder: Path) -> None:
    import torch

    from rods.trainer.chat import Chat

    chat = Chat.load(policy)
    model = chat.load_model()
    if model.config.tie_word_embeddings:
        model.config.tie_word_embeddings = False
        weights = model.get_input_embeddings().weight.detach().clone()
        model.lm_head.weight = torch.nn.Parameter(weights)
    model.save_pretrained(folder)
    chat.tokenizer.save_pretrained(folder)


def uneven(estimate: AdvantageEstimate) -> Array:
    """Advantages of a policy that earns nothing: every rollout is learnt from."""
    return np.linspace(-1.0, 2.0, estimate.advantages.size).reshape(estimate.advantages.shape)


class _Timed(TrainingRun):
    """A run whose updates take `update` seconds at least. `ended`: when each of them did;
    `playing`: how long the rollouts of each step took."""

    update = 0.0
    asked = 0.0
    recorded = 0.0

    def begin(self, *given: Any) -> Stopping | None:
        self.ended: list[float] = []
        self.playing: list[float] = []
        return super().begin(*given)

    def next_batch(self) -> Batch:
        batch = super().next_batch()
        self.asked = time.perf_counter()
        return batch

    def record(self, *given: Any, **spent: Any) -> None:
        super().record(*given, **spent)
        self.recorded = time.perf_counter()
        self.playing.append(self.recorded - self.asked)

    def after_update(self, update: Update | None = None) -> Stopping | None:
        time.sleep(max(0.0, self.recorded + self.update - time.perf_counter()))
        self.ended.append(time.perf_counter())
        return super().after_update(update)

    @property
    def whole(self) -> float:
        """Seconds a step, the first one left out."""
        return (self.ended[-1] - self.ended[0]) / (len(self.ended) - 1)

    @property
    def rollouts(self) -> float:
        """Seconds of a step's rollouts, the first one left out."""
        return sum(self.playing[1:]) / len(self.playing[1:])


def _step(url: str, steps: int, ahead: int, update: float, policy: str = "") -> _Timed:
    """A run of `steps`, done: of nano, or of the `policy` in a folder, which vLLM serves."""
    from rods.trainer import trl_start

    nano = {"kind": "nano", "warm_start_steps": 1}
    values = {
        "data": {"tasks": "desk-small", "train": STEPS * BATCH, "held_out": 2},
        "policy": (
            {"kind": "transformers", "model": policy, "dialect": "compact"} if policy else nano
        ),
        "rollouts": {
            "rollouts_per_task": 4 if policy else 2,
            "max_steps": 3,
            "max_reply_tokens": 256 if policy else 8,
            "max_context_tokens": CONTEXT if policy else 512,
            "ahead": ahead,
        },
        "training": {
            "batch_tasks": BATCH,
            "steps": steps,
            "kl": 0.0,
            "learning_rate": 1e-9,
            "checkpoint_steps": 1000,
            **({"advantage_hook": "bench.ahead:uneven"} if policy else {}),
        },
        "curriculum": {"stages": [{"expand": False}]},
        "operation": {
            "threads": 1,
            "rollout_servers": [{"model": NAME if policy else "nano", "urls": [url]}],
            "precision": "bf16" if policy and multiplies_bfloat16() else "float32",
        },
    }
    config = parse_config(values, where="bench")
    with tempfile.TemporaryDirectory() as folder:
        made = create_run(Path(folder) / "run", config, load_tasks(config.data, Path(folder)))
        timed = _Timed(made)
        timed.update = update
        with timed:
            trl_start.train(timed)
        return timed


@contextmanager
def _served() -> Iterator[str]:
    """A server that takes any weights and writes one word a reply, after LATENCY; its base URL."""
    version = ""

    def answer(path: str, body: Any) -> Any:
        nonlocal version
        if path.endswith("/update_weight_version"):
            version = body["new_version"]
        elif path.endswith("/weight_info"):
            return {"weight_version": version}
        elif path.endswith("/completions"):
            time.sleep(LATENCY)
            tokens = [1, body["stop_token_ids"][0]]
            drawn = {"token_logprobs": [-math.log(WORDS)] * len(tokens)}
            choice = {"text": "", "finish_reason": "stop", "token_ids": tokens}
            return {"choices": [{**choice, "logprobs": drawn}], "model": "nano"}
        return {"success": True}

    with json_server(answer) as url:
        yield url


if __name__ == "__main__":
    run(measure, policy="a folder with a policy, to be served by vLLM's CPU build")
