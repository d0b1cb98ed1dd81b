"""Scenarios (003 §4) as a kind of tasks of which the daemon writes variants, and their gates: the
same controls as for any other scenario, and what a variant has like its root; read from the task's
own record and played in fresh worlds."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from rods.asking import Question, Questioner
from rods.buffers.run.creation import admit, bring
from rods.buffers.run.run import Run
from rods.canonical import content_id, keyed_random
from rods.composing.records import ComposeError
from rods.config import Gates, Operation
from rods.conversations import Persona
from rods.daemon.authors.base import Asking, Assignment, T, TaskKind, WholeAuthor, in_thread
from rods.environments import addressed
from rods.environments.base import Environment, Result, Tool
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, RefusedError
from rods.family.environments.checking.scenarios import (
    Scenario,
    changed_by,
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
from rods.family.environments.programs import program_of
from rods.family.environments.written.building import Dropped
from rods.family.environments.written.scenarios import (
    TEMPLATES,
    Likeness,
    find_witness,
    write_scenario,
    written_task,
)
from rods.family.environments.written.writing import with_checks
from rods.faults import Gate
from rods.gates.ground_truth import brief, foreign, oversized, unknown
from rods.gates.grounding import ungrounded
from rods.gates.leaks import leaks
from rods.gates.records import Checked, GateRejection, Reason
from rods.gates.similarity import SimilarityIndex, contamination
from rods.prompts import load
from rods.tasks import AnyTask, OpenTask


class ScenarioKind(TaskKind[OpenTask]):
    """Scenarios with their witness, in worlds that were drawn by chance or written by models."""

    def __init__(self, run: Run) -> None:
        """`run`: into which worlds with checks of their own are brought, where models write."""
        self._drafts = Drafts(run)

    def matches(self, task: AnyTask) -> bool:
        return scenario_of(task) is not None

    def author(
        self, asking: Asking, environment: Environment | None, seed: OpenTask, pick: str, index: int
    ) -> WholeAuthor:
        """In a world that was drawn by chance scenarios are drawn, whoever writes the other
        variants."""
        if not asking.by_model or "world" in seed.provenance:
            return ProceduralScenarios(asking.threads)
        asker = asking.writing(pick, index)
        told = (asker.client, asker.backbone, asker.account, asker.tries, asker.feedback)
        return WrittenScenarios(
            self._drafts, Questioner(*told, roles=asking.config.operation.writers)
        )

    def check(
        self,
        environment: Environment,
        assignment: Assignment[OpenTask],
        task: OpenTask,
        gates: Gates,
        held_out: SimilarityIndex,
    ) -> Checked:
        """In the variant's world: the seed's, or one with checks of its own, which is in no run
        yet."""
        world = environment
        if task.environment != assignment.seed.environment:
            world = self._drafts.environments.load(task.environment.name)
        return check_scenario(world, task, assignment.root, gates, held_out)

    async def settle(self, assignment: Assignment[OpenTask], task: OpenTask) -> None:
        if task.environment != assignment.seed.environment:
            await self._drafts.settle(task.environment.name)

    def hashes(
        self, asking: Asking, environment: Callable[[], Environment], seed: OpenTask
    ) -> Mapping[str, str]:
        """Worlds may be many: none is started for this."""
        return self.author(asking, None, seed, "", 0).hashes

    def close(self) -> None:
        self._drafts.close()


def check_scenario(
    environment: Environment,
    task: OpenTask,
    root: OpenTask,
    gates: Gates,
    held_out: SimilarityIndex,
) -> Checked:
    """Asks every gate that is switched on and holds for a scenario; the controls come last, as
    `witness`, and only where nothing else objects. Raises InfrastructureError where the world
    broke."""
    scenario = _scenario(task)
    tools = environment.tools()
    made = [step.call for step in scenario.witness]
    strange = unknown(environment, task)
    strange += [
        Reason(f"its witness calls {call.name}, which is not offered")
        for call in made
        if call.name not in task.tools
    ]
    oversize = [
        Reason(why, call=at) for at, call in enumerate(made) for why in oversized(call, gates)
    ]
    asked: list[tuple[Gate, list[Reason]]] = [
        ("replay", foreign(environment, task) if gates.replay else []),
        ("tools", strange if gates.tools else []),
        ("arguments", oversize if gates.arguments else []),
        ("leaks", leaks(environment, task) if gates.leaks else []),
        ("profile", unlike(tools, root, task) if gates.profile else []),
        ("contamination", contamination(task, held_out) if gates.contamination else []),
    ]
    seen: tuple[Result, ...] = ()
    if not strange and not any(reasons for _, reasons in asked):
        faults, seen = _controlled(environment, scenario)
        asked += [
            ("witness", faults if gates.witness else []),
            (
                "grounding",
                ungrounded(tools, task.user, made[: len(seen)], seen) if gates.grounding else [],
            ),
        ]
    return Checked(
        (seen,), None, tuple(GateRejection(gate, tuple(why)) for gate, why in asked if why)
    )


def replayed_scenario(environment: Environment, task: OpenTask) -> list[Reason]:
    """Why an admitted variant does not hold any more; empty when it does: it passes all controls
    again, and its witness gives the results on record. Raises InfrastructureError where the world
    broke."""
    if strange := foreign(environment, task):
        return strange
    faults, seen = _controlled(environment, _scenario(task))
    recorded = task.provenance.get("results")
    told = [brief(result.text) for result in seen]
    if faults or not isinstance(recorded, list) or not recorded or recorded[0] == told:
        return faults
    return [
        Reason(
            f"its witness gave {[result.text[:60] for result in seen]}, on record is something else"
        )
    ]


def unlike(tools: Mapping[str, Tool], root: OpenTask, task: OpenTask) -> list[Reason]:
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


def _scenario(task: OpenTask) -> Scenario:
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


NUMBERS = 1_000_000  # of states that are asked for: no two variants of a world have the same


class Drafts:
    """The worlds of variants that are in the making, in files below a scratch folder that the first
    of them makes."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._open = ExitStack()
        self._one = asyncio.Lock()

    @cached_property
    def folder(self) -> Path:
        return Path(self._open.enter_context(TemporaryDirectory(prefix="rods-drafts-")))

    @cached_property
    def environments(self) -> Environments:
        return self._open.enter_context(
            Environments(self.run.config.operation.sandbox, self.folder)
        )

    def close(self) -> None:
        self._open.close()

    async def world(self, source: str) -> Environment:
        """The environment of a world's source."""
        async with self._one:
            return await asyncio.to_thread(
                self.environments.load, addressed.keep(source, self.folder)
            )

    async def settle(self, name: str) -> None:
        """Has the world called `name` on record in the run, its file before. Raises
        InfrastructureError while somebody else admits one."""
        async with self._one:
            if name in await asyncio.to_thread(self.run.named):
                return  # by a daemon that was killed before it staged the variant
            await asyncio.to_thread(bring, [name], [self.folder], self.run.path)
            try:
                await asyncio.to_thread(
                    admit, self.run, name, by="rods-daemon", why="the checks of a variant"
                )
            except RefusedError as error:
                raise InfrastructureError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Questions:
    """Those about one attempt at a variant."""

    questioner: Questioner
    settings: Operation
    # the daemon's random seed, pick, variant index, pipeline attempt
    key: tuple[int, str, int, int]

    async def ask(self, question: Question[T], about: str, number: int = 0) -> T:
        """As `Asking.ask`."""
        asked = (question.template, content_id(dict(question.fields)), number)
        seeds = self.key[0], "scenario", *self.key[1:], *asked
        return await self.questioner.ask(
            question, lambda at: keyed_random(*seeds, at).getrandbits(31)
        )


class WrittenScenarios:
    """The author of one variant, on a language model."""

    def __init__(self, drafts: Drafts, questioner: Questioner) -> None:
        self.drafts = drafts
        self.questioner = questioner
        self.name = questioner.backbone
        self.hashes: Mapping[str, str] = {name: load(name).hash for name in TEMPLATES}

    async def write(self, environment: Environment, assignment: Assignment[OpenTask]) -> OpenTask:
        seed = assignment.seed
        run = self.drafts.run
        scenario = _scenario(assignment.seed)
        asked = isinstance(seed.user, Persona)
        tools = environment.tools()
        changing = tuple(sorted(changed_by(tools, scenario.witness)))
        task = seed.user.intent if isinstance(seed.user, Persona) else "\n".join(scenario.requests)
        like = Likeness(
            task,
            profile(tools, scenario, asked=asked),
            changing if assignment.same else (),
            assignment.problem,
        )
        questions = _Questions(self.questioner, run.config.operation, assignment.key)
        number = keyed_random(assignment.key[0], "scenario", *assignment.key[1:]).randrange(NUMBERS)
        name = seed.environment.name
        try:
            program = program_of(addressed.source_of(name, run.environments.folders), seed.system)
        except (ValueError, SyntaxError) as error:
            raise ComposeError(
                "no_prompts", f"no scenario can be added to its world: {error}"
            ) from error
        try:
            written = await write_scenario(questions, program, run.environments, name, number, like)
            program = with_checks(program, [written])
            world = await self.drafts.world(program.source())
            done = await find_witness(questions, program, world, written)
        except Dropped as dropped:
            detail = "; ".join([str(dropped), *dropped.details])
            raise ComposeError("conversation_construct_failed", detail) from dropped
        if (
            assignment.same
            and (changed := tuple(sorted(changed_by(tools, done.scenario.witness)))) != changing
        ):
            told = (
                f"its witness changes things by {', '.join(changed)}, not by {', '.join(changing)}"
            )
            raise ComposeError("no_pattern", told)
        return written_task(
            program, world, done, "asked" if asked else "told", seed.split, [self.name]
        )


# what a world was drawn from, in a task's provenance
ORIGIN = ("random_seed", "world", "topics", "small")


class ProceduralScenarios:
    """The author without a model."""

    name = "procedural"

    def __init__(self, threads: Executor) -> None:
        self.threads = threads
        self.hashes: Mapping[str, str] = {
            "topics": content_id(TOPICS.read_text(encoding="utf-8"))[:12]
        }

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
        origin = {name: seed.provenance[name] for name in ORIGIN if name in seed.provenance}
        return task(skeleton, environment, variant, validated, mode, origin=origin)


def skeleton_of(seed: OpenTask) -> Skeleton | None:
    """The skeleton of the world that a task lives in; None where that was not drawn by chance."""
    random_seed, number = (seed.provenance.get(name) for name in ("random_seed", "world"))
    if type(random_seed) is not int or type(number) is not int:
        return None
    topics = seed.provenance.get("topics", [])
    small = seed.provenance.get("small", False)
    if not set(topics) <= set(topic_names()):
        return None
    skeleton = draw_skeleton(random_seed, number, topics, small)
    return (
        skeleton
        if addressed.address_of(seed.environment.name) == content_id(assembled(skeleton))
        else None
    )
