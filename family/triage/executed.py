"""What is wrong with a task whatever a policy does, found by executing its ground truth: whether it
runs and earns what the task is judged by, and which of its values nobody says and no tool shows.

`unsaid` has all that the gate of grounding is sure not to find, `certain` only what no reader comes
to by himself."""

from collections.abc import Sequence
from dataclasses import replace

from rods import dialects
from rods.calls import Call
from rods.canonical import Texts, frozen
from rods.environments.base import Results
from rods.episode.drivers import ground_truth
from rods.episode.engine import MAX_STEPS, Trace
from rods.errors import InfrastructureError
from rods.faults import Reason
from rods.gates.ground_truth import replayed, tools
from rods.gates.unknowable import unknowable
from rods.gates.values import grounding, referents
from rods.players import Players
from rods.tasks import Task


@frozen
class Executed:
    """What the execution of a task's ground truth shows. `results` are there where all of it ran.
    `broken`: why it does not hold; `lost`: that world or players broke, so that nothing is known;
    `unsaid`: the values that neither words nor tools give, of which `certain` follow from nothing;
    `ambiguous`: those beside which another one fits the words as well."""

    results: Results | None = None
    broken: Texts = ()
    lost: str = ""
    unsaid: Texts = ()
    certain: Texts = ()
    ambiguous: tuple[Reason, ...] = ()


def execute(players: Players, task: Task) -> Executed:
    """Executes the ground truth of `task`, alone and as an episode. Raises UserError where nobody
    plays it."""
    environment = players.environments.load(task.environment.name)
    try:
        results, reasons = replayed(environment, task)
        if reasons := [*tools(environment, task), *reasons]:
            return Executed(broken=tuple(map(str, reasons)))
        assert results is not None
        if short := _short(players, task, task):
            return Executed(results, (short,))
    except InfrastructureError as error:
        return Executed(lost=str(error))
    unsaid = grounding(environment, task, results)
    certain = unknowable(environment, task, results, unsaid)
    ambiguous = (reason for reason in referents(environment, task, results) if not reason.doubt)
    return Executed(
        results,
        unsaid=tuple(str(reason) for reason in unsaid if not reason.doubt or reason in certain),
        certain=tuple(map(str, certain)),
        ambiguous=tuple(ambiguous),
    )


def otherwise(players: Players, task: Task, executed: Executed, trace: Trace) -> bool:
    """Whether an episode is right but for a value beside which its own fits the words as well: what
    it called with success resolves all turns once the ground truth's stands there, and wherever the
    same was taken later. Whoever took the other by accident, and failed elsewhere, shows nothing.
    Raises InfrastructureError."""
    pairs = [turn.pairs for turn in trace.turns]
    made = [tuple(call for call, result in each if not result.error) for each in pairs]
    for reason in executed.ambiguous if len(made) == len(task.calls) else ():
        turn = reason.turn
        later = [
            tuple(_meant(call, wanted, reason) for call in calls)
            for calls, wanted in zip(made[turn:], task.calls[turn:], strict=True)
        ]
        if later[:1] != made[turn:][:1]:
            right = replace(task, id="", calls=(*made[:turn], *later))
            if not _short(players, task, right):
                return True
    return False


def _meant(call: Call, wanted: Sequence[Call], reason: Reason) -> Call:
    """The one of the `wanted` calls that `call` is but for the pair of values of a reason; else
    `call`."""
    for one in wanted:
        values = [(own, call.arguments.get(name)) for name, own in one.arguments.items()]
        if call.name == one.name and all(
            own == value or (own, value) == reason.pair for own, value in values
        ):
            return one
    return call


def _short(players: Players, task: Task, played: Task) -> str:
    """What an episode of `task` lacks in which the calls of `played` are made; empty where it earns
    everything. Raises InfrastructureError."""
    job = players.job(task, dialects.load("hermes"), max_steps=MAX_STEPS)
    episode = ground_truth(replace(job, task=played))
    try:
        while True:
            next(episode)
    except StopIteration as stop:
        trace = stop.value
    if trace.end == "infrastructure":
        raise InfrastructureError("the world broke while the ground truth was played")
    return (
        ""
        if trace.binary
        else f"its own ground truth resolves {trace.resolved} of {trace.expected} turns"
    )
