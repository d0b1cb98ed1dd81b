"""The two binary verdicts of a whole episode, as the engine and its driver produce it."""

from __future__ import annotations

import pytest

from rods.dialects import load as load_dialect
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Reply
from rods.episode.goals import GroundTruth
from rods.worlds.bfcl.verdicts import official, strict_verdict


@pytest.fixture
def task(tasks):
    return next(
        task for task in tasks if task.type == "miss_func" and task.provenance["id"].endswith("_0")
    )


def verdicts(bfcl, task, turns, max_steps=20):
    """The official and the strict verdict on an episode in which the policy makes `turns[t]` in
    turn t and then answers."""
    dialect = load_dialect("hermes")
    script = [
        text
        for calls in turns
        for text in ([dialect.write(calls)] if calls else []) + [dialect.answer("Done.")]
    ]
    replies = iter(script)
    job = Job(task, bfcl, dialect, GroundTruth(bfcl, task), max_steps=max_steps)
    (trace,) = run_lockstep([job], lambda needs: [Reply(next(replies)) for _ in needs])
    return official(task, trace), strict_verdict(task, [turn.verdict for turn in trace.turns])


def test_the_ground_truth_passes_both(bfcl, task):
    assert verdicts(bfcl, task, task.calls) == (True, True)


def test_junk_where_no_call_is_right_passes_only_the_official_one(bfcl, task):
    turns = list(task.calls)
    idle = turns.index(())
    turns[idle] = (task.calls[0][0].__class__("pwd", {}),)
    assert verdicts(bfcl, task, turns) == (True, False)


def test_a_missing_call_fails_both(bfcl, task):
    turns = [calls[:-1] if turn == 0 else calls for turn, calls in enumerate(task.calls)]
    assert verdicts(bfcl, task, turns) == (False, False)


def test_an_episode_that_ended_early_fails_both(bfcl, task):
    assert verdicts(bfcl, task, task.calls, max_steps=1) == (False, False)
