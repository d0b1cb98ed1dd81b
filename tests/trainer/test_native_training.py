"""A tiny policy of random weights trains in the chat formats of a dozen families."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from bench.fixtures.chat_templates import saved
from bench.fixtures.llm_server import LlmServer
from bench.fixtures.llm_server.server import NAME
from rods.buffers.checkpoints import Checkpoints
from rods.buffers.run.creation import create_run
from rods.calls import Call
from rods.config import parse_config
from rods.dialects import Parsed
from rods.dialects.native import Native
from rods.environments.base import Tool
from rods.trainer import trl_start
from rods.trainer.chat import Chat
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks
from tests.trainer.runs import live_steps

FAMILIES = (
    "qwen2_5",
    "qwen3",
    "qwen3_5_think",
    "qwen3_8",
    "llama3_1",
    "llama3_2",
    "lfm2",
    "glm4moe",
    "gptoss",
    "gemma4",
    "nemotron_3_nano",
    "nemotron_3_5_lightning",
    "gemma3",
)
VALUES: dict[str, Any] = {
    "data": {"tasks": "desk-small", "train": 4, "held_out": 2},
    "rollouts": {
        "rollouts_per_task": 2,
        "max_reply_tokens": 12,
        "max_context_tokens": 16_000,
        "max_steps": 2,
    },
    "training": {
        "batch_tasks": 2,
        "steps": 2,
        "learning_rate": 0.01,
        "kl": 0.0,
        "advantage_hook": "tests.trainer.runs:alternating",
    },
    "curriculum": {"stages": [{"reward": "format", "expand": False}]},
    "operation": {"threads": 1, "trace_every": 1},
}


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third token ends a reply, and every other reply makes two calls, so that results and
    further turns are shown in the family's form."""
    load = Chat.load

    def loaded(folder: Path, policy: Any = None) -> Chat:
        chat = load(folder, policy)
        chat.ends = frozenset(range(0, len(chat.tokenizer), 3)) | chat.ends
        return chat

    def alternating(self: Native, text: str, tools: Mapping[str, Tool]) -> Parsed:
        calls = (Call("list_day", {"day": "monday"}), Call("no_such_tool"))
        return Parsed(calls=calls) if len(text) % 2 else Parsed(answer=text)

    monkeypatch.setattr(Chat, "load", staticmethod(loaded))
    monkeypatch.setattr("rods.trainer.fit.check", lambda *_: None)  # it reads by the real `parse`
    monkeypatch.setattr(Native, "parse", alternating)


def trained(folder: Path, model: Path, operation: Mapping[str, Any]) -> None:
    """Two steps of the policy in `model`, whose weights they change."""
    values = {
        **VALUES,
        "policy": {"kind": "transformers", "model": str(model)},
        "operation": {**VALUES["operation"], **operation},
    }
    config = parse_config(values, where="test")
    assert config.policy.dialect == "native"
    run = create_run(folder, config, load_tasks(config.data, folder))
    with TrainingRun(run) as training:
        trl_start.train(training)
    steps = live_steps(run.path)
    assert [step for step, *_ in steps] == [1, 2]
    ends = {rollout["end"] for *_, step in steps for group in step for rollout in group["rollouts"]}
    assert ends <= {"finished", "step_limit", "length"} and ends != {"length"}
    newest = Checkpoints(run.path).named(training.trainer_log.live)[-1].policy
    before = load_file(model / "model.safetensors")
    after = load_file(newest / "model.safetensors")
    assert any((before[key] != after[key]).any() for key in before)
    assert Chat.load(newest, config.policy).tokenizer.chat_template


@pytest.mark.slow
@pytest.mark.few(4)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.usefixtures("brief")
def test_two_steps_are_trained_through_trl(tmp_path: Path, name: str) -> None:
    trained(tmp_path / "run", saved(tmp_path / "policy", name), {})


@pytest.mark.skipif(not os.environ.get("RODS_LLM_SMOKE"), reason="needs vLLM: make llm-smoke")
@pytest.mark.timeout(1_500)
@pytest.mark.few("glm4moe", others="slow")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.usefixtures("brief")
def test_two_steps_are_trained_behind_vllm(tmp_path: Path, name: str) -> None:
    model = saved(tmp_path / "policy", name)
    with LlmServer(tmp_path / "server.log", context=16_000, policy=model) as server:
        rollouts = {"model": NAME, "urls": [server.url]}
        trained(tmp_path / "run", model, {"rollout_servers": [rollouts]})
