"""A deadline is longer than those of what happens inside it, so that the innermost one reports what
went wrong."""

from __future__ import annotations

from rods import deadlines
from rods.config import Operation, Sandbox
from rods.deadlines import (
    ALL_CALLS,
    ALL_CALLS_WAITED,
    ARRIVAL,
    BEATS_SEEN,
    HANGS,
    MOST_HANGING,
    OWNER_LOOK,
    RUNAWAY_CALL,
    SERVER_ANSWER,
    SILENCE,
    SLOW_CALL,
    STOPPED,
    STUCK,
    THREADS_END,
    TOGETHER,
    TRACKERS_END,
    WEIGHTS_LOADED,
    WORKER_CALL,
    WORKER_STALLED,
    WORKER_START,
    WORLD_CHECKED,
    WORLD_REMADE,
)


def test_a_call_ends_before_what_waits_for_it() -> None:
    assert WORKER_CALL < SLOW_CALL < RUNAWAY_CALL
    assert SLOW_CALL < ALL_CALLS < ALL_CALLS_WAITED < WORLD_CHECKED
    assert Sandbox().seconds == SLOW_CALL < WORLD_REMADE
    assert WORKER_CALL < WORKER_STALLED < HANGS
    assert WORKER_START + WORLD_REMADE < HANGS


def test_a_call_given_up_counts_before_its_process_is_called_stuck() -> None:
    assert OWNER_LOOK < BEATS_SEEN < SILENCE < STUCK
    assert HANGS <= STUCK


def test_who_waits_for_another_process_outlasts_what_that_one_waits_for() -> None:
    assert SERVER_ANSWER < WEIGHTS_LOADED
    alone = WEIGHTS_LOADED + ARRIVAL + Operation().deadline_seconds + MOST_HANGING * HANGS
    assert alone < TOGETHER
    assert max(THREADS_END, TRACKERS_END) < STOPPED


def test_each_is_a_number_of_seconds() -> None:
    values = {name: value for name, value in vars(deadlines).items() if name.isupper()}
    assert all(
        isinstance(value, float) and value > 0
        for name, value in values.items()
        if name != "MOST_HANGING"
    )
