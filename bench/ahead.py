"""How much faster training is where the next batch is played during an update (`rollouts.ahead`).

Claim: at least 1.7 times as many steps in the same time, where rollouts and update take equally
long. Anchor: the same run with `rollouts.ahead = 0`. Command: `python -m bench.ahead`.

nano is trained through TRL, with a stub for its server that answers every request after a fixed
time; an update is stretched to what the rollouts of a step take, as measured before. A step's time
is taken without the first step, which nothing is ahead of; there is no merge in between.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import orjson

from bench.figures import Figure, run
from rods import logs
from rods.buffers.run.creation import create_run
from rods.config import parse_config
from rods.observations import Update
from rods.trainer.policy import Batch, Stopping
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks

LATENCY = 2.0  # seconds of a reply
BATCH = 2
STEPS = 8
QUICK = 3
WORDS = 600  # about as many as nano has, all of them as likely where it has learnt nothing


def measure(quick: bool) -> list[Figure]:
    """Seconds a step with and without, both with an update of the same length."""
    logs.configure("bench", "error")
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


def _step(url: str, steps: int, ahead: int, update: float) -> _Timed:
    """A run of `steps`, done."""
    from rods.trainer import trl_start

    values = {
        "data": {"tasks": "desk-small", "train": STEPS * BATCH, "held_out": 2},
        "policy": {"kind": "nano", "warm_start_steps": 1},
        "rollouts": {
            "rollouts_per_task": 2,
            "max_reply_tokens": 8,
            "max_context_tokens": 512,
            "ahead": ahead,
        },
        "training": {
            "batch_tasks": BATCH,
            "steps": steps,
            "kl": 0.0,
            "learning_rate": 1e-9,
            "checkpoint_steps": 1000,
        },
        "curriculum": {"stages": [{"expand": False}]},
        "operation": {"threads": 1, "rollout_servers": [{"model": "nano", "urls": [url]}]},
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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        version = ""

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = orjson.loads(self.rfile.read(size) or b"{}")
            reply: dict[str, Any] = {"success": True}
            if self.path.endswith("/update_weight_version"):
                Handler.version = body["new_version"]
            elif self.path.endswith("/weight_info"):
                reply = {"weight_version": Handler.version}
            elif self.path.endswith("/completions"):
                time.sleep(LATENCY)
                tokens = [1, body["stop_token_ids"][0]]
                drawn = {"token_logprobs": [-math.log(WORDS)] * len(tokens)}
                choice = {"text": "", "finish_reason": "stop", "token_ids": tokens}
                reply = {"choices": [{**choice, "logprobs": drawn}], "model": "nano"}
            content = orjson.dumps(reply)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    run(measure)
