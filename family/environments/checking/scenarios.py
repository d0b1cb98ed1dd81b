"""Scenarios of a world (003 §4) and their controls, which docs/generated.md lists: an initial
state, what is asked for, checks of the final state, some of which guard what must not change, and a
*witness*, calls that do what is asked for. What fails a control is dropped, with its reason. A call
whose argument came from one that is left out is not made then.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from rods.analysis.containment import WORD, Text, leaves
from rods.analysis.sampling import Sampler
from rods.analysis.schemas import limits
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen, keyed_random
from rods.conversations import Checks, Persona, Script
from rods.environments.base import Environment, Instance, Result, Tools, checks, reference
from rods.episode.goals import holds
from rods.errors import BrokenEnvironment, InfrastructureError
from rods.faults import NOT_EXECUTED
from rods.tasks import AnyTask, OpenTask, Split
from rods.worlds.checking import Fault

MUTANTS = 1000  # calls that are tried against a guard
# of an argument's other values, and those of them that are tried
DRAWS = 12
VALUES = 3
BY_CHANCE = 12  # sequences of calls by chance
SHIFT = 17  # by which a counter of keys is ahead


@frozen
class WitnessCall:
    """One call of a witness; `takes` says which of its arguments came from the result of which
    earlier call."""

    call: Call
    takes: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        return {**self.call.as_json(), **({"takes": dict(self.takes)} if self.takes else {})}

    @staticmethod
    def from_json(record: JsonMapping) -> "WitnessCall":
        return WitnessCall(Call(record["name"], record["arguments"]), record.get("takes", {}))


@frozen
class Scenario:
    """`requests` are what is asked for, in words, one after the other; `brief` is the first one
    without the details that a user `knows` (topic → its words)."""

    state: JsonMapping
    requests: tuple[str, ...]
    witness: tuple[WitnessCall, ...]
    checks: tuple[Call, ...]
    guards: tuple[Call, ...] = ()
    brief: str = ""
    knows: Mapping[str, str] = field(default_factory=dict)


@frozen
class ScenarioProfile:
    """What a variant of a scenario has like the root of its ancestry: the tool groups of its
    witness, each with how many of its calls only read and how many change something; how many
    checks and guards it has; and whether its user is played, and then how many requests it makes
    later and about how many topics it has to be asked."""

    groups: Mapping[str, tuple[int, int]]
    checks: int
    guards: int
    asked: tuple[int, int] | None


def kinds_of(tools: Tools, witness: Sequence[WitnessCall]) -> Counter[tuple[str, bool]]:
    """How many calls there are by the group of their tool, and by whether it only reads."""
    called = (tools[step.call.name] for step in witness)
    return Counter((tool.group, bool(tool.reads)) for tool in called)


def profile(tools: Tools, scenario: Scenario, *, asked: bool) -> ScenarioProfile:
    """Raises KeyError for a call of the witness whose tool is not among `tools`."""
    kinds = kinds_of(tools, scenario.witness)
    return ScenarioProfile(
        {group: (kinds[group, True], kinds[group, False]) for group, _ in sorted(kinds)},
        len(scenario.checks),
        len(scenario.guards),
        (len(scenario.requests) - 1, len(scenario.knows)) if asked else None,
    )


def changed_by(tools: Tools, witness: Sequence[WitnessCall]) -> Counter[str]:
    """The tools with which a witness changes something, each with how often."""
    return Counter(step.call.name for step in witness if not tools[step.call.name].reads)


def scenario_of(task: AnyTask) -> Scenario | None:
    """The scenario that a task was made of, from its goal and its provenance; None for a task
    without a witness. What a scripted user asks for is one text then, whatever it consists of.
    Raises ValueError for a witness that cannot be read."""
    if (
        not isinstance(task, OpenTask)
        or not isinstance(task.goal, Checks)
        or "witness" not in task.provenance
    ):
        return None
    try:
        witness = tuple(WitnessCall.from_json(entry) for entry in task.provenance["witness"])
        guards = int(task.provenance.get("guards", 0))
    except (KeyError, TypeError) as error:
        raise ValueError(f"task {task.id} has a witness that cannot be read: {error!r}") from error
    asked = task.goal.calls
    first = len(task.goal.calls) - guards
    scenario = Scenario(task.state or {}, task.texts, witness, asked[:first], asked[first:])
    if isinstance(task.user, Persona):
        scenario = replace(
            scenario,
            requests=(task.user.query, *task.user.further),
            brief=task.user.query,
            knows=task.user.knows,
        )
    return scenario


@frozen
class Validated:
    """What the controls found: the `faults` for which the scenario is dropped, each with the name
    of its control, and the `mutants`, a call for each guard."""

    faults: tuple[Fault, ...]
    mutants: tuple[Call, ...] = ()


def as_task(
    environment: Environment,
    scenario: Scenario,
    validated: Validated,
    user: Script | Persona,
    split: Split,
    documentation: str,
    provenance: JsonMapping,
) -> OpenTask:
    """The scenario as a task whose `user` asks for it. Witness, guards and mutants are kept in
    provenance."""
    goal = Checks((*scenario.checks, *scenario.guards))
    tools = tuple(environment.tools())
    return OpenTask(
        reference(environment),
        "base",
        user,
        goal,
        tools,
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


def played(
    instance: Instance, witness: Sequence[WitnessCall], without: int | None = None
) -> list[Result | None]:
    """Plays a witness, where asked `without` one of its calls; None: this call was not made, since
    what it takes from another one was not there. Raises InfrastructureError when a call could not
    be carried out."""
    results: list[Result | None] = []
    for number, step in enumerate(witness):
        sources = [results[source] for source in step.takes.values()]
        if number == without or any(
            source is None or source.error is not None for source in sources
        ):
            results.append(None)
            continue
        results.append(carried_out(instance, step.call))
    return results


def carried_out(instance: Instance, call: Call) -> Result:
    """The result of a call. Raises InfrastructureError when it could not be carried out."""
    result = instance.call(call)
    if result.error in NOT_EXECUTED:
        raise InfrastructureError(f"{call} could not be carried out: {result.text[:200]}")
    return result


def validate(
    environment: Environment, scenario: Scenario, random_seed: int = 0, *, sound: bool = False
) -> Validated:
    """Holds a scenario to all controls. What the world itself does wrong is a fault as well
    (`errors`), unless it is known to be `sound`: then it is the machinery's. Raises
    InfrastructureError where the machinery broke."""
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
    # by world, by check
    seen = [[holds(environment.reset(None), check) for check in asked]]
    before = [holds(start, check) for check in asked]
    faults: list[Fault] = []
    end = start.fork()
    results = played(end, scenario.witness)
    for step, result in zip(scenario.witness, results, strict=True):
        if result is None or result.error is not None:
            why = "what it takes was not there" if result is None else result.text
            faults.append(
                Fault(
                    str(step.call),
                    "",
                    f"fails in the witness: {why}",
                    "find another way",
                    "witness",
                )
            )
    after = [holds(end, check) for check in asked]
    seen += [before, after]
    for number, step in enumerate(scenario.witness):
        world = start.fork()
        played(world, scenario.witness, without=number)
        seen.append([holds(world, check) for check in asked])
        if not faults and all(after) and all(seen[-1]):
            faults.append(
                Fault(
                    str(step.call),
                    "",
                    "can be left out, and all checks hold",
                    "check what it does, or leave it out",
                    "needless",
                )
            )
    for number, check in enumerate(scenario.checks):
        answers = [world[number] for world in seen]
        if fault := _check_fault(answers, before[number], after[number]):
            faults.append(Fault(str(check), "", *fault))
    mutants = []
    for number, guard in enumerate(scenario.guards, start=len(scenario.checks)):
        if not (before[number] and after[number]):
            when = "at the start" if not before[number] else "after the witness"
            faults.append(
                Fault(
                    str(guard),
                    "",
                    f"guards something, but is false {when}",
                    "ask of what stays as it is",
                    "guard_broken",
                )
            )
        elif (mutant := _mutant(environment, end, guard, random_seed)) is None:
            faults.append(
                Fault(
                    str(guard),
                    "",
                    f"none of {MUTANTS} calls after the witness broke it",
                    "guard what can be broken",
                    "guard_without_mutant",
                )
            )
        else:
            mutants.append(mutant)
    if not faults:
        for control, way, world in _near_misses(environment, scenario, start, end, random_seed):
            if any(fault.control == control for fault in faults) or world.same_state(end):
                continue
            if all(holds(world, check) for check in asked):
                faults.append(
                    Fault(
                        way,
                        "",
                        "earns full marks, but is not what was asked for",
                        "check of what something is true",
                        control,
                    )
                )
        faults += _minted_keys(environment, scenario, start, end, results)
    return Validated(tuple(faults), tuple(mutants))


def _near_misses(
    environment: Environment, scenario: Scenario, start: Instance, end: Instance, random_seed: int
) -> Iterator[tuple[str, str, Instance]]:
    """(control, what was done, the world then)."""
    for control, steps in _variations(environment.tools(), scenario, start, random_seed):
        world = start.fork()
        played(world, steps)
        yield control, "; ".join(str(step.call) for step in steps), world
    witnessed = start.fork()
    before = start.snapshot()
    after = end.snapshot()
    for number, step in enumerate(scenario.witness):
        carried_out(witnessed, step.call)
        then = before
        before = witnessed.snapshot()
        changed = [
            name for name, now in before.items() if now != then[name] and not isinstance(now, int)
        ]
        lists = [name for name in changed if isinstance(before[name], list)]
        grown = [name for name in lists if before[name][: len(then[name])] == then[name]]
        if 0 < len(grown) < len(changed):
            world = start.fork()
            played(world, scenario.witness, without=number)
            # Nobody may ever get there, so that neither the world nor a check need know what to do.
            with suppress(ValueError, BrokenEnvironment):
                world = environment.reset(
                    {**world.snapshot(), **{name: after[name] for name in grown}}
                )
                if all(holds(world, check) for check in scenario.checks):
                    yield "log_alone", f"{step.call} in {', '.join(grown)}", world


def _variations(
    tools: Tools, scenario: Scenario, start: Instance, random_seed: int
) -> Iterator[tuple[str, list[WitnessCall]]]:
    """Ways that differ from the witness in what is asked for, each with its control. An argument
    that nobody told and no result has shown may be anything."""
    witness = scenario.witness
    rng = keyed_random(random_seed, "near misses", *(str(step.call) for step in witness))
    heard = Text.of("\n".join((*scenario.requests, scenario.brief, *scenario.knows.values())))
    sampler = Sampler(rng)
    changers = [tool for tool in tools.values() if not tool.reads]
    sampler.learn("", start.snapshot())
    # by number of a call that changes something: its arguments that are asked for
    asked = dict[int, JsonObject]()
    for number, step in enumerate(witness):
        arguments = step.call.arguments.items()
        if not tools[step.call.name].reads:
            asked[number] = {
                name: its
                for name, its in arguments
                if name in step.takes or heard.contains_any_form(its)
            }

    def exchanged(value: Any, other: Any, numbers: Sequence[int]) -> list[WitnessCall]:
        return [replace(step, call=Call(step.call.name, {
            name: other if number in numbers and name in asked[number] and its == value else its
            for name, its in step.call.arguments.items()
        })) for number, step in enumerate(witness)]  # fmt: skip

    for number, wanted in asked.items():
        call = witness[number].call
        near = Sampler(rng)
        for parameter in tools[call.name].parameters:
            if parameter.name not in wanted:
                continue
            value = wanted[parameter.name]
            drawn = [sampler.value(parameter.name, limits(parameter)) for _ in range(DRAWS)]
            alike = [at for at, wants in asked.items() if value in wants.values()]
            for other in [new for at, new in enumerate(drawn) if new not in (value, *drawn[:at])][
                :VALUES
            ]:
                yield "another_value", exchanged(value, other, [number])
                if len(alike) > 1:
                    yield "another_target", exchanged(value, other, alike)
        near.learn("", dict(call.arguments))
        for tool in [tool for tool in changers if tool.name != call.name] * VALUES:
            instead = near.call(tool)
            if any(value in call.arguments.values() for value in instead.arguments.values()):
                yield (
                    "another_tool",
                    [*witness[:number], WitnessCall(instead), *witness[number + 1 :]],
                )
    sampler.learn("", [dict(step.call.arguments) for step in witness])
    for _ in range(BY_CHANCE):
        calls = [sampler.call(rng.choice(changers)) for _ in asked]
        named = [(witness[number].call.name, wants.items()) for number, wants in asked.items()]
        if not all(
            any(call.name == name and wants <= call.arguments.items() for call in calls)
            for name, wants in named
        ):
            yield "by_chance", [WitnessCall(call) for call in calls]


def _minted_keys(
    environment: Environment,
    scenario: Scenario,
    start: Instance,
    end: Instance,
    results: Sequence[Result | None],
) -> Iterator[Fault]:
    """Checks that are false after the witness where a counter of the state is ahead, so that the
    keys which the witness makes are other ones; its calls take them from its own results."""
    before = start.snapshot()
    after = end.snapshot()
    new = keys_of(after) - keys_of(before)
    for counter in [
        name for name, value in after.items() if new and type(value) is int and value > before[name]
    ]:
        try:
            world = environment.reset({**before, counter: before[counter] + SHIFT})
        except ValueError:
            continue  # it has reached its bound
        # by call of the witness: a leaf of its result → what stands in its place here
        here: list[JsonObject] = []
        for step, result in zip(scenario.witness, results, strict=True):
            called = {name: here[source] for name, source in step.takes.items()}
            taken = {
                name: called.get(name, {}).get(str(value), value)
                for name, value in step.call.arguments.items()
            }
            answer = carried_out(world, Call(step.call.name, taken))
            if result is None or answer.error is not None:
                break
            pairs = zip(
                leaves(result.value, keys=True), leaves(answer.value, keys=True), strict=False
            )
            here.append({str(old): leaf for (_, old), (_, leaf) in pairs})
        if len(here) == len(results) and not new <= keys_of(world.snapshot()):
            what = f"is false where {counter} is {SHIFT} ahead, so that the world makes other keys"
            for check in [check for check in scenario.checks if not holds(world, check)]:
                yield Fault(str(check), "", what, "find things by their names", "minted_key")


def keys_of(state: JsonMapping) -> set[str]:
    """The keys of its tables."""
    return {key for table in state.values() if isinstance(table, dict) for key in table}


def _check_fault(answers: Sequence[bool], before: bool, after: bool) -> tuple[str, str, str] | None:
    """(what, remedy, control), of its answers in all worlds that were tried."""
    if all(answers):
        return (
            "is true in every world that was tried, the empty one too",
            "ask of what is to change",
            "always_true",
        )
    if not any(answers):
        return (
            "is false in every world that was tried",
            "ask of what the witness does",
            "always_false",
        )
    if before:
        return (
            "is true before anything is done",
            "declare it a guard, or ask of what is to change",
            "true_at_start",
        )
    return (
        None
        if after
        else ("is false after the witness", "ask of what the witness does", "false_on_witness")
    )


def _mutant(environment: Environment, end: Instance, guard: Call, random_seed: int) -> Call | None:
    """A call after which the guard is false, in a world in which it is true. Tools whose names have
    most words in common with the guard's, or with what one without arguments says of itself, are
    tried first."""
    sampler = Sampler(keyed_random(random_seed, "mutant", str(guard)))
    sampler.learn("", end.snapshot())
    description = "" if guard.arguments else checks(environment)[guard.name].description
    named = {*guard.name.split("_"), *WORD.findall(description.lower())}
    tools = [tool for tool in environment.tools().values() if not tool.reads]
    tools.sort(
        key=lambda tool: (
            -len(named & {*tool.name.split("_"), *tool.group.lower().split()}),
            tool.name,
        )
    )
    for number in range(MUTANTS if tools else 0):
        near = tools[: 2 if number < MUTANTS // 2 else len(tools)]
        call = sampler.call(near[number % len(near)])
        world = end.fork()
        if carried_out(world, call).error is None and not holds(world, guard):
            return call
    return None


def reasons(validated: Validated) -> Iterator[str]:
    """The names of the controls that a scenario failed, once each."""
    yield from dict.fromkeys(fault.control for fault in validated.faults)
