"""A server of nano with vLLM's interface: token ids in and out, weights loaded in place. Real HTTP,
real weights.

It decodes greedily. `ends` has finish reasons of further requests, of which each gets half of its
reply. `fail` makes it answer 500 from then on; `restart` has it be, from a later
request on, as a restart would leave it. It holds its cached prefixes `busy` times before it forgets
them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.json_server import json_server


class Served:
    """What the server has: a model, and a record of what it was asked."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.fail = False
        self.url = ""
        self.initial = deepcopy(model.state_dict())
        self.mark = "default"
        self.restart_before = -1  # a number of `asked`
        self.restarted = threading.Event()  # unset while a restart is due
        self.restarted.set()
        self.busy = 0
        self.ends: list[Any] = []
        self.room = 4096  # tokens of a context
        self.asked: list[dict[str, Any]] = []
        self.loaded: list[str] = []
        self.sizes: list[int] = []  # bytes of the weights that were loaded
        self.lock = threading.Lock()

    def restart(self, after: int) -> None:
        """Restarts once `after` more requests have been answered. Until then who asks for the
        weight version waits, so that no rollout ends before the restart, however short it is."""
        self.restart_before = len(self.asked) + after
        self.restarted.clear()

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/collective_rpc":
            folder = body["kwargs"]["weights_path"]
            file = Path(folder) / "model.safetensors"
            self.model.load_state_dict(load_file(file), strict=False)
            self.sizes.append(file.stat().st_size)
            self.loaded.append(folder)
            return {"results": [None]}
        if path == "/reset_prefix_cache":
            self.busy -= 1
            return {"success": self.busy < 0}
        if path == "/update_weight_version":
            self.mark = body["new_version"]
            return {"success": True}
        if path == "/v1/models":
            return {"data": [{"id": "nano", "max_model_len": self.room}]}
        if path == "/weight_info":
            return {"weight_version": self.mark}
        if not path.endswith("/completions"):
            return {}
        if len(self.asked) == self.restart_before:
            self.model.load_state_dict(self.initial)
            self.mark = "default"
            self.restarted.set()
        self.asked.append(body)
        tokens: list[int] = []
        logprobs: list[float] = []
        with torch.inference_mode():
            while len(tokens) < body["max_tokens"]:
                logits = self.model(torch.tensor([body["prompt"] + tokens])).logits[0, -1]
                tokens.append(int(logits.argmax()))
                logprobs.append(float(logits.log_softmax(-1)[tokens[-1]]))
                if tokens[-1] in body["stop_token_ids"]:
                    break
        finish = "stop" if tokens[-1] in body["stop_token_ids"] else "length"
        if self.ends:
            finish = self.ends.pop()
            del tokens[len(tokens) // 2 :], logprobs[len(logprobs) // 2 :]
        choice: dict[str, Any] = {"text": "…", "finish_reason": finish, "token_ids": tokens}
        if "logprobs" in body:
            choice["logprobs"] = {"token_logprobs": logprobs}
        return {"choices": [choice], "model": "nano"}


@contextmanager
def served(model: Any) -> Iterator[Served]:
    """A running server in a thread of this process."""
    state = Served(model)

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if path == "/weight_info":
            assert state.restarted.wait(60), "no request has reached the restart"
        with state.lock:
            return (500, {}) if state.fail else (200, state.answer(path, body))

    with json_server(answer) as url:
        state.url = url
        yield state
