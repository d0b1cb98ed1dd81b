"""Mentions on a tweet posted without mentions: what BFCL's own checker makes of them, and who
refuses them here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bench.fixtures.official_checker import judged
from rods.analysis.profile import Profile
from rods.calls import Call
from rods.config import Gates
from rods.environments.base import reference
from rods.errors import UserError
from rods.gates import check
from rods.gates.similarity import SimilarityIndex
from rods.tasks import Task
from rods.worlds.bfcl import environment, fetch, task_format
from tests.environments import load

TWEETS = {"1": {"id": 1, "username": "ann", "content": "Hi", "tags": [], "mentions": []}}
STATE = {
    "classes": ["TwitterAPI"],
    "config": {
        "TwitterAPI": {
            "username": "ann",
            "password": "p",
            "authenticated": True,
            "tweets": TWEETS,
            "comments": {},
            "retweets": {},
            "following_list": [],
            "tweet_counter": 2,
        }
    },
    "long_context": False,
}
POST = Call("post_tweet", {"content": "Hello"})
POST_MENTIONS = Call("post_tweet", {"content": "Hello", "mentions": ["@bob"]})
SHOW = Call("get_tweet", {"tweet_id": 2})


def mention(tweet: int, *names: str) -> Call:
    return Call("mention", {"tweet_id": tweet, "mentioned_usernames": list(names)})


def task(*turns: Sequence[Call]) -> Task:
    fetch()
    bfcl = environment()
    return Task(
        environment=reference(bfcl),
        type="base",
        script=tuple(f"Do number {turn}, please." for turn in range(len(turns))),
        calls=tuple(tuple(turn) for turn in turns),
        tools=bfcl.tools_of(["TwitterAPI"]),
        state=STATE,
    )


def official(truth: Task, *policies: Task) -> list[bool]:
    """The official verdicts on the calls of `policies`, where those of `truth` are the ground
    truth."""
    entry = {
        "id": "multi_turn_base_1000",
        "initial_config": STATE["config"],
        "involved_classes": STATE["classes"],
    }

    def steps(one: Task) -> list[list[list[str]]]:
        return [[[str(call) for call in turn]] for turn in one.calls]

    return judged(
        [
            [entry, task_format.answer(truth, 0)["ground_truth"], steps(policy)]
            for policy in policies
        ]
    )


def refused(one: Task, **gates: Any) -> list[str]:
    others = ("leaks", "grounding", "requests", "missing", "repeats", "profile", "contamination")
    off = dict.fromkeys(others, False)
    found = check(load("bfcl"), one, Profile("base", ()), Gates(**off, **gates), SimilarityIndex())
    return [f"{each.gate}: {reason}" for each in found.rejections for reason in each.reasons]


LEAKING = task([POST, mention(2, "@bob")])


@pytest.mark.slow
def test_the_official_checker_refuses_the_ground_truth_itself_and_passes_wrong_mentions() -> None:
    assert official(LEAKING, LEAKING) == [False]
    later = task([POST], [mention(2, "@bob")])
    wrong = task([POST], [mention(2, "@eve")])
    assert official(later, later, wrong) == [True, True]
    fair = task([POST_MENTIONS], [mention(2, "@cid")])
    assert official(fair, fair, task([POST_MENTIONS], [mention(2, "@eve")])) == [True, False]


@pytest.mark.slow
def test_the_gate_refuses_just_those_whoever_planned_them() -> None:
    (found,) = refused(LEAKING)
    assert found.startswith(
        "replay: turn 0, call 1: mentions somebody on a tweet posted without mentions"
    )
    assert refused(task([POST], [mention(2, "@bob")]))
    assert refused(LEAKING, replay=False) == []
    for fair in (
        [POST_MENTIONS, mention(2, "@cid"), SHOW],
        [POST, mention(1, "@bob")],
        [Call("post_tweet", {"content": "Hello", "mentions": []}), mention(2, "@bob"), SHOW],
        [POST, SHOW],
    ):
        assert refused(task(fair)) == [] and official(task(fair), task(fair)) == [True]


def test_none_is_exported() -> None:
    with pytest.raises(UserError, match="posted without mentions"):
        task_format.entry(LEAKING, 1000)
    assert task_format.entry(replace(LEAKING, calls=((POST, mention(1, "@bob")),), id=""), 1000)
