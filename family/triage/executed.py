"""What is wrong with a task whatever a policy does, found by executing its ground truth: whether it
runs and earns what the task is judged by, and which of its values nobody says and no tool shows.

`unsaid` has all that the gate of grounding is sure not to find, `certain` only what no reader comes
to by himself."""

from rods import dialects
from rods.canonical import Texts, frozen
from rods.environments.base import Results
from rods.episode.drivers import Job, ground_truth
from rods.episode.engine import MAX_STEPS
from rods.errors import InfrastructureError
from rods.faults import Reason
from rods.gates.ground_truth import replayed, tools
from rods.gates.unknowable import unknowable
from rods.gates.values import AS_WELL, grounding, referents
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
        job = players.job(task, dialects.load("hermes"), max_steps=MAX_STEPS)
        if short := _short(job):
            return Executed(results, (short,))
    except InfrastructureError as error:
        return Executed(lost=str(error))
    unsaid = grounding(environment, task, results)
    certain = unknowable(environment, task, results, unsaid)
    ambiguous = (
        reason
        for reason in referents(environment, task, results)
        if not reason.doubt and AS_WELL in reason.text
    )
    return Executed(
        results,
        unsaid=tuple(str(reason) for reason in unsaid if not reason.doubt or reason in certain),
        certain=tuple(map(str, certain)),
        ambiguous=tuple(ambiguous),
    )


def _short(job: Job) -> str:
    """What the ground truth's own episode lacks; empty where it earns everything. Raises
    InfrastructureError."""
    episode = ground_truth(job)
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
