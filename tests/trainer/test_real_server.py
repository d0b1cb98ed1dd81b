"""The rollout engine of a vLLM server against a real vLLM with a real, small policy. `make
llm-smoke` runs this; `make test` does not."""

from __future__ import annotations

import json
import os
import re
import threading
import urllib.request
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.fixtures.llm_server import LlmServer
from bench.fixtures.llm_server.server import MODEL, NAME
from rods import config, dialects
from rods.config import Endpoint
from rods.episode.drivers import Job
from rods.episode.goals import GroundTruth
from rods.episode.rewards import score
from rods.llm import Client
from rods.trainer import advantages, main, trl_grpo
from rods.trainer.chat import Chat
from rods.trainer.engines.base import Sample
from rods.trainer.engines.choose import by_disk
from rods.trainer.engines.local import LocalEngine, nucleus
from rods.trainer.engines.served import ServedEngine
from rods.worlds import desk
from tests.environments import load
from tests.trainer.runs import live_steps, write_config

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("RODS_LLM_SMOKE"), reason="needs a model server: make llm-smoke"
    ),
    pytest.mark.timeout(1_500),
]
LIMITS = config.Rollouts(
    temperature=0.8, top_p=0.95, max_reply_tokens=32, max_context_tokens=1024, max_steps=3
)
CONTEXT = 2048
NEAR = 2e-3  # log-probabilities of one model in float32, by two implementations


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2 with an output head of its own: where it is the table of embeddings, vLLM's CPU build
    keeps a rearranged copy of it that no reload brings up to date (docs/training.md)."""
    folder = tmp_path_factory.mktemp("policy")
    chat = Chat.load(MODEL)
    model = chat.load_model()
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(model.get_input_embeddings().weight.detach().clone())
    model.save_pretrained(folder)
    chat.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def server(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlmServer]:
    with LlmServer(
        tmp_path_factory.mktemp("log") / "server.log", context=CONTEXT, policy=policy
    ) as server:
        yield server


@pytest.fixture(scope="module")
def own(policy: Path) -> LocalEngine:
    """The policy. A full stop or a line's end ends its replies too, so that a small model gets
    through its turns."""
    torch.set_num_threads(1)
    found = LocalEngine.load(policy, LIMITS)
    spelt = ((found.chat.text([token]), token) for token in range(len(found.chat.tokenizer)))
    found.chat.ends |= {token for text, token in spelt if text.strip() == "." or "\n" in text}
    found.model.eval()
    return found


def through(server: LlmServer, own: LocalEngine, **settings: Any) -> ServedEngine:
    return ServedEngine(own.chat, own.limits, Endpoint(model=NAME, urls=(server.url,), **settings))


def jobs(rollouts: int) -> list[Job]:
    world = load("desk")
    dialect = dialects.load("compact")
    tasks = desk.generate(3, 8, 0, "small")
    return [
        Job(task, world, dialect, GroundTruth(world, task), max_steps=3)
        for task in tasks
        for _ in range(rollouts)
    ]


def drawn_with(own: LocalEngine, sample: Sample) -> torch.Tensor:
    """The log-probabilities of a rollout's tokens by the trainer's own model, after temperature and
    nucleus."""
    ids = torch.tensor([sample.prompt_ids + sample.completion_ids])
    with torch.inference_mode():
        logits = own.model(input_ids=ids).logits[0, len(sample.prompt_ids) - 1 : -1]
    weights = nucleus((logits / LIMITS.temperature).softmax(-1), LIMITS.top_p)
    found = weights.gather(-1, ids[0, len(sample.prompt_ids) :, None])[:, 0] / weights.sum(-1)
    return found.log()


def test_many_episodes_in_flight_are_token_in_and_token_out(
    server: LlmServer, own: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[list[int], list[int]]] = []
    complete = Client.complete
    flight = [0, 0]

    async def heard(client: Client, request: Any) -> Any:
        flight[0] += 1
        flight[1] = max(flight)
        answer = await complete(client, request)
        flight[0] -= 1
        said.append((list(request.prompt), list(answer.token_ids)))
        return answer

    monkeypatch.setattr(Client, "complete", heard)
    found = through(server, own).rollouts(jobs(2), random_seed=1)
    assert flight[1] == len(found) == 16
    assert sum(len(one.spans) for one in found) == len(said) > 20  # several turns and replies each
    off: list[float] = []
    for one in found:
        assert one.trace.end != "infrastructure"
        # each reply stands where it was written, after exactly what it was asked after
        for start, end in one.spans:
            assert (
                one.prompt_ids + one.completion_ids[:start],
                one.completion_ids[start:end],
            ) in said
        inside = [
            any(start <= place < end for start, end in one.spans)
            for place in range(len(one.completion_ids))
        ]
        assert one.env_mask == [int(own_token) for own_token in inside]
        ours = drawn_with(own, one)
        off += [
            abs(float(a) - b)
            for a, b, own_token in zip(ours, one.logprobs, one.env_mask, strict=True)
            if own_token
        ]
    # Where a token stands at the very edge of the nucleus, the two may differ about the edge;
    # nowhere else.
    assert np.quantile(off, 0.99) < NEAR, sorted(off)[-10:]
    metrics = urllib.request.urlopen(server.url.removesuffix("/v1") + "/metrics").read().decode()
    (hits,) = re.findall(r"^vllm:prefix_cache_hits_total\{.*\} (\S+)$", metrics, re.MULTILINE)
    assert float(hits) > 0  # turns and rollouts share their prefixes


def prompt_logprobs(server: LlmServer, prompt: list[int]) -> list[float]:
    body = {
        "model": NAME,
        "prompt": prompt,
        "max_tokens": 1,
        "temperature": 0.0,
        "prompt_logprobs": 0,
    }
    (choice,) = asked(server, body)["choices"]
    found = zip(prompt[1:], choice["prompt_logprobs"][1:], strict=True)
    return [position[str(token)]["logprob"] for token, position in found]


def next_logprob(server: LlmServer, prompt: list[int]) -> tuple[int, float]:
    """The likeliest next token and its log-probability; the prompt's prefix may come from the
    cache."""
    body = {"model": NAME, "prompt": prompt, "max_tokens": 1, "temperature": 0.0, "logprobs": 0}
    (choice,) = asked(server, {**body, "return_token_ids": True})["choices"]
    return choice["token_ids"][0], choice["logprobs"]["token_logprobs"][0]


def asked(server: LlmServer, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{server.url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def own_logprobs(own: LocalEngine, prompt: list[int]) -> tuple[list[float], tuple[int, float]]:
    with torch.inference_mode():
        found = own.model(input_ids=torch.tensor([prompt])).logits[0].log_softmax(-1)
    chances = [float(found[place, token]) for place, token in enumerate(prompt[1:])]
    best = int(found[-1].argmax())
    return chances, (best, float(found[-1, best]))


def test_synchronising_changes_the_served_logits_to_the_trainers(
    server: LlmServer, own: LocalEngine, tmp_path: Path
) -> None:
    prompt = own.chat.tokens(
        "The invitation was sent to the wrong people, so please write to each of them again. " * 4
    )
    before = prompt_logprobs(server, prompt)
    cached = next_logprob(server, prompt)
    assert before == pytest.approx(own_logprobs(own, prompt)[0], abs=NEAR)
    learnt = LocalEngine(deepcopy(own.model), own.chat, own.limits)
    optimizer = torch.optim.SGD(learnt.model.parameters(), lr=1.0)
    learnt.model(input_ids=torch.tensor([prompt]), labels=torch.tensor([prompt])).loss.backward()
    optimizer.step()
    ours, following = own_logprobs(learnt, prompt)
    engine = through(server, own)
    engine.version = by_disk(learnt, engine, tmp_path / "weights")
    assert engine.version
    after = prompt_logprobs(server, prompt)
    assert after == pytest.approx(ours, abs=NEAR)
    assert np.mean(np.abs(np.subtract(after, before))) > 100 * NEAR
    now = next_logprob(server, prompt)  # nothing of the old weights is left in the prefix cache
    assert (
        now[0] == following[0] and now[1] == pytest.approx(following[1], abs=NEAR) and now != cached
    )
    by_disk(own, engine, tmp_path / "weights")
    assert prompt_logprobs(server, prompt) == pytest.approx(before, abs=NEAR)


def alternating(estimate: advantages.AdvantageEstimate) -> list[np.ndarray]:
    """Such a small policy earns nothing: pretend that every second rollout did."""
    return [
        np.full(seen.tokens, 1.0 if index % 2 else -1.0)
        for index, seen in enumerate(estimate.rollouts)
    ]


def test_grpo_trains_over_the_server(
    server: LlmServer, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_config(
        tmp_path / "config.toml",
        {
            "data.tasks": "desk-small",
            "data.train": 4,
            "data.held_out": 2,
            "policy.kind": "transformers",
            "policy.dialect": "compact",
            "policy.model": str(policy),
            "rollouts.rollouts_per_task": 2,
            "rollouts.max_reply_tokens": 24,
            "rollouts.max_context_tokens": 512,
            "training.batch_tasks": 2,
            "training.steps": 2,
            "training.learning_rate": 1e-3,
            "training.kl": 0.0,
            "training.advantage_hook": f"{__name__}:alternating",
            "operation.threads": 1,
            "operation.precision": "float32",
            "operation.micro_batch": 1,
        },
    )
    with file.open("a") as config_file:
        config_file.write(
            f'[[operation.rollout_servers]]\nmodel = "{NAME}"\nurls = ["{server.url}"]\n'
        )
    seen: list[tuple[list[Sample], dict[str, torch.Tensor]]] = []
    scored = trl_grpo.RunTrainer._generate_and_score_completions

    def watch(self: Any, inputs: Any) -> Any:
        output = scored(self, inputs)
        seen.append((self.samples, output))
        return output

    monkeypatch.setattr(trl_grpo.RunTrainer, "_generate_and_score_completions", watch)
    assert main.run([str(tmp_path / "run"), "--config", str(file)]) == 0
    assert [step for step, *_ in live_steps(tmp_path / "run")] == [1, 2]
    assert len(seen) == 2
    for samples, output in seen:  # in the second step the server has what the first one learnt
        for row, sample in enumerate(samples):
            answered = output["completion_mask"][row].bool()
            assert output["completion_ids"][row][answered].tolist() == sample.completion_ids
            assert output["tool_mask"][row][answered].tolist() == sample.env_mask
        weights = output["importance_sampling_ratio"][output["tool_mask"].bool()]
        assert (weights - 1).abs().max() < 10 * NEAR
    assert not list((tmp_path / "run").glob("served/*"))


class _Kills:
    """A goal whose first verdict ends the server: by then every episode is in flight."""

    def __init__(self, inner: Any, server: LlmServer, once: threading.Lock) -> None:
        self.inner = inner
        self.server = server
        self.once = once

    def verdict(self, instance: Any, need: Any) -> Any:
        if self.once.acquire(blocking=False):
            self.server.kill()
        return self.inner.verdict(instance, need)


@pytest.mark.slow
def test_a_server_that_dies_costs_nobody_a_reward_and_comes_back(
    server: LlmServer, policy: Path, own: LocalEngine, tmp_path: Path
) -> None:
    engine = through(server, own, retry_seconds=1.0, patience_seconds=1.0)
    engine.version = by_disk(own, engine, tmp_path / "weights")
    once = threading.Lock()
    deadly = [replace(job, goal=_Kills(job.goal, server, once)) for job in jobs(2)]
    cut = engine.rollouts(deadly, random_seed=2)
    lost = [one for one in cut if one.trace.end == "infrastructure"]
    assert len(lost) > len(cut) // 2
    assert {score(one.trace, "progress").reward for one in lost} == {None}
    assert not any(sum(one.env_mask) for one in lost)
    with LlmServer(
        tmp_path / "again.log", port=server.port, context=CONTEXT, policy=policy
    ) as again:
        few = jobs(1)[:2]
        unsaid = engine.rollouts(few, random_seed=2)  # it serves the weights it was started with
        assert {one.trace.end for one in unsaid} == {"infrastructure"}
        engine.version = by_disk(own, engine, tmp_path / "weights")
        whole = through(again, own)
        whole.version = engine.version
        assert "infrastructure" not in {one.trace.end for one in whole.rollouts(few, random_seed=2)}
