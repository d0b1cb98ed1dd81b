"""Rollouts with vLLM in the trainer's processes, as far as they go without it: a fake of its `LLM`
answers with nano's tokens, since the real one needs an environment of its own (docs/training.md
says what of it was run)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rods.episode.rewards import score
from rods.trainer.engines.choose import ColocatedEngine
from tests.trainer.nano_parts import engine, jobs

pytestmark = pytest.mark.numeric


@dataclass
class Sampling:
    """The fields of vLLM's SamplingParams that are used."""

    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop_token_ids: list[int]
    logprobs: int | None
    detokenize: bool


class FakeLlm:
    """vLLM's `LLM.generate` for token ids, greedy, with nano. When it is `broken` it aborts what it
    is asked after so many tokens."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.broken: int | None = None
        self.asked: list[Sampling] = []

    def generate(
        self, prompts: Sequence[Any], sampling_params: Sequence[Sampling], use_tqdm: bool
    ) -> list[Any]:
        self.asked += sampling_params
        return [
            self._one(one["prompt_token_ids"], how)
            for one, how in zip(prompts, sampling_params, strict=True)
        ]

    def _one(self, prompt: list[int], how: Sampling) -> Any:
        tokens: list[int] = []
        chances: list[dict[int, Any]] = []
        with torch.inference_mode():
            while len(tokens) < (how.max_tokens if self.broken is None else self.broken):
                logits = self.model(torch.tensor([prompt + tokens])).logits[0, -1].log_softmax(-1)
                tokens.append(int(logits.argmax()))
                chances.append({tokens[-1]: SimpleNamespace(logprob=float(logits[tokens[-1]]))})
                if tokens[-1] in how.stop_token_ids:
                    break
        whole = "stop" if tokens and tokens[-1] in how.stop_token_ids else "length"
        reason = whole if self.broken is None else "abort"
        output = SimpleNamespace(token_ids=tokens, logprobs=chances, finish_reason=reason)
        return SimpleNamespace(outputs=[output])


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=Sampling))


def test_a_colocated_vllm_gives_the_tokens_of_the_trainers_own_engine(vllm: None) -> None:
    local = engine()
    local.model.eval()
    llm = FakeLlm(local.model)
    assert ColocatedEngine(local.chat, local.limits, llm).rollouts(
        jobs(), random_seed=1, greedy=True
    ) == (local.rollouts(jobs(), random_seed=1, greedy=True))
    assert {one.temperature for one in llm.asked} == {0.0}


def test_every_reply_has_its_own_room_seed_and_log_probabilities(vllm: None) -> None:
    local = engine(temperature=0.7, max_context_tokens=16)
    local.model.eval()
    llm = FakeLlm(local.model)
    full = ColocatedEngine(local.chat, local.limits, llm).rollouts(jobs(), random_seed=1)
    # a prompt that overflows is not sent
    assert {one.trace.end for one in full} == {"context"} and not llm.asked
    roomy = engine(temperature=0.7)
    found = ColocatedEngine(roomy.chat, roomy.limits, llm).rollouts(jobs(), random_seed=1, first=8)
    assert len({one.seed for one in llm.asked}) == len(llm.asked)
    assert {(one.temperature, one.logprobs) for one in llm.asked} == {(0.7, 0)}
    for one in found:
        assert all(
            (chance < 0) == bool(own)
            for chance, own in zip(one.logprobs, one.env_mask, strict=True)
        )


@pytest.mark.parametrize("tokens", [0, 1])
def test_an_aborted_reply_is_an_infrastructure_failure(vllm: None, tokens: int) -> None:
    local = engine()
    llm = FakeLlm(local.model)
    llm.broken = tokens
    found = ColocatedEngine(local.chat, local.limits, llm).rollouts(jobs()[:2], random_seed=1)
    assert [score(one.trace, "progress").reward for one in found] == [None, None]
