"""What is asked of a task that somebody else wrote: the gates that a variant has to pass, and what
holds for variants by the way they are made. Kinds of faults are the names of gates and:

- `world`: it was written for another world, or the world breaks its promises,
- `unrepeatable`: its ground truth gives other results in a second fresh world,
- `soft_failure`: a call succeeds, changes nothing, and is answered as for what is not there,
- `idle`: a call that does nothing earns a turn,
- `near_miss`: so does a ground truth without one of its calls, or with names that nothing bears,
- `goal`: an open task cannot be judged,
- `broken`: the world raised something else than an error of its own."""

from rods.canonical import Texts, frozen
from rods.config import Gates
from rods.daemon.authors.base import NO_CALLS
from rods.daemon.compute import GateCheck
from rods.daemon.pipeline import Pipeline
from rods.environments.base import Environment, Results
from rods.errors import InfrastructureError
from rods.family.admit.near_misses import earned_otherwise
from rods.faults import Reason, Reasons
from rods.gates import check
from rods.gates.ground_truth import brief, foreign, open_kind, run, unheld
from rods.gates.similarity import SimilarityIndex, contamination
from rods.tasks import AnyTask, Task

HELD = ("replay", "tools")  # gates without which nothing else can be asked


@frozen
class Judged:
    """The reasons against a task, by their kind, and the results of its ground truth, `brief`."""

    reasons: dict[str, Reasons]
    results: tuple[Texts, ...] = ()


def judge(environment: Environment, item: GateCheck, pipeline: Pipeline) -> Judged:
    """What is wrong with a task, in the worker whose pipeline this is. Raises InfrastructureError
    where the machinery broke."""
    task = item.task
    try:
        if strange := foreign(environment, task):
            return Judged({"world": strange})
        if not isinstance(task, Task):
            return Judged(_open(environment, task, item.gates, pipeline.held_out))
        return _calling(environment, task, item.gates, pipeline)
    except InfrastructureError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001
        # a world of others may raise anything, and one task never ends the rest
        return Judged({"broken": [Reason(f"its world raised {type(error).__name__}: {error}")]})


def _calling(environment: Environment, task: Task, gates: Gates, pipeline: Pipeline) -> Judged:
    checked = check(environment, task, NO_CALLS, gates, pipeline.held_out)
    found: dict[str, Reasons] = {}
    for rejection in checked.rejections:
        found.setdefault(rejection.gate, []).extend(rejection.reasons)
    if checked.results is None:
        return Judged(found)
    results = tuple(tuple(brief(result.text) for result in turn) for turn in checked.results)
    soft: Reasons = []
    again = run(environment, task, soft)
    if soft:
        found["soft_failure"] = soft
        hard = [reason for reason in found.pop("replay", []) if reason not in soft]
        found |= {"replay": hard} if hard else {}
    if not any(gate in found for gate in HELD):
        room = pipeline.room
        more = {
            "unrepeatable": _other(environment, task, checked.results, again),
            "room": room.reasons(environment, task) if room else [],
        }
        found |= {kind: reasons for kind, reasons in more.items() if reasons}
        for kind, reason in earned_otherwise(environment, task, checked.results):
            found.setdefault(kind, []).append(reason)
    return Judged(found, results)


def _other(environment: Environment, task: Task, first: Results, second: Results) -> Reasons:
    """The calls whose two results differ, of a world that says that they do not."""
    if not environment.features.deterministic:
        return []
    return [
        Reason(f"{call.name} gives {other.text[:200]!r} in a second world", turn, index)
        for turn, calls in enumerate(task.calls)
        for index, (call, one, other) in enumerate(
            zip(calls, first[turn], second[turn], strict=True)
        )
        if one.text != other.text
    ]


def _open(
    environment: Environment, task: AnyTask, gates: Gates, held_out: SimilarityIndex
) -> dict[str, Reasons]:
    """What is wrong with a task that is judged at its end."""
    found: dict[str, Reasons] = {"goal": unheld(environment, task)}
    try:
        kind = open_kind(task)
        lacking = "it has no ground-truth calls and no witness: nothing says that it can be solved"
        found["witness"] = (
            [Reason(lacking)] if kind is None else [*kind.replayed(environment, task)]
        )
    except ValueError as error:
        found["witness"] = [Reason(str(error))]
    if gates.contamination:
        found["contamination"] = contamination(task, held_out)
    return {name: reasons for name, reasons in found.items() if reasons}
