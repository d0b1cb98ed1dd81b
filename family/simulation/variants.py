"""Drawn tasks (001 §2.2.1) as a kind of which variants are written, with or without a model, and
their gates. That the intent of one can be reached is shown: its calls conform, their values are
said, known, or returned before, and a *witness* that makes these calls is approved of, while one
that leaves a call out is not, played as the run plays."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from rods.analysis.containment import key_of
from rods.analysis.sampling import Sampler
from rods.analysis.schemas import Checker, limits
from rods.calls import Call
from rods.canonical import content_id, keyed_random
from rods.composing.records import ComposeError
from rods.config import Gates
from rods.conversations import Rubric
from rods.daemon.authors.base import Asking, Assignment, TaskKind, WholeAuthor, in_thread
from rods.daemon.authors.llm import prompt_hashes
from rods.daemon.authors.llm.asking import Asker, Chance
from rods.environments.base import Environment, Result, Tool, reference
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import Trace
from rods.episode.watchdog import outside
from rods.errors import InfrastructureError
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.generating import PHRASES, draw_like, levels_of, open_task, others
from rods.family.simulation.roles import arguments_schema, ask_for_task
from rods.family.simulation.world import as_repository
from rods.faults import Gate
from rods.gates.ground_truth import brief, foreign, oversized, unknown
from rods.gates.grounding import ungrounded
from rods.gates.leaks import leaks
from rods.gates.records import Checked, GateRejection, Reason
from rods.gates.reference_policy import ReferencePolicy
from rods.gates.similarity import SimilarityIndex, contamination
from rods.tasks import AnyTask, OpenTask

DRAWS = 20  # of another value for an argument, until one differs
MENDED = 1_000  # characters of what was wrong with the last task that a model is told


class DrawnKind(TaskKind[OpenTask]):
    """Tasks that were drawn from tool documents."""

    def __init__(self, playing: "Playing") -> None:
        """`playing`: how the run plays drawn tasks."""
        self.playing = playing

    def matches(self, task: AnyTask) -> bool:
        return levels_of(task) is not None

    def author(
        self, asking: Asking, environment: Environment, seed: OpenTask, pick: str, index: int
    ) -> WholeAuthor:
        return (
            ModelDrawer(asking.writing(pick, index))
            if asking.by_model
            else ProceduralDrawer(asking.threads)
        )

    def check(
        self,
        environment: Environment,
        assignment: Assignment[OpenTask],
        task: OpenTask,
        gates: Gates,
        held_out: SimilarityIndex,
    ) -> Checked:
        """Asks every gate that is switched on and holds for a drawn task; witnesses come last, and
        only where nothing else objects, since models may play in them. Raises InfrastructureError
        where one of these broke."""
        tools = environment.tools()
        strange = unknown(environment, task)
        asked: list[tuple[Gate, list[Reason]]] = [
            ("replay", foreign(environment, task) if gates.replay else []),
            ("tools", strange if gates.tools else []),
            ("arguments", unfit(environment, task, gates) if gates.arguments else []),
            ("leaks", leaks(environment, task) if gates.leaks else []),
            ("profile", unlike(tools, assignment.root, task) if gates.profile else []),
            ("contamination", contamination(task, held_out) if gates.contamination else []),
        ]
        seen: tuple[Result, ...] = ()
        if not strange and not any(reasons for _, reasons in asked):
            if gates.replay or gates.witness:
                (trace,) = witnesses([(self.playing(task), task.goal_calls)])
                seen = results_of(trace)
            asked += [
                ("replay", failed(task, seen) if gates.replay else []),
                (
                    "grounding",
                    ungrounded(tools, task.user, task.goal_calls, seen) if gates.grounding else [],
                ),
            ]
            if gates.witness and not any(reasons for _, reasons in asked):
                asked.append(("witness", misjudged(tools, task, self.playing, trace)))
        return Checked(
            (seen,), None, tuple(GateRejection(gate, tuple(why)) for gate, why in asked if why)
        )

    def hashes(
        self, asking: Asking, environment: Callable[[], Environment], seed: OpenTask
    ) -> Mapping[str, str]:
        return (
            prompt_hashes(environment())
            if asking.by_model
            else super().hashes(asking, environment, seed)
        )


def _chance(assignment: Assignment[OpenTask]) -> Chance:
    return Chance(assignment.key[0], "drawn variant", *assignment.key[1:])


def _levels(task: OpenTask) -> Levels:
    if (levels := levels_of(task)) is None:
        raise ValueError(f"task {task.id} was not drawn from a tool repository")
    return levels


class ProceduralDrawer:
    """The generator without a model."""

    name = "procedural"

    def __init__(self, threads: Executor) -> None:
        self.threads = threads
        self.hashes: Mapping[str, str] = {"phrases": content_id(PHRASES)[:12]}

    async def write(self, environment: Environment, assignment: Assignment[OpenTask]) -> OpenTask:
        return await in_thread(self.threads, self._drawn, environment, assignment)

    def _drawn(self, environment: Environment, assignment: Assignment[OpenTask]) -> OpenTask:
        seed = assignment.seed
        rng = _chance(assignment).rng("draw")
        repository = as_repository(environment).repository
        drawn = draw_like(
            repository, _levels(seed), seed.tools, len(seed.goal_calls), rng, same=assignment.same
        )
        if drawn is None:
            raise ComposeError(
                "func_sample_failed",
                f"the tools drawn cannot be called {len(seed.goal_calls)} times",
            )
        return open_task(drawn, reference(environment))


class ModelDrawer:
    """A language model that is asked for the whole task; tools are drawn for it."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.name = asker.backbone
        self.hashes = asker.hashes

    async def write(self, environment: Environment, assignment: Assignment[OpenTask]) -> OpenTask:
        seed = assignment.seed
        chance = _chance(assignment)
        levels = _levels(assignment.seed)
        repository = as_repository(environment).repository
        chosen = [repository.tools[name] for name in seed.tools]
        if not assignment.same:
            chosen = others(repository, seed.tools, chance.rng("tools"))
        asked = replace(levels, calls=len(seed.goal_calls))
        question = ask_for_task(
            repository, [entry.tool for entry in chosen], asked, assignment.problem[:MENDED]
        )
        drawn = await self.asker.ask_keyed(chance, question, "conversation_construct_failed")
        return open_task(replace(drawn, levels=levels), reference(environment))


Playing = Callable[[OpenTask], Job]  # an episode of the task as the run plays it, in a fresh world


def shape_of(tools: Mapping[str, Tool], task: OpenTask) -> dict[str, Any]:
    """What a variant has like the root of its lineage: how many tools of each category, how many
    expected calls, the levels of its user (turns, expertise, ambiguity of the first query) and of
    the system prompt, and the criteria. Raises KeyError for a tool that is not among `tools`,
    ValueError for a task that was not drawn."""
    levels = _levels(task)
    assert isinstance(task.goal, Rubric)
    return {
        "tools": dict(sorted(Counter(tools[name].group for name in task.tools).items())),
        "calls": len(task.goal.calls),
        **{name: getattr(levels, name) for name in ("turns", "persona", "ambiguity", "system")},
        "criteria": task.goal.criteria,
    }


def replayed_drawn(environment: Environment, task: OpenTask, job: Job) -> list[Reason]:
    """Why a variant of a drawn task does not hold any more; empty when it does: its witness is
    played again by `job`, gives the results on record, and is approved of. Raises
    InfrastructureError where a player broke."""
    if strange := foreign(environment, task):
        return strange
    (trace,) = witnesses([(job, task.goal_calls)])
    refused = [] if trace.resolved == trace.expected else [Reason(f"its witness {_earned(trace)}")]
    return failed(task, results_of(trace)) or refused


def unfit(environment: Environment, task: OpenTask, gates: Gates) -> list[Reason]:
    """The expected calls that break their tools' documents, or are larger than a policy writes."""
    tools = environment.tools()
    reasons = list[Reason]()
    for index, call in enumerate(task.goal_calls):
        if call.name in tools and (
            fault := Checker(arguments_schema(tools[call.name])).fault(dict(call.arguments))
        ):
            reasons.append(Reason(f"{call.name}: {fault}", call=index))
        reasons += [Reason(why, call=index) for why in oversized(call, gates)]
    return reasons


def unlike(tools: Mapping[str, Tool], root: OpenTask, task: OpenTask) -> list[Reason]:
    """How the task differs from its root in what variants keep."""
    try:
        old = shape_of(tools, root)
        new = shape_of(tools, task)
    except KeyError as error:
        return [Reason(f"there is no tool {error}, so its shape is not known")]
    except ValueError as error:
        return [Reason(str(error))]
    return [
        Reason(f"{name}: {now} instead of {old[name]}")
        for name, now in new.items()
        if now != old[name]
    ]


def failed(task: OpenTask, seen: Sequence[Result]) -> list[Reason]:
    """The expected calls that fail, or do not give the results that the task's provenance
    records."""
    recorded = task.provenance.get("results")
    reasons = list[Reason]()
    kept = (
        recorded[0]
        if isinstance(recorded, list) and recorded and isinstance(recorded[0], list)
        else None
    )
    for index, (call, result) in enumerate(zip(task.goal_calls, seen, strict=False)):
        if result.error is not None:
            reasons.append(
                Reason(f"{call.name} fails ({result.error}): {result.text[:200]}", call=index)
            )
        elif kept is not None and kept[index : index + 1] not in (
            [result.text],
            [brief(result.text)],
        ):
            reasons.append(
                Reason(
                    f"{call.name} gave {result.text[:200]!r}, on record is something else",
                    call=index,
                )
            )
    if len(seen) < len(task.goal_calls):
        reasons.append(
            Reason(
                f"the conversation ended before {task.goal_calls[len(seen)].name} could be called"
            )
        )
    return reasons


def misjudged(
    tools: Mapping[str, Tool], task: OpenTask, playing: Playing, trace: Trace
) -> list[Reason]:
    """How the verifier is wrong: about the witness `trace`, which earns everything, or one that is
    misled, which does not. Raises InfrastructureError."""
    if trace.resolved < trace.expected:
        return [Reason(f"a conversation that makes all expected calls {_earned(trace)}")]
    others = list(misled(task, tools))
    traces = witnesses([(playing(task), calls) for _, calls in others])
    return [
        Reason(f"a conversation {what} {_earned(other)}")
        for (what, _), other in zip(others, traces, strict=True)
        if other.resolved == other.expected
    ]


def _earned(trace: Trace) -> str:
    notes = "; ".join(trace.outcome.notes) if trace.outcome is not None else ""
    return f"earns {trace.resolved} of {trace.expected}{f' ({notes[:300]})' if notes else ''}"


def witnesses(plays: Sequence[tuple[Job, Sequence[Call]]]) -> list[Trace]:
    """The conversations in which these calls are made, all at once where their players wait for
    somebody else. Raises InfrastructureError where one of the players broke."""
    jobs = [job for job, _ in plays]
    policies = [ReferencePolicy(job, calls) for job, calls in plays]
    with outside() if any(job.waits for job in jobs) else nullcontext():
        traces = run_lockstep(
            jobs, lambda waiting: [policies[index].reply(need) for index, need in waiting]
        )
    if any(trace.outcome is None for trace in traces):
        what = (
            f"a witness conversation of task {traces[0].task} broke off: its world, user or "
            f"verifier did not answer"
        )
        raise InfrastructureError(what)
    return traces


def results_of(trace: Trace) -> tuple[Result, ...]:
    """The results of all calls of a conversation, in order."""
    return tuple(result for turn in trace.turns for step in turn.steps for result in step.results)


def misled(task: OpenTask, tools: Mapping[str, Tool]) -> Iterator[tuple[str, tuple[Call, ...]]]:
    """What a conversation might do instead, and how to call that: each time one of the expected
    calls is left out. A conversation without any call is refused by rule, whoever judges; so a
    single call is made with another value."""
    calls = task.goal_calls
    for index, call in enumerate(calls if len(calls) > 1 else ()):
        yield f"without {call.name}", (*calls[:index], *calls[index + 1 :])
    if len(calls) == 1:
        only = calls[0]
        sampler = Sampler(keyed_random(0, "misled", task.id))
        parameters = [
            parameter
            for parameter in tools[only.name].parameters
            if parameter.name in only.arguments
        ]
        for parameter in sorted(parameters, key=lambda parameter: not parameter.required):
            name = parameter.name
            for _ in range(DRAWS):
                value = sampler.value(name, limits(parameter))
                if key_of(value) != key_of(only.arguments[name]):
                    yield (
                        f"with another {name}",
                        (Call(only.name, {**only.arguments, name: value}),),
                    )
                    return
