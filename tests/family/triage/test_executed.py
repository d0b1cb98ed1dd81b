"""What an episode shows that took another value than the ground truth's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rods import dialects
from rods.calls import Call
from rods.environments.loading import Environments
from rods.episode.drivers import ground_truth
from rods.episode.engine import MAX_STEPS, Trace
from rods.family.triage.executed import Executed, execute, otherwise
from rods.players import Players
from rods.tasks import Task
from tests.environments import desk_tasks

PLAYERS = Players(Environments())
Calls = Sequence[Sequence[Call]]


def vague() -> tuple[Task, Executed]:
    """A task of several turns whose words fit two values, and what its execution shows."""
    for task in desk_tasks(5, 100, 0):
        if not task.later_tools and len(task.calls) > 2 and all(task.calls):
            executed = execute(PLAYERS, task)
            if any((one.turn or 0) < len(task.calls) - 1 for one in executed.ambiguous[:1]):
                return task, executed
    raise AssertionError("none is vague")


def played(task: Task, calls: Calls) -> Trace:
    """The episode of a policy that makes `calls`."""
    job = PLAYERS.job(task, dialects.load("hermes"), max_steps=MAX_STEPS)
    made = replace(task, id="", calls=tuple(map(tuple, calls)))
    episode = ground_truth(replace(job, task=made))
    try:
        while True:
            next(episode)
    except StopIteration as stop:
        trace: Trace = stop.value
        return trace


def taken(task: Task, executed: Executed, value: str = "") -> list[list[Call]]:
    """The calls of the ground truth with the other value, or `value`, where two fit the words."""
    reason = executed.ambiguous[0]
    assert reason.turn is not None and reason.call is not None and reason.pair
    own, other = reason.pair
    turns = [list(calls) for calls in task.calls]
    call = turns[reason.turn][reason.call]
    changed = {
        name: value or other if held == own else held for name, held in call.arguments.items()
    }
    turns[reason.turn][reason.call] = Call(call.name, changed)
    return turns


def test_whoever_solves_all_but_for_a_value_that_fits_as_well_shows_that_it_does() -> None:
    task, executed = vague()
    trace = played(task, taken(task, executed))
    assert not trace.binary and otherwise(PLAYERS, task, executed, trace)


def test_what_the_values_are_does_not_hang_on_how_the_reason_puts_it() -> None:
    task, executed = vague()
    trace = played(task, taken(task, executed))
    put = tuple(replace(reason, text="two fit") for reason in executed.ambiguous)
    assert otherwise(PLAYERS, task, replace(executed, ambiguous=put), trace)
    none = tuple(replace(reason, pair=()) for reason in executed.ambiguous)
    assert not otherwise(PLAYERS, task, replace(executed, ambiguous=none), trace)


def test_whoever_takes_it_and_fails_elsewhere_shows_nothing() -> None:
    task, executed = vague()
    lost = [*taken(task, executed)[:-1], []]
    assert not otherwise(PLAYERS, task, executed, played(task, lost))


def test_neither_the_ground_truth_nor_a_third_value_is_another_outcome() -> None:
    task, executed = vague()
    assert not otherwise(PLAYERS, task, executed, played(task, task.calls))
    third = played(task, taken(task, executed, "zz"))
    assert not third.binary and not otherwise(PLAYERS, task, executed, third)
