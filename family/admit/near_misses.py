"""What earns a turn of a task, though it is not what the turn asks for: a call that does nothing,
or all of the ground truth's calls but one.

Only calls are left out, or made of names that nothing bears, that the world's own rule judges:
those that change the state, and those whose results are asked for (`Features.reads_judged`),
whatever the task says of itself. Where that rule earns the turn as well, the call was undone, or
what it shows was shown: that is no near miss, unless a call with other names changed the world as
well. Worlds that cannot be copied and compared, and those whose calls wait for another process, are
not asked."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rods.analysis.impostors import impostor
from rods.calls import Call
from rods.environments.base import Environment, Instance, Result, Results, opened
from rods.episode.asked import Position, asked_places, judged
from rods.episode.engine import NeedVerdict
from rods.episode.goals import GroundTruth
from rods.faults import Reason
from rods.tasks import Task

Made = list[tuple[Call, Result]]
NOTHING: Made = [(Call("nothing", {}), Result("", error="unknown_tool"))]  # a call that does it


def earned_otherwise(
    environment: Environment, task: Task, results: Results
) -> Iterator[tuple[str, Reason]]:
    """The turns of a task, whose ground truth gave `results`, that a call of no tool earns
    (`idle`), and the calls without which, or with other names in which, their turn is earned all
    the same (`near_miss`)."""
    if not task.goal_calls:
        yield "idle", Reason("no call is expected in any turn: whoever does nothing earns it all")
    features = environment.features
    if features.waits or not (features.fork and features.state_visible and features.deterministic):
        return
    own = GroundTruth(environment, task, judged(environment, task))
    # what the task would be judged by if it said nothing of that
    usual = own
    if task.reads is not None:
        usual = GroundTruth(environment, replace(task, reads=None, id=""), features.reads_judged)
    worlds = _worlds(environment, task)
    changed = {
        (turn, index)
        for turn, states in enumerate(worlds)
        for index, (was, then) in enumerate(pairwise(states))
        if not then.same_state(was)
    }
    due = _due(environment, task, results, changed)
    tools = environment.tools()
    before: Made = []
    for turn, calls in enumerate(task.calls):
        made = list(zip(calls, results[turn], strict=True))

        def earns(
            truth: GroundTruth, world: Instance, pairs: Made, turn: int = turn, old: Made = before
        ) -> bool:
            every = [*old, *pairs]
            texts = [result.text for _, result in every]
            return truth.verdict(
                world, NeedVerdict(turn, texts, len(pairs), every, len(old))
            ).resolved

        if calls and earns(own, worlds[turn][0], NOTHING):
            # what was shown before, in other words than `needless` knows, is no fault for certain
            doubt = earns(usual, worlds[turn][0], NOTHING)
            yield "idle", Reason("a call that does nothing earns it", turn, doubt=doubt)
            due -= {(turn, index) for index in range(len(calls))}
        for index, call in enumerate(calls):
            if (turn, index) not in due:
                continue
            others: list[tuple[str, Sequence[Call]]] = []
            if len(calls) > 1:
                others.append((f"the turn is earned without {call.name}", ()))
            if other := impostor(tools[call.name], call):
                others.append((f"the turn is earned by {other.call} in its place", (other.call,)))
            for what, instead in others:
                world = worlds[turn][index].fork()
                after = [(one, world.call(one)) for one in (*instead, *calls[index + 1 :])]
                pairs = [*made[:index], *after]
                # what the world's own rule earns as well was undone, or shown otherwise
                works = bool(instead) and after[0][1].error is None and (turn, index) in changed
                if earns(own, world, pairs) and (works or not earns(usual, world, pairs)):
                    yield "near_miss", Reason(what, turn, index)
        before = [*before, *made]


def _worlds(environment: Environment, task: Task) -> list[list[Instance]]:
    """The worlds before each call of the ground truth and behind the last, a list a turn."""
    world = opened(environment, task)
    worlds = []
    for calls in task.calls:
        worlds.append([world.fork()])
        for call in calls:
            world.call(call)
            worlds[-1].append(world.fork())
    return worlds


def _due(
    environment: Environment, task: Task, results: Results, changed: set[Position]
) -> set[Position]:
    """The calls that the world's own rule judges."""
    rule = environment.features.reads_judged
    if rule == "state":
        return {*changed}
    if rule == "all":
        return {(turn, index) for turn, seen in enumerate(results) for index in range(len(seen))}
    plain = replace(task, reads=None, id="")
    return {*changed, *asked_places(environment, plain, results, changed)}
