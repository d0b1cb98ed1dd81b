"""Rollouts through a served policy: the tokens of the trainer's own engine, and failures that are nobody's fault."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rods.config import Endpoint
from rods.errors import InfrastructureError
from rods.rewards import score
from tests.trainer.nano_parts import engine, jobs
from tests.trainer.served_stub import Served, served
from trainer.rollouts import Engine
from trainer.served import ServedEngine


def through(state: Served, local: Engine, folder: Path, **settings: Any) -> ServedEngine:
    endpoint = Endpoint(model="nano", urls=(state.url,), **settings)
    return ServedEngine(local.chat, local.limits, endpoint, folder, local.model.save_pretrained)


def test_a_served_policy_gives_the_tokens_of_the_local_one(tmp_path: Path) -> None:
    local = engine()
    with served(deepcopy(local.model).eval()) as state:
        found = through(state, local, tmp_path).rollouts(jobs(), random_seed=1, greedy=True)
    wanted = local.rollouts(jobs(), random_seed=1, greedy=True)
    assert [(one.prompt_ids, one.completion_ids, one.env_mask, one.spans) for one in found] == [
        (one.prompt_ids, one.completion_ids, one.env_mask, one.spans) for one in wanted
    ]
    assert [one.trace for one in found] == [one.trace for one in wanted]
    assert any(len(one.spans) > 1 for one in found)


def test_every_reply_states_its_own_sampling(tmp_path: Path) -> None:
    local = engine(temperature=0.7, top_p=0.9)
    with served(deepcopy(local.model).eval()) as state:
        through(state, local, tmp_path).rollouts(jobs()[:2], random_seed=1, first=5)
        seeds = [asked["seed"] for asked in state.asked]
        assert len(set(seeds)) == len(seeds)
        asked = state.asked[0]
    assert (asked["temperature"], asked["top_p"], asked["top_k"], asked["repetition_penalty"]) == (0.7, 0.9, 0, 1.0)
    assert asked["return_token_ids"] is True and asked["stop_token_ids"] == sorted(local.chat.ends)


def test_synchronising_changes_what_is_served(tmp_path: Path) -> None:
    local = engine()
    with served(deepcopy(local.model).eval()) as state:
        through_server = through(state, local, tmp_path)
        before = through_server.rollouts(jobs()[:2], random_seed=1, greedy=True)
        head = local.model.get_output_embeddings().weight
        head.data.copy_(head.data.roll(7, 0))
        stale = through_server.rollouts(jobs()[:2], random_seed=1, greedy=True)
        through_server.synchronise()
        after = through_server.rollouts(jobs()[:2], random_seed=1, greedy=True)
    assert [one.completion_ids for one in stale] == [one.completion_ids for one in before]
    wanted = local.rollouts(jobs()[:2], random_seed=1, greedy=True)
    assert [one.completion_ids for one in after] == [one.completion_ids for one in wanted]
    assert [one.completion_ids for one in after] != [one.completion_ids for one in before]
    assert len(state.loaded) == 1 and not list(tmp_path.iterdir())  # the weights of a step do not pile up


def test_a_dead_server_is_never_the_policys_failure(tmp_path: Path) -> None:
    local = engine()
    with served(local.model) as state:
        through_server = through(state, local, tmp_path, retry_seconds=0.0, patience_seconds=0.5)
        state.fail = True
        found = through_server.rollouts(jobs()[:2], random_seed=1)
        with pytest.raises(InfrastructureError, match="VLLM_SERVER_DEV_MODE"):
            through_server.synchronise()
    assert [score(one.trace, "progress").reward for one in found] == [None, None]
    assert {one.trace.end for one in found} == {"infrastructure"}
