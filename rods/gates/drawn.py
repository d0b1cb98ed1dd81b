"""The gates of a drawn task (001): its user is played, its calls are expected, and a verifier judges the whole.

What a variant keeps of its root is a `DrawnShape`. That its intent can be reached is shown: every expected call uses a
tool that is offered and conforms to its document, every value in it is said, known, or returned by an earlier call, and
a *witness* that makes these calls is approved of, while one that leaves a call out is not. Worlds, user and verifier of
a witness are those that the run trains with, each time fresh ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from rods.analysis.flows import Output
from rods.analysis.says import Text, leaves
from rods.analysis.schemas import Checker
from rods.calls import Call
from rods.config import Gates
from rods.conversations import Persona, Rubric, Script
from rods.environments.base import Environment, Result, Tool
from rods.episode.drivers import Job
from rods.episode.engine import Trace
from rods.faults import Gate
from rods.gates.ground_truth import brief, foreign, oversized, unknown
from rods.gates.leaks import leaks
from rods.gates.records import Checked, GateRejection, Reason
from rods.gates.similarity import SimilarityIndex, contamination, duplicates
from rods.gates.witness import misled, results_of, told, witness, witnesses
from rods.simulation.generating import levels_of
from rods.simulation.roles import arguments_schema
from rods.tasks import OpenTask

Playing = Callable[[OpenTask], Job]  # an episode of the task as the run plays it, in a fresh world


@dataclass(frozen=True, slots=True)
class DrawnShape:
    """What a variant has like the root of its lineage: how many tools of each category, how many expected calls, the
    levels of its user (turns, expertise, ambiguity of the first query) and of the system prompt, and the criteria."""

    tools: Mapping[str, int]
    calls: int
    turns: int
    persona: int
    ambiguity: int
    system: int
    criteria: tuple[str, ...]


def shape_of(tools: Mapping[str, Tool], task: OpenTask) -> DrawnShape:
    """Raises KeyError for a tool that is not among `tools`, ValueError for a task that was not drawn."""
    levels = levels_of(task)
    if levels is None:
        raise ValueError(f"task {task.id} was not drawn from a tool repository")
    assert isinstance(task.goal, Rubric)
    return DrawnShape(
        dict(sorted(Counter(tools[name].group for name in task.tools).items())),
        len(task.goal.calls),
        levels.turns,
        levels.persona,
        levels.ambiguity,
        levels.system,
        task.goal.criteria,
    )


def check_drawn(
    environment: Environment,
    task: OpenTask,
    root: OpenTask,
    gates: Gates,
    playing: Playing,
    *,
    pool: SimilarityIndex,
    held_out: SimilarityIndex,
) -> Checked:
    """Asks every gate that is switched on and holds for a drawn task; witnesses come last, and only where nothing else
    objects, since models may play in them. Raises InfrastructureError where one of these broke."""
    strange = unknown(environment, task)
    asked: list[tuple[Gate, list[Reason]]] = [
        ("replay", foreign(environment, task) if gates.replay else []),
        ("tools", strange if gates.tools else []),
        ("arguments", unfit(environment, task, gates) if gates.arguments else []),
        ("leaks", leaks(environment, task) if gates.leaks else []),
        ("profile", unlike(environment.tools(), root, task) if gates.profile else []),
        ("duplicates", duplicates(task, pool) if gates.duplicates else []),
        ("contamination", contamination(task, held_out) if gates.contamination else []),
    ]
    seen: tuple[Result, ...] = ()
    if not strange and not any(reasons for _, reasons in asked):
        if gates.replay or gates.witness:
            trace = witness(playing(task), task.goal_calls)
            seen = results_of(trace)
        asked += [
            ("replay", failed(task, seen) if gates.replay else []),
            ("grounding", ungrounded(environment.tools(), task.user, task.goal_calls, seen) if gates.grounding else []),
        ]
        if gates.witness and not any(reasons for _, reasons in asked):
            asked.append(("witness", misjudged(environment.tools(), task, playing, trace)))
    return Checked((seen,), None, tuple(GateRejection(gate, tuple(why)) for gate, why in asked if why))


def replayed_drawn(environment: Environment, task: OpenTask, job: Job) -> list[Reason]:
    """Why a variant of a drawn task does not hold any more; empty when it does: its witness is played again by `job`,
    gives the results on record, and is approved of. Raises InfrastructureError where a player broke."""
    if strange := foreign(environment, task):
        return strange
    trace = witness(job, task.goal_calls)
    refused = [] if trace.resolved == trace.expected else [Reason(f"its witness {_earned(trace)}")]
    return failed(task, results_of(trace)) or refused


def unfit(environment: Environment, task: OpenTask, gates: Gates) -> list[Reason]:
    """The expected calls that break their tools' documents, or are larger than a policy writes."""
    tools, reasons = environment.tools(), list[Reason]()
    for index, call in enumerate(task.goal_calls):
        if call.name in tools and (fault := Checker(arguments_schema(tools[call.name])).fault(dict(call.arguments))):
            reasons.append(Reason(f"{call.name}: {fault}", call=index))
        reasons += [Reason(why, call=index) for why in oversized(call, gates)]
    return reasons


def unlike(tools: Mapping[str, Tool], root: OpenTask, task: OpenTask) -> list[Reason]:
    """How the task differs from its root in what variants keep."""
    try:
        old, new = shape_of(tools, root), shape_of(tools, task)
    except KeyError as error:
        return [Reason(f"there is no tool {error}, so its shape is not known")]
    except ValueError as error:
        return [Reason(str(error))]
    return [
        Reason(f"{field.name}: {getattr(new, field.name)} instead of {getattr(old, field.name)}")
        for field in fields(DrawnShape)
        if getattr(new, field.name) != getattr(old, field.name)
    ]


def failed(task: OpenTask, seen: Sequence[Result]) -> list[Reason]:
    """The expected calls that fail, or do not give the results that the task's provenance records."""
    recorded = task.provenance.get("results")
    kept = recorded[0] if isinstance(recorded, list) and recorded and isinstance(recorded[0], list) else None
    reasons = []
    for index, (call, result) in enumerate(zip(task.goal_calls, seen, strict=False)):
        if result.error is not None:
            reasons.append(Reason(f"{call.name} fails ({result.error}): {result.text[:200]}", call=index))
        elif kept is not None and kept[index : index + 1] not in ([result.text], [brief(result.text)]):
            reasons.append(Reason(f"{call.name} gave {result.text[:200]!r}, on record is something else", call=index))
    if len(seen) < len(task.goal_calls):
        reasons.append(Reason(f"the conversation ended before {task.goal_calls[len(seen)].name} could be called"))
    return reasons


def ungrounded(
    tools: Mapping[str, Tool], user: Script | Persona, calls: Sequence[Call], seen: Sequence[Result]
) -> list[Reason]:
    """The arguments of `calls` whose values nobody can know: not said or known by the user, no default, and not in the
    results `seen` of the calls before. That a document lists a value is not enough: nobody would know which one is
    meant."""
    texts = (user.query, *user.further, *user.knows.values()) if isinstance(user, Persona) else user.texts
    heard, shown, reasons = Text.of(" | ".join(texts)), list[Output](), list[Reason]()
    for index, call in enumerate(calls):
        defaults = {each.name: each.default for each in tools[call.name].parameters if each.default is not None}
        for name, value in call.arguments.items():
            known = (
                told(leaf, heard) or any(each.brought(name, leaf) or each.mentions(leaf) for each in shown)
                for _, leaf in leaves({name: value})
            )
            if not all(known) and (name not in defaults or value != defaults[name]):
                why = f"{call.name}: nobody says or knows {name}={value!r}, and no call before shows it"
                reasons.append(Reason(why, call=index))
        shown += [Output((0, index), call, result) for result in seen[index : index + 1]]
    return reasons


def misjudged(tools: Mapping[str, Tool], task: OpenTask, playing: Playing, trace: Trace) -> list[Reason]:
    """How the verifier is wrong: about the witness `trace`, which earns everything, or one that is misled, which does
    not. Raises InfrastructureError."""
    if trace.resolved < trace.expected:
        return [Reason(f"a conversation that makes all expected calls {_earned(trace)}")]
    others = list(misled(task, tools))
    traces = witnesses([(playing(task), calls) for _, calls in others])
    approved = (
        (what, other) for (what, _), other in zip(others, traces, strict=True) if other.resolved == other.expected
    )
    return [Reason(f"a conversation {what} {_earned(other)}") for what, other in approved]


def _earned(trace: Trace) -> str:
    notes = "; ".join(trace.outcome.notes) if trace.outcome is not None else ""
    return f"earns {trace.resolved} of {trace.expected}{f' ({notes[:300]})' if notes else ''}"
