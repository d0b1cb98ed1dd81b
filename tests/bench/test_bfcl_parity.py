"""Parity with the official checker: all 800 ground truths, mutated rollouts, and that a difference
would be seen."""

from __future__ import annotations

import pytest

from bench.bfcl_parity import replay as module, speed
from bench.bfcl_parity.mutations import MutatedRollout, Mutations
from bench.bfcl_parity.replay import replay
from rods.calls import Call
from rods.worlds.bfcl.verdicts import official_verdict
from rods.worlds.bfcl.world import BfclWorld


@pytest.mark.slow
def test_every_turn_of_ground_truths_and_mutations_is_judged_as_officially(wheel_file):
    report = replay(500, random_seed=11, rounds=0)
    assert report.ok, report.lines()
    truths = report.ground_truths
    mutated = report.mutations
    assert (truths.rollouts, truths.equal, truths.calls, truths.failing) == (800, 800, 4625, 0)
    assert (mutated.rollouts, mutated.equal) == (500, 500)
    assert mutated.failing >= 0.3 * 500
    assert mutated.strict_failing > mutated.failing
    assert len(mutated.kinds) == 10 and min(mutated.kinds.values()) > 40
    assert report.as_json()["equal"] is True and report.as_json()["version"] == "2026.3.23"


@pytest.fixture
def few_tasks(tasks, monkeypatch):
    monkeypatch.setattr(module, "tasks", lambda cache: tasks[::20])


@pytest.mark.sweep
def test_speeds_are_told_beside_the_official_ones(few_tasks, monkeypatch):
    """One of them: bench.bfcl_replay measures all."""
    name = "calls, one rollout a task"
    monkeypatch.setattr(speed, "_COMPARED", {name: speed._COMPARED[name]})
    report = replay(0, rounds=1)
    assert report.speeds is not None and report.speeds.keys() == {name}
    assert report.speeds[name]["ratio"] > 1.5 and any(
        line.startswith(name) for line in report.lines()
    )


@pytest.mark.slow
def test_a_wrong_verdict_is_found_and_named(few_tasks, monkeypatch):
    monkeypatch.setattr(module, "official_verdict", lambda task, verdicts: True)
    report = replay(40, rounds=0)
    assert not report.ok and report.ground_truths.equal == 40
    assert {mismatch.what for mismatch in report.mutations.mismatches[:5]} == {"official"}
    assert any("DIFFERS" in line for line in report.lines())


@pytest.mark.slow
def test_a_wrong_result_is_found_with_both_texts(few_tasks, monkeypatch):
    call = BfclWorld.call
    monkeypatch.setattr(
        BfclWorld, "call", lambda self, asked: call(self, asked)._replace(text="other")
    )
    report = replay(0, rounds=0)
    assert report.ground_truths.equal == 0
    first = report.ground_truths.mismatches[0]
    assert first.what == "turn 0 expected" and first.ours == "other" != first.official
    assert report.ground_truths.mismatches[-1].what == "not looked into"


@pytest.mark.slow
def test_a_difference_that_is_the_official_worlds_touching_is_told_apart(tasks, wheel_file):
    """A mention is appended to the one default list of all tweets, the ground truth's included: the
    official check then finds both worlds equal."""
    task = next(task for task in tasks if task.provenance["id"] == "multi_turn_miss_param_8")
    turns = [[list(calls)] if calls else [] for calls in task.calls]
    turns[-1].append([Call("mention", {"tweet_id": 1, "mentioned_usernames": ["@technewsworld"]})])
    judge = module._Comparison(wheel_file)
    found = judge.compare([MutatedRollout(task, ("mention",), turns)])
    judge.oracle.close()
    assert (found.leaks, found.mismatches) == (1, [])


def test_mutations_depend_on_seed_and_number_alone(tasks):
    few = list(Mutations(tasks, 3).take(5))
    many = list(Mutations(tasks, 3).take(9))
    assert many[:5] == few
    assert list(Mutations(tasks, 4).take(5)) != few


def test_the_official_verdict_needs_every_turn(tasks):
    with pytest.raises(AssertionError):
        assert official_verdict(tasks[0], [])
