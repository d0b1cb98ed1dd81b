"""Scenarios (003 §4) as a kind of tasks of which the daemon draws variants, and their gates: the
same controls as for any other scenario, and what a variant has like its root; read from the task's
own record and played in fresh worlds."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict

from rods.canonical import content_id, only
from rods.composing.records import ComposeError
from rods.config import Gates
from rods.conversations import Persona
from rods.daemon.authors.base import Asking, Assignment, TaskKind, WholeAuthor, in_thread
from rods.environments import addressed
from rods.environments.base import Environment, Result, Tools
from rods.family.environments.checking.scenarios import (
    Scenario,
    played,
    profile,
    scenario_of,
    validate,
)
from rods.family.environments.procedural.operations import assembled
from rods.family.environments.procedural.scenarios import Mode, draw_like, task
from rods.family.environments.procedural.skeletons import (
    TOPICS,
    Skeleton,
    draw_skeleton,
    topic_names,
)
from rods.faults import Gate, GateRejection, Reason
from rods.gates.ground_truth import Checked, brief, foreign, oversized, unknown
from rods.gates.similarity import SimilarityIndex, contamination
from rods.gates.texts import leaks
from rods.gates.values import ungrounded
from rods.tasks import AnyTask, OpenTask


class ScenarioKind(TaskKind[OpenTask]):
    """Scenarios with their witness, in worlds that were drawn by chance."""

    def matches(self, task: AnyTask) -> bool:
        return scenario_of(task) is not None

    def author(
        self, asking: Asking, environment: Environment, seed: OpenTask, pick: str, index: int
    ) -> WholeAuthor:
        """Scenarios are drawn, whoever writes the other variants."""
        return ProceduralScenarios(asking.threads)

    def check(
        self,
        environment: Environment,
        assignment: Assignment[OpenTask],
        task: OpenTask,
        gates: Gates,
        held_out: SimilarityIndex,
    ) -> Checked:
        """Asks every gate that is switched on and holds for a scenario; the controls come last, as
        `witness`, and only where nothing else objects. Raises InfrastructureError where the world
        broke."""
        scenario = _scenario(task)
        tools = environment.tools()
        calls = [step.call for step in scenario.witness]
        strange = unknown(environment, task)
        strange += [
            Reason(f"its witness calls {call.name}, which is not offered")
            for call in calls
            if call.name not in task.tools
        ]
        oversize = [
            Reason(why, call=at) for at, call in enumerate(calls) for why in oversized(call, gates)
        ]
        asked: list[tuple[Gate, list[Reason]]] = [
            ("replay", foreign(environment, task) if gates.replay else []),
            ("tools", strange if gates.tools else []),
            ("arguments", oversize if gates.arguments else []),
            ("leaks", leaks(environment, task) if gates.leaks else []),
            ("profile", unlike(tools, assignment.root, task) if gates.profile else []),
            ("contamination", contamination(task, held_out) if gates.contamination else []),
        ]
        seen: tuple[Result, ...] = ()
        if not strange and not any(reasons for _, reasons in asked):
            faults, seen = _controlled(environment, scenario)
            asked += [
                ("witness", faults if gates.witness else []),
                (
                    "grounding",
                    ungrounded(tools, task.user, calls[: len(seen)], seen)
                    if gates.grounding
                    else [],
                ),
            ]
        return Checked(
            (seen,), None, tuple(GateRejection(gate, tuple(why)) for gate, why in asked if why)
        )

    def hashes(
        self, asking: Asking, environment: Callable[[], Environment], seed: OpenTask
    ) -> Mapping[str, str]:
        """Worlds may be many: none is started for this."""
        return ProceduralScenarios.hashes


def replayed_scenario(environment: Environment, task: AnyTask) -> list[Reason]:
    """Why an admitted variant does not hold any more; empty when it does: it passes all controls
    again, and its witness gives the results on record. Raises InfrastructureError where the world
    broke."""
    if strange := foreign(environment, task):
        return strange
    faults, seen = _controlled(environment, _scenario(task))
    recorded = task.provenance.get("results")
    texts = [brief(result.text) for result in seen]
    if faults or not isinstance(recorded, list) or not recorded or recorded[0] == texts:
        return faults
    return [
        Reason(
            f"its witness gave {[result.text[:60] for result in seen]}, on record is something else"
        )
    ]


def unlike(tools: Tools, root: OpenTask, task: OpenTask) -> list[Reason]:
    """How the task differs from its root in what variants keep."""
    try:
        old, new = (
            asdict(profile(tools, _scenario(job), asked=isinstance(job.user, Persona)))
            for job in (root, task)
        )
    except KeyError as error:
        return [Reason(f"there is no tool {error}, so its profile is not known")]
    return [
        Reason(f"{name}: {new[name]} instead of {value}")
        for name, value in old.items()
        if new[name] != value
    ]


def _scenario(task: AnyTask) -> Scenario:
    scenario = scenario_of(task)
    assert scenario is not None, f"task {task.id} has no witness"
    return scenario


def _controlled(
    environment: Environment, scenario: Scenario
) -> tuple[list[Reason], tuple[Result, ...]]:
    """What the controls find, and the results of the witness. The world is that of tasks which
    passed them."""
    validated = validate(environment, scenario, sound=True)
    faults = [
        Reason(f"{fault.control}: {fault.where} {fault.what}".replace(":  ", ": "))
        for fault in validated.faults
    ]
    if faults:
        return faults, ()
    results = played(environment.reset(dict(scenario.state)), scenario.witness)
    return [], tuple(result for result in results if result is not None)


# what a world was drawn from, in a task's provenance
ORIGIN = ("random_seed", "world", "topics")


class ProceduralScenarios:
    """The author without a model."""

    name = "procedural"
    hashes: Mapping[str, str] = {"topics": content_id(TOPICS.read_text(encoding="utf-8"))[:12]}

    def __init__(self, threads: Executor) -> None:
        self.threads = threads

    async def write(self, environment: Environment, assignment: Assignment[OpenTask]) -> OpenTask:
        return await in_thread(self.threads, self._drawn, environment, assignment)

    def _drawn(self, environment: Environment, assignment: Assignment[OpenTask]) -> OpenTask:
        seed = assignment.seed
        skeleton = skeleton_of(assignment.seed)
        if skeleton is None:
            raise ComposeError(
                "no_prompts", "its world was not drawn by chance, so nobody draws a scenario in it"
            )
        mode: Mode = "asked" if isinstance(seed.user, Persona) else "told"
        try:
            scenario = _scenario(seed)
            variant, validated = draw_like(
                skeleton, environment, scenario, mode, *assignment.key, same=assignment.same
            )
        except LookupError as error:
            raise ComposeError("no_pattern", str(error)) from error
        return task(
            skeleton, environment, variant, validated, mode, origin=only(seed.provenance, ORIGIN)
        )


def skeleton_of(seed: OpenTask) -> Skeleton | None:
    """The skeleton of the world that a task lives in; None where that was not drawn by chance."""
    random_seed, number = (seed.provenance.get(name) for name in ("random_seed", "world"))
    if type(random_seed) is not int or type(number) is not int:
        return None
    topics = seed.provenance.get("topics", [])
    if not set(topics) <= set(topic_names()):
        return None
    skeleton = draw_skeleton(random_seed, number, topics)
    return (
        skeleton
        if addressed.address_of(seed.environment.name) == content_id(assembled(skeleton))
        else None
    )
