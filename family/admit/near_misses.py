"""What earns a turn of a task, though it is not what the turn asks for: a call that does nothing,
or the ground truth without one of its calls, or with names in it that nothing bears.

It is a fault where the world's own rule of what is judged (`Features.reads_judged`) would not earn
the turn, and the task's own word does. Where that rule earns it as well, a call was undone, or what
it shows had been shown: no fault, unless a call with other names changes the world as the right one
does. Worlds that cannot be copied and compared, and those whose calls wait for another process, are
not asked."""

from collections.abc import Iterator
from dataclasses import replace

from rods.analysis.impostors import impostor
from rods.calls import Call
from rods.environments.base import Environment, Instance, Result, Results, opened
from rods.episode.asked import judged
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
    if features.waits or not (features.fork and features.state_visible):
        return
    usual = own = GroundTruth(environment, task, judged(environment, task))
    if task.reads is not None:
        usual = GroundTruth(environment, replace(task, reads=None, id=""), features.reads_judged)
    world = opened(environment, task)
    before: Made = []
    for turn, calls in enumerate(task.calls):

        def earns(
            truth: GroundTruth, world: Instance, made: Made, turn: int = turn, old: Made = before
        ) -> bool:
            pairs = [*old, *made]
            texts = [result.text for _, result in pairs]
            need = NeedVerdict(turn, texts, len(made), pairs, len(old))
            return truth.verdict(world, need).resolved

        made = list(zip(calls, results[turn], strict=True))
        idle = bool(calls) and earns(own, world, NOTHING)
        if idle:
            # what was shown before, in other words than `needless` knows, is no fault for certain
            doubt = earns(usual, world, NOTHING)
            yield "idle", Reason("a call that does nothing earns it", turn, doubt=doubt)
        for index, call in enumerate(calls):
            other = impostor(environment.tools()[call.name], call)
            for instead in ([], [other.call] if other else []) if not idle else ():
                tried = world.fork()
                after = [(one, tried.call(one)) for one in (*instead, *calls[index + 1 :])]
                pairs = [*made[:index], *after]
                if earns(own, tried, pairs):
                    alike = instead and _same_change(world, call, instead[0])
                    if alike or not earns(usual, tried, pairs):
                        how = f"by {instead[0]} in its place" if instead else f"without {call.name}"
                        yield "near_miss", Reason(f"the turn is earned {how}", turn, index)
            world.call(call)
        before = [*before, *made]


def _same_change(world: Instance, call: Call, other: Call) -> bool:
    """Whether both calls change a world, and to the same."""
    after = world.fork()
    after.call(call)
    instead = world.fork()
    instead.call(other)
    return after.same_state(instead) and not after.same_state(world)
