"""The rules that a variant must pass before anybody judges its wording (004 Appendix G): pure
functions that return reasons, none when the task passed. `check` asks them all, in the paper's
order, as `[gates]` switches them."""

from collections.abc import Sequence
from typing import Protocol

from rods.analysis.profile import Profile, isomorphic
from rods.analysis.profile import profile as profile_of
from rods.calls import Call
from rods.composing.lexicon import lexicon
from rods.config import Gates
from rods.environments.base import Environment
from rods.extension import Door
from rods.faults import Gate
from rods.gates.ground_truth import arguments, replayed, tools
from rods.gates.grounding import grounding
from rods.gates.leaks import leaks
from rods.gates.missing import missing
from rods.gates.records import Checked, GateRejection, Reason
from rods.gates.referents import referents
from rods.gates.requests import requests
from rods.gates.similarity import SimilarityIndex, contamination, repeats
from rods.tasks import AnyTask, Task

__all__ = ["check", "grounding", "leaks", "missing", "referents", "repeats", "requests", "varied"]


class OpenTasks(Protocol):
    """A kind of tasks without ground truth by turn that variants can be written of."""

    def solution(self, task: AnyTask) -> Sequence[Call] | None:
        """Calls that do what `task` asks for; None where it is no task of this kind. Raises
        ValueError for an unreadable record."""

    def replayed(self, environment: Environment, task: AnyTask) -> Sequence[Reason]:
        """Why an admitted variant of this kind holds no more. Raises InfrastructureError where a
        world or a player broke."""

    def held(self, task: AnyTask) -> int:
        """How many of the checks of `task` hold when nothing has been done."""


OPEN_TASKS: Door[OpenTasks] = Door("open_tasks")  # (003)


def check(
    environment: Environment, task: Task, root: Profile, gates: Gates, held_out: SimilarityIndex
) -> Checked:
    """Runs the ground truth of `task` once in a fresh instance and asks every gate that is switched
    on, in order; near duplicates are refused at admission.

    `root` is the profile of the original at the root of the variant's lineage, `held_out` has the
    tasks that it must not teach. Raises InfrastructureError when the run broke for reasons that are
    not the task's."""
    results, unsound = replayed(environment, task)
    tools_exist = all(call.name in environment.tools() for turn in task.calls for call in turn)
    shape = profile_of(environment, task, results) if results is not None and tools_exist else None
    asked: list[tuple[Gate, list[Reason]]] = [
        ("replay", unsound if gates.replay else []),
        ("tools", tools(environment, task) if gates.tools else []),
        ("arguments", arguments(task, gates) if gates.arguments else []),
        ("leaks", leaks(environment, task) if gates.leaks else []),
    ]
    if results is not None and tools_exist:
        fair = gates.fair_blanks
        catalogue = lexicon(environment).catalogue
        misjudged = (
            catalogue.misjudged(task, results) if catalogue is not None and gates.replay else ()
        )
        asked += [
            ("replay", [Reason(why, turn, at) for turn, at, why in misjudged]),
            ("grounding", grounding(environment, task, results) if gates.grounding else []),
            ("requests", requests(environment, task, results) if gates.requests else []),
            ("referents", referents(environment, task, results) if gates.referents else []),
            ("missing", missing(environment, task, results, fair=fair) if gates.missing else []),
        ]
    lacking = ["its ground truth does not run here, so it has no profile"]
    unlike = lacking if shape is None else isomorphic(root, shape, gates)
    asked += [
        ("repeats", repeats(task, results) if gates.repeats else []),
        ("profile", list(map(Reason, unlike)) if gates.profile else []),
        ("contamination", contamination(task, held_out) if gates.contamination else []),
    ]
    return Checked(
        results,
        shape,
        tuple(GateRejection(gate, tuple(reasons)) for gate, reasons in asked if reasons),
    )


def varied(task: AnyTask) -> bool:
    """Whether variants can be written of `task`: it has ground truth by turn, or an extension says
    so. Raises ValueError for one whose record cannot be read."""
    return isinstance(task, Task) or open_kind(task) is not None


def open_kind(task: AnyTask) -> OpenTasks | None:
    """The kind of open tasks that `task` is of, if any. Raises ValueError as `varied`."""
    kinds = OPEN_TASKS.providers().values()
    return next((kind for kind in kinds if kind.solution(task) is not None), None)
