"""Scenarios of a world (003 §4) and their controls: an initial state, what is asked for, checks of the final state, and
a *witness*, calls that do what is asked for.

A check is false at the start; one that guards what must not change is true there, is declared a guard, and some
*mutant* (the witness and one call more) breaks it. All are true after the witness; without any one of its calls, some
are not. A call whose argument came from one that is left out is not made then. What fails a control is dropped, with
its reason.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rods.analysis.sampling import Sampler
from rods.calls import Call
from rods.canonical import keyed_random
from rods.conversations import Checks, Persona, Script
from rods.environments.base import Environment, Instance, Result, Tool, checks, reference
from rods.episode.goals import holds
from rods.errors import BrokenEnvironment, InfrastructureError
from rods.faults import NOT_EXECUTED
from rods.tasks import AnyTask, OpenTask, Split
from rods.worlds.checking import Fault

WORD = re.compile(r"[^\W_]+")
MUTANTS = 240  # calls that are tried against a guard


@dataclass(frozen=True, slots=True)
class WitnessCall:
    """One call of a witness; `takes` says which of its arguments came from the result of which earlier call."""

    call: Call
    takes: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {**self.call.as_json(), **({"takes": dict(self.takes)} if self.takes else {})}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> "WitnessCall":
        return WitnessCall(Call(record["name"], record["arguments"]), record.get("takes", {}))


@dataclass(frozen=True, slots=True)
class Scenario:
    """`requests` are what is asked for, in words, one after the other; `brief` is the first one without the details
    that a user `knows` (topic → its words)."""

    state: Mapping[str, Any]
    requests: tuple[str, ...]
    witness: tuple[WitnessCall, ...]
    checks: tuple[Call, ...]
    guards: tuple[Call, ...] = ()
    brief: str = ""
    knows: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScenarioProfile:
    """What a variant of a scenario has like the root of its lineage: the tool groups of its witness, each with how many
    of its calls only read and how many change something; how many checks and guards it has; and whether its user is
    played, and then how many requests it makes later and about how many topics it has to be asked."""

    groups: Mapping[str, tuple[int, int]]
    checks: int
    guards: int
    asked: tuple[int, int] | None


def kinds_of(tools: Mapping[str, Tool], witness: Sequence[WitnessCall]) -> Counter[tuple[str, bool]]:
    """How many calls there are by the group of their tool, and by whether it only reads."""
    called = (tools[made.call.name] for made in witness)
    return Counter((tool.group, bool(tool.reads)) for tool in called)


def profile(tools: Mapping[str, Tool], scenario: Scenario, *, asked: bool) -> ScenarioProfile:
    """Raises KeyError for a call of the witness whose tool is not among `tools`."""
    kinds = kinds_of(tools, scenario.witness)
    return ScenarioProfile(
        {group: (kinds[group, True], kinds[group, False]) for group, _ in sorted(kinds)},
        len(scenario.checks),
        len(scenario.guards),
        (len(scenario.requests) - 1, len(scenario.knows)) if asked else None,
    )


def changed_by(tools: Mapping[str, Tool], witness: Sequence[WitnessCall]) -> tuple[str, ...]:
    """The tools with which a witness changes something, each once."""
    return tuple(sorted({step.call.name for step in witness if not tools[step.call.name].reads}))


def scenario_of(task: AnyTask) -> Scenario | None:
    """The scenario that a task was made of, from its goal and its provenance; None for a task without a witness. What
    a scripted user asks for is one text then, whatever it consists of. Raises ValueError for a witness that cannot be
    read."""
    if not isinstance(task, OpenTask) or not isinstance(task.goal, Checks) or "witness" not in task.provenance:
        return None
    try:
        witness = tuple(WitnessCall.from_json(entry) for entry in task.provenance["witness"])
        guards = int(task.provenance.get("guards", 0))
    except (KeyError, TypeError) as error:
        raise ValueError(f"task {task.id} has a witness that cannot be read: {error!r}") from error
    asked, first = task.goal.calls, len(task.goal.calls) - guards
    scenario = Scenario(task.state or {}, task.texts, witness, asked[:first], asked[first:])
    if isinstance(task.user, Persona):
        requests = (task.user.query, *task.user.further)
        scenario = replace(scenario, requests=requests, brief=task.user.query, knows=task.user.knows)
    return scenario


@dataclass(frozen=True, slots=True)
class Validated:
    """What the controls found: the `faults` for which the scenario is dropped, each with the name of its control, and
    the `mutants`, a call for each guard."""

    faults: tuple[Fault, ...]
    mutants: tuple[Call, ...] = ()


def as_task(
    environment: Environment,
    scenario: Scenario,
    validated: Validated,
    user: Script | Persona,
    split: Split,
    documentation: str,
    provenance: Mapping[str, Any],
) -> OpenTask:
    """The scenario as a task whose `user` asks for it. Witness, guards and mutants are kept in provenance."""
    return OpenTask(
        environment=reference(environment),
        type="base",
        user=user,
        goal=Checks((*scenario.checks, *scenario.guards)),
        tools=tuple(environment.tools()),
        state=scenario.state,
        split=split,
        system=documentation,
        provenance={
            **provenance,
            "witness": [call.as_json() for call in scenario.witness],
            "guards": len(scenario.guards),
            "mutants": [call.as_json() for call in validated.mutants],
        },
    )


def played(instance: Instance, witness: Sequence[WitnessCall], without: int | None = None) -> list[Result | None]:
    """Plays a witness, where asked `without` one of its calls; None: this call was not made, since what it takes from
    another one was not there. Raises InfrastructureError when a call could not be carried out."""
    results: list[Result | None] = []
    for number, step in enumerate(witness):
        sources = [results[source] for source in step.takes.values()]
        if number == without or any(source is None or source.error is not None for source in sources):
            results.append(None)
            continue
        result = instance.call(step.call)
        if result.error in NOT_EXECUTED:
            raise InfrastructureError(f"{step.call} could not be carried out: {result.text[:200]}")
        results.append(result)
    return results


def validate(environment: Environment, scenario: Scenario, random_seed: int = 0, *, sound: bool = False) -> Validated:
    """Holds a scenario to all controls. What the world itself does wrong is a fault as well (`errors`), unless it is
    known to be `sound`: then it is the machinery's. Raises InfrastructureError where the machinery broke."""
    try:
        return _control(environment, scenario, random_seed)
    except ValueError as error:
        return Validated((Fault("state", "", str(error), "draw a legal one", "state"),))
    except BrokenEnvironment as error:
        if sound:
            raise
        name = "pure_checks" if "changed the state" in str(error) else "errors"
        return Validated((Fault("world", "", str(error)[:300], "mend the world", name),))


def _control(environment: Environment, scenario: Scenario, random_seed: int) -> Validated:
    start = environment.reset(dict(scenario.state))
    asked = (*scenario.checks, *scenario.guards)
    seen: list[list[bool]] = [[holds(environment.reset(None), check) for check in asked]]  # by world, by check
    before = [holds(start, check) for check in asked]
    faults: list[Fault] = []
    end = start.fork()
    results = played(end, scenario.witness)
    for step, result in zip(scenario.witness, results, strict=True):
        if result is None or result.error is not None:
            why = "what it takes was not there" if result is None else result.text
            faults.append(Fault(str(step.call), "", f"fails in the witness: {why}", "find another way", "witness"))
    after = [holds(end, check) for check in asked]
    seen += [before, after]
    for number, step in enumerate(scenario.witness):
        world = start.fork()
        played(world, scenario.witness, without=number)
        seen.append([holds(world, check) for check in asked])
        if not faults and all(after) and all(seen[-1]):
            what, remedy = "can be left out, and all checks hold", "check what it does, or leave it out"
            faults.append(Fault(str(step.call), "", what, remedy, "needless"))
    for number, check in enumerate(scenario.checks):
        answers = [world[number] for world in seen]
        if fault := _check_fault(answers, before[number], after[number]):
            faults.append(Fault(str(check), "", *fault))
    mutants = []
    for number, guard in enumerate(scenario.guards, start=len(scenario.checks)):
        if not (before[number] and after[number]):
            when = "at the start" if not before[number] else "after the witness"
            what, remedy = f"guards something, but is false {when}", "ask of what stays as it is"
            faults.append(Fault(str(guard), "", what, remedy, "guard_broken"))
        elif (mutant := _mutant(environment, end, guard, random_seed)) is None:
            what = f"none of {MUTANTS} calls after the witness broke it"
            faults.append(Fault(str(guard), "", what, "guard what can be broken", "guard_without_mutant"))
        else:
            mutants.append(mutant)
    return Validated(tuple(faults), tuple(mutants))


def _check_fault(answers: Sequence[bool], before: bool, after: bool) -> tuple[str, str, str] | None:
    """(what, remedy, control), of its answers in all worlds that were tried."""
    if all(answers):
        return "is true in every world that was tried, the empty one too", "ask of what is to change", "always_true"
    if not any(answers):
        return "is false in every world that was tried", "ask of what the witness does", "always_false"
    if before:
        return "is true before anything is done", "declare it a guard, or ask of what is to change", "true_at_start"
    return None if after else ("is false after the witness", "ask of what the witness does", "false_on_witness")


def _mutant(environment: Environment, end: Instance, guard: Call, random_seed: int) -> Call | None:
    """A call after which the guard is false, in a world in which it is true. Tools whose names have most words in
    common with the guard's, or with what one without arguments says of itself, are tried first."""
    sampler = Sampler(keyed_random(random_seed, "mutant", str(guard)))
    sampler.learn("", end.snapshot())
    told = "" if guard.arguments else checks(environment)[guard.name].description
    named = {*guard.name.split("_"), *WORD.findall(told.lower())}
    tools = [tool for tool in environment.tools().values() if not tool.reads]
    tools.sort(key=lambda tool: (-len(named & {*tool.name.split("_"), *tool.group.lower().split()}), tool.name))
    for number in range(MUTANTS if tools else 0):
        near = tools[: 2 if number < MUTANTS // 2 else len(tools)]
        call = sampler.call(near[number % len(near)])
        world = end.fork()
        if world.call(call).error is None and not holds(world, guard):
            return call
    return None


def reasons(validated: Validated) -> Iterator[str]:
    """The names of the controls that a scenario failed, once each."""
    yield from dict.fromkeys(fault.control for fault in validated.faults)
