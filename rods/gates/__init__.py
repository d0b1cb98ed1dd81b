"""The rules that a variant must pass before anybody judges its wording (004 Appendix G): pure
functions that return reasons, none when the task passed. `check` asks them all, in the paper's
order, as `[gates]` switches them."""

from rods.analysis.profile import Profile, isomorphic, profile as profile_of
from rods.config import Gates
from rods.environments.base import Environment
from rods.faults import Gate, GateRejection, Reason
from rods.gates.ground_truth import Checked, arguments, misjudged, needless, replayed, tools
from rods.gates.missing import missing
from rods.gates.similarity import SimilarityIndex, contamination, repeats
from rods.gates.texts import leaks, requests
from rods.gates.values import grounding, referents
from rods.tasks import Task


def check(
    environment: Environment, task: Task, root: Profile, gates: Gates, held_out: SimilarityIndex
) -> Checked:
    """Runs the ground truth of `task` once in a fresh instance and asks every gate that is switched
    on, in order; near duplicates are refused at admission.

    `root` is the profile of the original that the variant goes back to, `held_out` has the
    tasks that it must not teach. Raises InfrastructureError when the run broke for reasons that are
    not the task's."""
    results, unsound = replayed(environment, task)
    tools_exist = all(call.name in environment.tools() for call in task.goal_calls)
    shape = profile_of(environment, task, results) if results is not None and tools_exist else None
    again = repeats(task, results) if gates.repeats else []
    asked: list[tuple[Gate, list[Reason]]] = [
        ("replay", unsound if gates.replay else []),
        ("tools", tools(environment, task) if gates.tools else []),
        ("arguments", arguments(task, gates) if gates.arguments else []),
        ("leaks", leaks(environment, task) if gates.leaks else []),
    ]
    if results is not None and tools_exist:
        fair = gates.fair_blanks
        asked += [
            ("replay", misjudged(environment, task, results) if gates.replay else []),
            ("grounding", grounding(environment, task, results) if gates.grounding else []),
            ("requests", requests(environment, task, results) if gates.requests else []),
            ("referents", referents(environment, task, results) if gates.referents else []),
            ("missing", missing(environment, task, results, fair=fair) if gates.missing else []),
        ]
        again += needless(environment, task, results) if gates.repeats else []
    lacking = ["its ground truth does not run here, so it has no profile"]
    unlike = lacking if shape is None else isomorphic(root, shape, gates)
    asked += [
        ("repeats", again),
        ("profile", list(map(Reason, unlike)) if gates.profile else []),
        ("contamination", contamination(task, held_out) if gates.contamination else []),
    ]
    return Checked(
        results,
        shape,
        tuple(GateRejection(gate, tuple(reasons)) for gate, reasons in asked if reasons),
    )
