"""Rollouts through a served policy: the tokens of the trainer's own engine, and failures that are
nobody's fault."""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rods.config import Endpoint
from rods.episode.drivers import Job
from rods.episode.goals import SharedGroundTruth
from rods.episode.rewards import score
from rods.episode.watchdog import Lanes
from rods.errors import InfrastructureError
from rods.trainer.engines import served as served_engine
from rods.trainer.engines.choose import by_disk
from rods.trainer.engines.local import LocalEngine
from rods.trainer.engines.served import ServedEngine
from tests.trainer.nano_parts import engine, jobs
from tests.trainer.served_stub import Served, served


def through(state: Served, local: LocalEngine, **settings: Any) -> ServedEngine:
    return ServedEngine(
        local.chat, local.limits, Endpoint(model="nano", urls=(state.url,), **settings)
    )


@pytest.mark.numeric
def test_a_served_policy_gives_the_tokens_of_the_local_one() -> None:
    local = engine()
    with served(deepcopy(local.model).eval()) as state:
        found = through(state, local).rollouts(jobs(), random_seed=1, greedy=True)
    wanted = local.rollouts(jobs(), random_seed=1, greedy=True)
    assert found == wanted
    assert any(len(one.spans) > 1 for one in found)


@pytest.mark.numeric
def test_episodes_that_wait_for_somebody_are_the_same_locally_and_served() -> None:
    local = engine()
    waiting = [replace(job, waits=True) for job in jobs()]
    wanted = local.rollouts(jobs(), random_seed=1, greedy=True)
    assert local.rollouts(waiting, random_seed=1, greedy=True) == wanted
    with served(deepcopy(local.model).eval()) as state:
        assert through(state, local).rollouts(waiting, random_seed=1, greedy=True) == wanted


def test_every_reply_states_its_own_sampling_and_brings_its_log_probabilities() -> None:
    local = engine(temperature=0.7, top_p=0.9)
    with served(deepcopy(local.model).eval()) as state:
        found = through(state, local).rollouts(jobs()[:2], random_seed=1, first=5)
        seeds = [asked["seed"] for asked in state.asked]
        assert len(set(seeds)) == len(seeds)
        asked = state.asked[0]
    assert (asked["temperature"], asked["top_p"], asked["top_k"], asked["repetition_penalty"]) == (
        0.7,
        0.9,
        0,
        1.0,
    )
    assert asked["return_token_ids"] is True and asked["stop_token_ids"] == sorted(local.chat.ends)
    for one in found:
        assert all(
            (chance < 0) == bool(own)
            for chance, own in zip(one.logprobs, one.env_mask, strict=True)
        )


@pytest.mark.numeric
@pytest.mark.parametrize(
    "limits", [{"max_context_tokens": 16}, {"max_context_tokens": 64, "max_reply_tokens": 40}]
)
def test_a_full_context_ends_episodes_as_it_does_locally(limits: dict[str, int]) -> None:
    local = engine(**limits)
    with served(deepcopy(local.model).eval()) as state:
        found = through(state, local).rollouts(jobs(), random_seed=1, greedy=True)
        asked = len(state.asked)
    assert found == local.rollouts(jobs(), random_seed=1, greedy=True)
    assert {one.trace.end for one in found} == {"context"}
    assert asked == sum(len(one.spans) for one in found)  # a prompt that does not fit is not sent


@pytest.mark.numeric
def test_synchronising_changes_what_is_served(tmp_path: Path) -> None:
    local = engine()
    with served(deepcopy(local.model).eval()) as state:
        through_server = through(state, local)
        before = through_server.rollouts(jobs()[:2], random_seed=1, greedy=True)
        head = local.model.get_output_embeddings().weight
        head.data.copy_(head.data.roll(7, 0))
        stale = through_server.rollouts(jobs()[:2], random_seed=1, greedy=True)
        through_server.version = by_disk(local, through_server, tmp_path / "weights")
        after = through_server.rollouts(jobs()[:2], random_seed=1, greedy=True)
    assert stale == before
    assert after == local.rollouts(jobs()[:2], random_seed=1, greedy=True) != before
    # the weights of a step do not pile up
    assert len(state.loaded) == 1 and not list(tmp_path.iterdir())


def test_a_policy_that_computes_in_bfloat16_sends_half_the_bytes(tmp_path: Path) -> None:
    local = engine()
    plain = {name: value.clone() for name, value in local.model.state_dict().items()}
    with served(deepcopy(local.model).eval()) as state:
        for bf16 in (False, True):
            local.bf16 = bf16
            by_disk(local, through(state, local), tmp_path / "weights")
            for name, value in state.model.state_dict().items():
                assert torch.equal(value, plain[name].bfloat16().float() if bf16 else plain[name])
    assert state.sizes[1] < 0.55 * state.sizes[0]
    for name, value in local.model.state_dict().items():
        assert torch.equal(value, plain[name])  # the policy's own stay as they are


def test_weights_count_as_loaded_once_no_prefix_of_older_ones_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_engine, "WAIT_SECONDS", 0.0)
    local = engine()
    with served(deepcopy(local.model).eval()) as state:
        state.busy = 2
        assert by_disk(local, through(state, local), tmp_path / "weights") == state.mark
        assert len(state.loaded) == 3
        state.busy = 2
        with pytest.raises(InfrastructureError, match="prefixes of older weights"):
            by_disk(local, through(state, local, retry_seconds=0.0), tmp_path / "weights")


def test_a_dead_server_is_never_the_policys_failure(tmp_path: Path) -> None:
    local = engine()
    with served(local.model) as state:
        through_server = through(state, local, retry_seconds=0.0, patience_seconds=0.5)
        state.fail = True
        found = through_server.rollouts(jobs()[:2], random_seed=1)
        with pytest.raises(InfrastructureError, match="answered 500"):
            by_disk(local, through_server, tmp_path / "weights")
    assert [score(one.trace, "progress").reward for one in found] == [None, None]
    assert {one.trace.end for one in found} == {"infrastructure"}
    with pytest.raises(InfrastructureError, match="collective_rpc"):  # nobody is there any more
        by_disk(local, through_server, tmp_path / "weights")


@pytest.mark.parametrize(
    ("reason", "name"), [("abort", "aborted"), ("content_filter", "filtered"), (None, "other")]
)
def test_half_a_reply_that_no_policy_ended_is_nobodys_and_keeps_its_name(
    reason: Any, name: str
) -> None:
    local = engine()
    with served(local.model) as state:
        state.ends = [reason]
        (found,) = through(state, local).rollouts(jobs()[:1], random_seed=1)
    assert found.trace.end == "infrastructure" and score(found.trace, "progress").reward is None
    assert found.trace.turns[-1].steps[-1].text == f"no completion: {name}"
    assert set(found.env_mask) <= {0}


@pytest.mark.numeric
def test_a_server_that_moves_is_found_by_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not have started yet, and come back elsewhere."""
    monkeypatch.setattr(served_engine, "WAIT_SECONDS", 0.05)
    local = engine()
    file = tmp_path / "policy.url"
    moving = ServedEngine(
        local.chat, local.limits, Endpoint(model="nano", url_file=str(file), retry_seconds=20.0)
    )
    for _ in range(2):
        with served(deepcopy(local.model).eval()) as state:
            late = threading.Timer(0.3, file.write_text, (f"# of the job\n{state.url}\n",))
            late.start()
            moving.version = by_disk(local, moving, tmp_path / "weights")
            late.join()
            found = moving.rollouts(jobs()[:2], random_seed=1, greedy=True)
        assert found == local.rollouts(jobs()[:2], random_seed=1, greedy=True)
        assert len(state.loaded) == 1
    file.write_text("")
    nowhere = ServedEngine(
        local.chat, local.limits, Endpoint(model="nano", url_file=str(file), retry_seconds=0.0)
    )
    with pytest.raises(InfrastructureError, match="names no address"):
        by_disk(local, nowhere, tmp_path / "weights")


def test_what_a_restarted_server_says_is_not_taken_for_the_policys(tmp_path: Path) -> None:
    local = engine()
    with served(deepcopy(local.model).eval()) as state:
        through_server = through(state, local)
        through_server.version = by_disk(local, through_server, tmp_path / "weights")
        # in the middle of the batch: each of its episodes asks at least once
        state.restart(after=3)
        cut = through_server.rollouts(jobs()[:4], random_seed=1)
        through_server.version = by_disk(local, through_server, tmp_path / "weights")
        whole = through_server.rollouts(jobs()[:4], random_seed=1)
    assert {one.trace.end for one in cut} == {"infrastructure"} != {one.trace.end for one in whole}
    assert all(set(one.env_mask) <= {0} for one in cut)  # nothing of it is trained on
    assert all(1 in one.env_mask for one in whole)


class _Held:
    """An environment that makes no world before it is let go."""

    def __init__(self, inner: Any, go: threading.Event) -> None:
        self.inner = inner
        self.go = go
        self.features = inner.features

    def tools(self) -> Any:
        return self.inner.tools()

    def reset(self, state: Any) -> Any:
        assert self.go.wait(60), "the other episodes stood still"
        return self.inner.reset(state)


class _Judged:
    """A goal that says when a turn has been judged."""

    def __init__(self, inner: Any, go: threading.Event) -> None:
        self.inner = inner
        self.go = go

    def verdict(self, instance: Any, need: Any) -> Any:
        self.go.set()
        return self.inner.verdict(instance, need)


def finishing(local: LocalEngine) -> Job:
    """One whose turns the policy gets through: which one that is hangs on its weights."""
    return next(
        job
        for job in jobs()
        if local.rollouts([job], random_seed=1, greedy=True)[0].trace.end == "finished"
    )


@pytest.mark.slow
def test_slow_environments_do_not_hold_up_the_other_episodes() -> None:
    local = engine()
    go = threading.Event()
    quick = finishing(local)
    slow = replace(quick, environment=_Held(quick.environment, go))  # type: ignore[arg-type]
    judged = replace(quick, goal=_Judged(quick.goal, go))
    with served(deepcopy(local.model).eval()) as state:
        found = through(state, local).rollouts([slow] * 20 + [judged], random_seed=1, greedy=True)
    assert len(found[0].spans) > 1 and all(one == found[0] for one in found)


@pytest.mark.slow
def test_a_call_that_never_comes_back_costs_its_rollout_and_not_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local = engine()
    never = threading.Event()
    lanes = []

    def impatient(count: int, name: str) -> Lanes:
        lanes.append(Lanes(count, name, patience=0.5))
        return lanes[-1]

    monkeypatch.setattr("rods.trainer.engines.served.Lanes", impatient)
    sound = finishing(local)
    world = _Held(sound.environment, never)
    hung = replace(sound, environment=world)  # type: ignore[arg-type]
    unjudged = replace(sound, goal=SharedGroundTruth(world, sound.task))  # type: ignore[arg-type]
    try:
        with served(deepcopy(local.model).eval()) as state:
            found = through(state, local).rollouts(
                [sound, hung, *[unjudged] * 10], random_seed=1, greedy=True
            )
    finally:
        never.set()
    assert found[0] == local.rollouts([sound], random_seed=1, greedy=True)[0]
    assert {one.trace.end for one in found[1:]} == {"infrastructure"}
    assert lanes[0].lost == 2  # the ground truth once, for all of its rollouts


def test_a_server_that_is_gone_is_waited_for_as_long_as_it_says_and_no_longer() -> None:
    local = engine()
    with served(local.model) as state:
        through_server = through(state, local, retry_seconds=1.0)
    # with no patience of its own it would wait for ever
    found = through_server.rollouts(jobs()[:8], random_seed=1)
    assert {one.trace.end for one in found} == {"infrastructure"}
