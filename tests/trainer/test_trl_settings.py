"""What TRL is told about vLLM, from the configuration; what cannot run on a machine is refused."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest
import torch
from trl import GRPOConfig, GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration

from rods.config import Config, parse_config
from rods.errors import UserError
from rods.trainer.engines import choose
from rods.trainer.engines.choose import vllm_arguments

SERVER = {"model": "policy", "urls": ["http://node1:8001/v1"]}


def configured(**operation: Any) -> Config:
    return parse_config({"policy": {"kind": "nano"}, "operation": operation}, where="test")


def test_trl_is_told_of_vllm_only_where_it_sets_it_up() -> None:
    assert "use_vllm" not in vllm_arguments(configured())
    by_disk = vllm_arguments(configured(rollout_servers=[SERVER]))
    assert "use_vllm" not in by_disk and by_disk["vllm_importance_sampling_correction"]
    off = parse_config({"training": {"engine_correction": "none"}}, where="test")
    assert vllm_arguments(off) == {"vllm_importance_sampling_correction": False}


@pytest.mark.parametrize(
    "operation",
    [{"colocated": True}, {"rollout_servers": [SERVER], "weight_transfer": "nccl"}],
    ids=["colocated", "nccl"],
)
def test_without_vllm_beside_the_trainer_a_server_by_disk_is_what_remains(
    operation: dict[str, Any],
) -> None:
    with pytest.raises(UserError, match=r"not installed beside the trainer.*rollout_servers"):
        vllm_arguments(configured(**operation))


def test_weights_over_nccl_need_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    over_nccl = configured(rollout_servers=[SERVER], weight_transfer="nccl")
    with pytest.raises(UserError, match='weight_transfer = "disk"'):
        vllm_arguments(over_nccl)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = vllm_arguments(over_nccl)
    assert (found["vllm_mode"], found["vllm_server_base_url"]) == ("server", "http://node1:8001")
    found = vllm_arguments(configured(colocated=True, colocated_memory=0.4))
    assert (found["vllm_mode"], found["vllm_gpu_memory_utilization"]) == ("colocate", 0.4)


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"colocated": True, "rollout_servers": [SERVER]}, "exclude each other"),
        ({"weight_transfer": "nccl"}, "one rollout server with one address"),
        (
            {
                "weight_transfer": "nccl",
                "rollout_servers": [{**SERVER, "urls": ["http://a/v1", "http://b/v1"]}],
            },
            "one rollout server with one address",
        ),
    ],
)
def test_contradictions_are_refused(operation: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        configured(**operation)


def test_the_pin_of_trl_and_what_is_taken_for_granted_of_its_vllm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choose, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for operation in (
        {"colocated": True},
        {"rollout_servers": [SERVER], "weight_transfer": "nccl"},
    ):
        arguments = vllm_arguments(configured(**operation))
        assert arguments.keys() <= {one.name for one in fields(GRPOConfig)}
    generate = inspect.getsource(GRPOTrainer._generate)
    assert "self.use_vllm and self.state.global_step != self._last_loaded_step" in generate
    assert generate.index("self.vllm_generation.sync_weights()") < generate.index(
        "self.rollout_func("
    )
    built = inspect.getsource(VLLMGeneration._init_vllm)
    assert "self.llm = LLM(" in built and 'logprobs_mode="processed_logprobs"' in built
