"""The fold of the observations: attempts, live steps, digests; the same whenever it looked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from rods.buffers.folds.attempts import AttemptHistory, known_starts
from rods.buffers.folds.observations import Observations, digest
from rods.buffers.log.record_bytes import line, record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from tests.buffers.histories import reopened


def started(*from_steps: int) -> AttemptHistory:
    found = AttemptHistory()
    for attempt, from_step in enumerate(from_steps, start=1):
        assert found.add({"attempt": attempt, "from_step": from_step})
    return found


def test_a_start_drops_what_earlier_attempts_did_beyond_its_step() -> None:
    found = started(0, 5, 3)
    assert (found.attempt, found.limit(1), found.limit(2), found.limit(3)) == (
        3,
        3,
        3,
        float("inf"),
    )
    assert (
        found.keeps(1, 3)
        and not found.keeps(1, 4)
        and not found.keeps(2, 6)
        and found.keeps(3, 900)
    )
    assert not found.add({"attempt": 2, "from_step": 0})  # known
    assert AttemptHistory.from_json(found.as_json()).as_json() == found.as_json()


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 6), st.integers(1, 9))
def test_a_step_is_live_if_no_later_start_went_back_before_it(
    from_steps: list[int], attempt: int, step: int
) -> None:
    later = from_steps[attempt:]
    assert started(*from_steps).keeps(attempt, step) is all(step <= one for one in later)


def test_the_starts_are_found_without_folding(past: Run) -> None:
    whole = Observations(past, strict=True)
    whole.catch_up()
    assert known_starts(past.path / OBSERVATIONS).as_json() == whole.starts.as_json()
    assert known_starts(past.path / "nothing.jsonl").attempt == 0
    assert known_starts(past.path / OBSERVATIONS, latest=1).attempt == 1  # looked no further


def test_an_earlier_attempt_that_writes_behind_a_later_start_changes_nothing(
    past: Run, tmp_path: Path
) -> None:
    run = reopened(past, tmp_path / "run")
    whole = Observations(past, strict=True)
    whole.catch_up()
    late = line(whole.tail.seq + 1, record("update", attempt=1, step=1))
    content = (past.path / OBSERVATIONS).read_bytes()
    (run.path / OBSERVATIONS).write_bytes(content + late)
    follower = Observations(run, strict=True)
    follower.catch_up()
    assert follower.rewound and follower.snapshot() == whole.snapshot()


def test_only_what_the_live_attempt_made_is_live(past: Run) -> None:
    whole = Observations(past, strict=True)
    steps = list(whole.steps())
    assert [step.step for step in steps] == list(range(1, whole.last_step + 1))
    makers = {step.step: step.attempt for step in steps}
    assert set(makers.values()) == {1, 2}
    for step, maker in makers.items():
        assert [whole.live(attempt, step) for attempt in (1, 2)] == [maker == 1, maker == 2]
        assert whole.digest(step) == next(one.record["digest"] for one in steps if one.step == step)
    assert whole.live(0, 0) and whole.live(2, 0)
    assert (
        not whole.live(2, whole.last_step + 1)
        and whole.digest(0) is whole.digest(whole.last_step + 1) is None
    )


def state_of(path: Run, cuts: Sequence[int], data: bytes) -> Any:
    """What a follower knows who looked whenever the log had grown to one of the sizes `cuts`, and
    in the end."""
    log = path.path / OBSERVATIONS
    log.write_bytes(b"")
    follower = Observations(path)
    for size in (*sorted(cuts), len(data)):
        log.write_bytes(data[:size])
        follower.catch_up()
    return follower.snapshot()


@settings(
    max_examples=25, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_it_comes_to_the_same_however_often_it_looked(
    past: Run, tmp_path_factory: Any, data: st.DataObject
) -> None:
    content = (past.path / OBSERVATIONS).read_bytes()
    run = reopened(past, tmp_path_factory.mktemp("again") / "run")
    size = data.draw(st.integers(0, len(content)), label="size")
    cuts = data.draw(st.lists(st.integers(0, size), max_size=6), label="looks")
    assert state_of(run, cuts, content[:size]) == state_of(run, (), content[:size])


def test_a_rewind_is_told_and_steps_after_it_are_yielded_once(past: Run, tmp_path: Path) -> None:
    content = (past.path / OBSERVATIONS).read_bytes()
    run = reopened(past, tmp_path / "run")
    second = next(
        record["seq"] for record in read(past.path / OBSERVATIONS) if record.get("attempt") == 2
    )
    lines = content.splitlines(keepends=True)
    log = run.path / OBSERVATIONS
    log.write_bytes(b"".join(lines[: second - 1]))
    follower = Observations(run)
    before = list(follower.steps())
    log.write_bytes(content)
    after = list(follower.steps())
    assert (
        follower.rewound
        and {step.attempt for step in before} == {1}
        and {step.attempt for step in after} == {2}
    )
    assert after[0].step <= before[-1].step and after[-1].step == follower.last_step
    assert list(follower.steps()) == [] and not follower.rewound


@pytest.mark.parametrize("change", ["epoch", "policy_step", "groups"])
def test_a_digest_tells_reports_apart(change: str) -> None:
    said: dict[str, Any] = {"epoch": 1, "policy_step": 4, "groups": [{"task": "t", "rollouts": []}]}
    other = {**said, change: 5 if change != "groups" else [{"task": "u", "rollouts": []}]}
    assert digest(**said) == digest(**said) != digest(**other)
    # whatever the order of keys
    assert digest(1, 4, [{"rollouts": [], "task": "t"}]) == digest(**said)
