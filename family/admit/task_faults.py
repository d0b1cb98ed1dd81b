"""What is asked of a task that somebody else wrote: the gates that a variant has to pass, and what
holds for variants by the way they are made. What a reader may see otherwise is a doubt. Kinds of
faults are the names of gates and:

- `world`: it was written for another world, or the world breaks its promises,
- `unrepeatable`: its ground truth gives other results in a second fresh world,
- `soft_failure`: a call succeeds, changes nothing, and is answered as for what is not there,
- `idle`: a call that does nothing earns a turn,
- `near_miss`: so does a ground truth without one of its calls, or with names that nothing bears,
- `goal`: an open task cannot be judged,
- `broken`: the world raised something else than an error of its own."""

from dataclasses import replace

from rods.canonical import frozen
from rods.config import Gates
from rods.daemon.authors.base import NO_CALLS
from rods.daemon.compute import GateCheck
from rods.daemon.pipeline import Pipeline
from rods.environments.base import Environment
from rods.errors import InfrastructureError
from rods.family.admit.near_misses import earned_otherwise
from rods.faults import Reason, Reasons
from rods.gates import check
from rods.gates.ground_truth import brief, faults, foreign, open_kind, run, unheld
from rods.gates.similarity import contamination
from rods.gates.unknowable import unknowable
from rods.tasks import AnyTask, Task

# gates of words, of size, and of ways round: people write tasks that these refuse, and that teach
OF_TASTE = frozenset(("arguments", "leaks", "requests", "referents", "missing", "repeats"))


@frozen
class Judged:
    """The reasons against a task, by their kind, some without any, and the task with the results of
    its ground truth, where it has some."""

    reasons: dict[str, Reasons]
    task: Task | None = None


def judge(environment: Environment, item: GateCheck, pipeline: Pipeline) -> Judged:
    """What is wrong with a task, in the worker whose pipeline this is. Raises InfrastructureError
    where the machinery broke."""
    task = item.task
    try:
        if strange := foreign(environment, task):
            return Judged({"world": strange})
        if not isinstance(task, Task):
            return Judged(_open(environment, task, pipeline))
        return _calling(environment, task, item.gates, pipeline)
    except InfrastructureError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001
        # a world of others may raise anything, and one task never ends the rest
        return Judged({"broken": [Reason(f"judging it raised {type(error).__name__}: {error}")]})


def _calling(environment: Environment, task: Task, gates: Gates, pipeline: Pipeline) -> Judged:
    checked = check(environment, task, NO_CALLS, gates, pipeline.held_out)
    found: dict[str, Reasons] = {}
    for rejection in checked.rejections:
        taste = rejection.gate in OF_TASTE
        found.setdefault(rejection.gate, []).extend(
            replace(reason, doubt=taste or reason.doubt) for reason in rejection.reasons
        )
    if checked.results is None:
        return Judged(found)
    if unsaid := found.get("grounding"):
        sure = unknowable(environment, task, checked.results, unsaid)
        found["grounding"] = [replace(reason, doubt=reason not in sure) for reason in unsaid]
    results = [[brief(result.text) for result in turn] for turn in checked.results]
    recorded = replace(task, provenance={**task.provenance, "results": results})
    soft: Reasons = []
    again = run(environment, task, soft)
    if found.get("replay") == soft:
        found["soft_failure"] = found.pop("replay")
    # else nothing more can be asked
    if found.keys().isdisjoint(("replay", "tools")):
        found["unrepeatable"] = faults(environment, recorded, again)
        found["room"] = pipeline.room.reasons(environment, task) if pipeline.room else []
        for kind, reason in earned_otherwise(environment, task, checked.results):
            found.setdefault(kind, []).append(reason)
    return Judged(found, recorded)


def _open(environment: Environment, task: AnyTask, pipeline: Pipeline) -> dict[str, Reasons]:
    """What is wrong with a task that is judged at its end."""
    kind = open_kind(task)
    lacking = "it has no ground-truth calls and no witness: nothing says that it can be solved"
    return {
        "goal": unheld(environment, task),
        "witness": [*kind.replayed(environment, task)] if kind else [Reason(lacking, doubt=True)],
        "contamination": contamination(task, pipeline.held_out),
    }
