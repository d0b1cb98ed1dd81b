"""Scenarios that models write in a world that models wrote (003 §4): a state, a task, a checklist
of conditions as functions, and a witness, the calls with which an agent has done
the task. Check functions take nothing but the state, and are appended to the world: all scenarios
of a world share one file and one address."""

import ast
import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from rods.analysis.containment import Text, akin, is_number, is_small, leaves, values_in
from rods.analysis.schemas import limits
from rods.asking import AnswerForm, Question, Schema, Unanswered, Unreadable, obj, one_of
from rods.calls import Call
from rods.canonical import JsonMapping, frozen
from rods.conversations import Persona, Script
from rods.daemon.authors.llm.showing import compact, excerpt
from rods.environments.base import Environment, Parameter, Result, Tool, Tools
from rods.environments.changes import changes
from rods.episode.goals import holds
from rods.errors import BrokenEnvironment
from rods.family.environments.checking import scenarios
from rods.family.environments.checking.worlds import OFFERED_TEXT
from rods.family.environments.procedural.scenarios import Mode
from rods.family.environments.programs import WorldProgram
from rods.family.environments.written import building
from rods.family.environments.written.building import unplaced
from rods.family.environments.written.record import FORMS, CachedQuestioner
from rods.prompts import load
from rods.syntax import parse
from rods.tasks import OpenTask, Split
from rods.transcripts import one_line

SHOWN = 4_000  # characters of a result that the agent is shown
FINISH = "finish"
AT_ONCE = 12  # calls
BROKEN = {"state", "witness", "errors", "pure_checks"}  # controls that are not about what is asked
TEMPLATES = ("scenario_state", "scenario_task", "scenario_checklist", "scenario_solver")
GO_ON = "go on"


class NearMiss(building.Dropped):
    """A scenario whose checks a control refuses, or are not true of what an agent did."""


# loads the program of a world
Load = Callable[[WorldProgram], Environment]


@frozen
class WrittenScenario:
    """A scenario before its witness is known. `task` says all at once; a played user opens with
    `query`, and `knows` the rest. `checks` are sources by name, and so is
    the guard of all else, once there is a witness."""

    number: int
    state: JsonMapping
    task: str
    query: str
    manner: str
    knows: Mapping[str, str]
    checks: Mapping[str, str]
    guards: Mapping[str, str] = field(default_factory=dict)

    def asking(self, witness: Sequence[scenarios.WitnessCall]) -> scenarios.Scenario:
        """As the controls want it."""
        checks, guards = (
            tuple(Call(name, {}) for name in names) for names in (self.checks, self.guards)
        )
        return scenarios.Scenario(self.state, (self.task,), tuple(witness), checks, guards)


@frozen
class DoneScenario:
    """A scenario with the witness that an agent found, and what the controls found."""

    written: WrittenScenario
    scenario: scenarios.Scenario
    validated: scenarios.Validated


async def done_scenario(
    authors: CachedQuestioner, program: WorldProgram, load: Load, number: int, state: JsonMapping
) -> DoneScenario:
    """Scenario `number` of a world, from `state`. Its checks are written once more
    where they let a near miss pass, or are not true of what an agent did. Raises Dropped,
    Unanswered, EndpointError, BudgetSpent."""

    scenario = await write_scenario(authors, program, load, number, state)
    try:
        return await find_witness(authors, program, load, scenario, last=False)
    except NearMiss as miss:
        told = "\n".join(f"- {detail}" for detail in miss.details[: building.SHOWN])
        code = "\n\n".join(scenario.checks.values())
    checks = await _checklist(authors, program, number, state, scenario.task, load, told, code)
    return await find_witness(authors, program, load, replace(scenario, checks=checks))


async def write_scenario(
    authors: CachedQuestioner, program: WorldProgram, load: Load, number: int, state: JsonMapping
) -> WrittenScenario:
    """Task and checklist of scenario `number`. Raises Unanswered, EndpointError, BudgetSpent."""
    topic = program.plan.topic
    environment = await asyncio.to_thread(load, program)
    fields = {
        "documentation": program.plan.documentation,
        "state": compact(state),
        "tools": documents(environment.tools().values()),
    }
    asked = Question("scenario_task", fields, FORMS["scenario_task"], dict)
    answer = await authors.ask(asked, topic)
    task = answer["task"].strip()
    checks = await _checklist(authors, program, number, state, task, load)
    authors.tell(topic, f"scenario {number + 1}: task and {len(checks)} checks written")
    return WrittenScenario(
        number=number,
        state=state,
        task=task,
        query=answer["query"].strip(),
        manner=answer["manner"].strip(),
        knows={
            detail["topic"]: detail["words"]
            for detail in answer["knows"]
            if detail["words"].strip()
        },
        checks=checks,
    )


async def _checklist(
    authors: CachedQuestioner,
    program: WorldProgram,
    number: int,
    state: JsonMapping,
    task: str,
    load: Load,
    problem: str = "",
    code: str = "",
) -> dict[str, str]:
    """Checks of a task by name, which are false in the `state`; `problem` is what was wrong with
    those in `code`. Raises Unanswered."""

    def read(answer: JsonMapping) -> dict[str, str]:
        return _read_checks(answer["conditions"], f"scenario_{number}_wants", program.state)

    async def hold(written: dict[str, str]) -> None:
        await asyncio.to_thread(_try_checks, load, program, state, written)

    fields = {
        "documentation": program.plan.documentation,
        "state": program.classes,
        "example": compact(state),
        "task": task,
        "imports": OFFERED_TEXT,
        "problem": problem,
        "code": code,
    }
    form = FORMS["scenario_checklist"]
    sections = ("mend",) if problem else ()
    asked = Question("scenario_checklist", fields, form, read, hold, sections)
    return await authors.ask(asked, program.plan.topic)


def _read_checks(texts: Sequence[str], prefix: str, before: str) -> dict[str, str]:
    """The sources of check functions by their names in the world, which are numbered. Raises
    Unreadable."""
    written = [pair for text in texts for pair in building.functions_in(text).items()]
    return {
        f"{prefix}_{number}": _check(*pair, f"{prefix}_{number}", before)
        for number, pair in enumerate(written, 1)
    }


def _check(called: str, source: str, name: str, before: str) -> str:
    """The source of one check as `name`; `before` it stands the state. Raises Unreadable."""
    imports, function = building.the_function(source, called, (), before)
    first = function.body[0]
    condition = ast.get_docstring(function)
    if not condition or not (body := function.body[1:]):
        what = "say in its docstring what has to be true, and answer whether it is"
        raise Unreadable(f"signature: {what}: {source[:200]}")
    about = ast.Expr(ast.Constant(one_line(condition)))
    # What it imports stands in the function: the checks of all scenarios share one file.
    function.name = name
    function.body = [about, *imports, *body]
    function.returns = ast.Name("bool")
    world = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs][0].arg
    function.args = ast.arguments([], [ast.arg(world, ast.Name("World"))], None, [], [], None, [])
    return ast.unparse(ast.fix_missing_locations(ast.copy_location(function, first))) + "\n"


def _try_checks(
    load: Load, program: WorldProgram, state: JsonMapping, checks: Mapping[str, str]
) -> None:
    """Asks checks of the state in which the task begins. Raises Unreadable for what each of them
    does wrong."""
    faults = list[str]()
    environment = load(replace(program, checks=checks))
    for name, code in checks.items():
        try:
            if holds(environment.reset(dict(state)), Call(name, {})):
                what = "is true already, before anything is done"
                faults.append(f"true_at_start: {condition_of(code)}: {what}")
        except BrokenEnvironment as error:
            faults.append(f"{_control_of(error)}: {condition_of(code)}: {unplaced(error)[:300]}")
    if faults:
        raise Unreadable("; ".join(faults))


def condition_of(code: str) -> str:
    """What a check says of itself."""
    (function,) = parse(code).body
    return (isinstance(function, ast.FunctionDef) and ast.get_docstring(function)) or code


def _control_of(error: BrokenEnvironment) -> str:
    return "pure_checks" if "changed the state" in str(error) else "errors"


async def find_witness(
    authors: CachedQuestioner,
    program: WorldProgram,
    load: Load,
    scenario: WrittenScenario,
    *,
    last: bool = True,
) -> DoneScenario:
    """Has an agent do the task, a few times at most, until all checks hold; leaves out what it did
    in vain, and holds the scenario to the controls. Unless it is the `last` time, the agent sets
    out once, and what does not hold then, or a control refuses, is raised as NearMiss. Raises
    Dropped, BudgetSpent, EndpointError, and any other InfrastructureError that is not of the
    world's own making."""
    why = "no_witness"
    environment = await asyncio.to_thread(load, replace(program, checks=scenario.checks))
    tries = authors.settings.writing.witness_tries
    earlier = ""
    for attempt in range(tries if last else 1):
        try:
            way = await _solved(authors, program, environment, scenario, attempt, earlier)
            calls = linked(environment.tools(), scenario, way.calls, way.results)
            witness = await asyncio.to_thread(shortest, environment, scenario, calls)
        except Unanswered:
            why = "unanswered"
            continue
        except BrokenEnvironment as error:
            raise building.Dropped("scenario", [_control_of(error)], [str(error)[:300]]) from None
        if witness is not None:
            done = await asyncio.to_thread(_controlled, load, program, scenario, witness)
            authors.tell(program.plan.topic, f"scenario {scenario.number + 1}: has a witness")
            return done
        earlier = f"{earlier}\n\n{way.history}".strip()
        if not last:
            unmet = await asyncio.to_thread(_unmet, environment, scenario, way)
            raise NearMiss("scenario", [why], [unmet])
    raise building.Dropped("scenario", [why], [f"no way was found in {tries} tries", earlier])


def _unmet(environment: Environment, scenario: WrittenScenario, way: "_Way") -> str:
    """What is not true after what an agent did."""
    end = environment.reset(dict(scenario.state))
    for call in way.calls:
        scenarios.carried_out(end, call)
    unmet = [
        condition_of(code)
        for name, code in scenario.checks.items()
        if not holds(end, Call(name, {}))
    ]
    return (
        "somebody who knows the task alone did this, and then it was not true that "
        f"{'; that '.join(unmet)}. If this does the task, put the functions right; if it does not, "
        f"leave them as they are:\n{way.history}"
    )


def _controlled(
    load: Load,
    program: WorldProgram,
    scenario: WrittenScenario,
    witness: tuple[scenarios.WitnessCall, ...],
) -> DoneScenario:
    """With a guard of all else: no more of the state is other than at the start than the witness
    has changed. It is left out where no call breaks it. Raises Dropped, NearMiss where it is the
    checks that are refused."""
    instance = load(replace(program, checks=scenario.checks)).reset(dict(scenario.state))
    start = instance.snapshot()
    scenarios.played(instance, witness)
    name = f"scenario_{scenario.number}_keeps_the_rest"
    code = (
        f'def {name}(world: World) -> bool:\n    """All else is as it was."""\n'
        f"    return WORLD.kept(world, {start!r}, {changes(start, instance.snapshot())!r})\n"
    )
    bare = scenario
    scenario = replace(scenario, guards={name: code})
    environment = load(replace(program, checks={**scenario.checks, name: code}))
    validated = scenarios.validate(environment, scenario.asking(witness))
    if [fault.control for fault in validated.faults] == ["guard_without_mutant"]:
        scenario = bare
        validated = scenarios.validate(environment, scenario.asking(witness))
    if faults := validated.faults:
        kind = building.Dropped if {fault.control for fault in faults} & BROKEN else NearMiss
        conditions = {
            str(Call(name, {})): condition_of(code) for name, code in scenario.checks.items()
        }
        raise kind(
            "scenario",
            [fault.control for fault in faults],
            [
                f"{fault.control}: {conditions.get(fault.where, '')} {fault}".replace("  ", " ")
                for fault in faults
            ],
        )
    return DoneScenario(scenario, scenario.asking(witness), validated)


def shortest(
    environment: Environment, scenario: WrittenScenario, calls: Sequence[scenarios.WitnessCall]
) -> tuple[scenarios.WitnessCall, ...] | None:
    """Those of `calls` without which not all checks would hold; None where they do not hold after
    all of them."""
    asked = [Call(name, {}) for name in scenario.checks]

    def done(
        way: Sequence[scenarios.WitnessCall], without: int | None = None
    ) -> list[Result | None] | None:
        """The results, where all checks hold then."""
        instance = environment.reset(dict(scenario.state))
        results = scenarios.played(instance, way, without)
        return results if all(holds(instance, check) for check in asked) else None

    way = tuple(calls)
    if done(way) is None:
        return None
    number = len(way) - 1
    while number >= 0:
        if (results := done(way, number)) is not None:
            # What failed or was not made without it goes with it.
            way = _only(
                way,
                [
                    at
                    for at, result in enumerate(results)
                    if result is not None and result.error is None
                ],
            )
        number = min(number, len(way)) - 1
    return way


def written_task(
    program: WorldProgram,
    environment: Environment,
    done: DoneScenario,
    mode: Mode,
    split: Split,
    models: Sequence[str],
) -> OpenTask:
    """The scenario as a task of `environment`, which has its checks. `told` says everything at
    once; `asked` is a user who is played and whose intent nobody sees."""
    written = done.written
    plan = program.plan
    user: Script | Persona = Script((written.task,))
    if mode == "asked":
        user = Persona(
            written.task, written.query, written.knows, written.manner, len(written.knows) + 4
        )
    provenance = {
        "source": "written",
        "topic": plan.topic,
        "scenario": written.number,
        "models": list(models),
        "prompts": {name: load(name).hash for name in TEMPLATES},
    }
    return scenarios.as_task(
        environment, done.scenario, done.validated, user, split, plan.documentation, provenance
    )


@frozen
class _Way:
    """The calls of one attempt that succeeded, with what they gave, and all calls as they are
    told."""

    calls: Sequence[Call]
    results: Sequence[Result]
    history: str


async def _solved(
    authors: CachedQuestioner,
    program: WorldProgram,
    environment: Environment,
    scenario: WrittenScenario,
    attempt: int,
    earlier: str,
) -> _Way:
    """One attempt, which ends when all checks hold; of `earlier` ones it is told the calls. A call
    that names a key which neither the task nor a result has shown is not made. Of the world's
    documentation it sees the rules, since its questions are many and the tools tell the rest."""
    instance = await asyncio.to_thread(environment.reset, dict(scenario.state))
    tools = environment.tools()
    form = AnswerForm({"calls": calls_schema(tools, AT_ONCE), "then": one_of(GO_ON, FINISH)})
    plan = program.plan
    fields = {
        "documentation": "\n".join((plan.topic, *(f"- {rule}" for rule in plan.rules))),
        "tools": documents(tools.values()),
        "task": scenario.task,
        "earlier": earlier,
    }
    asked_of = [Call(name, {}) for name in scenario.checks]
    calls = list[Call]()
    results = list[Result]()
    history = list[str]()
    heard = Text.of("\n".join((scenario.task, plan.documentation, fields["tools"])))
    shown = set[Any]()

    def read(answer: JsonMapping) -> tuple[list[Call], bool]:
        steps = read_calls(answer)
        return steps, answer["then"] == FINISH or not steps

    def made(call: Call) -> Result:
        keys = scenarios.keys_of(instance.snapshot())
        for value in values_in(call.arguments):
            if value in keys and value not in shown and not heard.contains_any_form(value):
                return Result(
                    f"nobody has said {value}, and no result has shown it: look it up", None, "tool"
                )
        return scenarios.carried_out(instance, call)

    while len(history) < authors.settings.writing.witness_calls:
        asked = {**fields, "calls": "\n".join(history) or "(none yet)"}
        sections = ("mend",) if earlier else ()
        question = Question("scenario_solver", asked, form, read, sections=sections)
        steps, finished = await authors.ask(question, program.plan.topic, attempt)
        refused = False
        for call in steps:
            result = await asyncio.to_thread(made, call)
            refused = result.error is not None
            history.append(
                f"{compact(call.as_json())} → "
                f"{'refused: ' if refused else ''}{excerpt(result.text, SHOWN)}"
            )
            if refused:
                break
            calls.append(call)
            results.append(result)
            shown.update(leaf for _, leaf in leaves(result.value, call.name, keys=True))
        done = await asyncio.to_thread(lambda: all(holds(instance, check) for check in asked_of))
        if done or (finished and not refused):
            break
    return _Way(calls, results, "\n".join(history))


def calls_schema(tools: Iterable[str], most: int) -> Schema:
    """Of a list of calls of the tools with these names, for `read_calls`."""
    call = obj({"name": one_of(*tools), "arguments": {"type": "object"}})
    return {"type": "array", "items": call, "maxItems": most}


def read_calls(answer: JsonMapping) -> list[Call]:
    return [Call(call["name"], call["arguments"]) for call in answer["calls"]]


def documents(tools: Iterable[Tool]) -> str:
    """One line a tool: what it takes, with what is legal, and what it says of itself."""
    return "\n".join(
        f"{tool.name}({', '.join(f'{each.name}: {_legal(each)}' for each in tool.parameters)}): "
        f"{one_line(tool.description)}"
        for tool in tools
    )


def _legal(parameter: Parameter) -> str:
    """The values that an argument may have, in few words."""
    optional = "" if parameter.required else f" = {compact(parameter.default)}"
    match limits(parameter):
        case {"enum": listed}:
            return " | ".join(map(compact, listed)) + optional
        case {"minimum": least, "maximum": most}:
            return f"{least}..{most}{optional}"
        case {"pattern": legal} | {"type": "string" | "boolean" as legal}:
            return f"{legal}{optional}"
        case schema:
            return compact(schema) + optional


@frozen
class _Shown:
    """A value that a call has shown under the name of a field: whether the call has made it, or
    was asked for it (a look-up by what the task tells); and all that it is about."""

    number: int
    field: str
    made: bool
    asked: bool
    about: Sequence[Any]


def linked(
    tools: Tools, scenario: WrittenScenario, calls: Sequence[Call], results: Sequence[Result]
) -> list[scenarios.WitnessCall]:
    """The calls, each with those of its arguments that came from an earlier result: what the task
    does not tell, and no chance explains. One of a few words is known from the tool, and a small
    number is shown under a name like the argument's or about something else in the call. Of several
    results it is the one that has made the value, or else was asked for it: a look-up by what the
    task tells, before one that shows much else."""
    heard = Text.of(scenario.task)
    old = {*values_in(scenario.state, keys=True)}
    witness = list[scenarios.WitnessCall]()
    shown = defaultdict[Any, list[_Shown]](list)
    for number, (call, result) in enumerate(zip(calls, results, strict=True)):
        tool = tools[call.name]
        given = values_in(call.arguments)
        large = [value for value in given if not (is_number(value) and is_small(value))]
        takes = {}
        for name, value in call.arguments.items():
            for leaf in () if "enum" in limits(tool.by_name[name]) else values_in(value):
                sources = [
                    source
                    for source in shown[leaf]
                    if leaf in large
                    or akin(source.field, name)
                    or not set(large).isdisjoint(source.about)
                ]
                if sources and type(leaf) is not bool and not heard.contains_any_form(leaf):
                    takes[name] = max(
                        sources,
                        key=lambda source: (
                            source.made,
                            source.asked,
                            akin(f"{calls[source.number].name} {source.field}", name),
                            -len(source.about),
                            source.number,
                        ),
                    ).number
        witness.append(scenarios.WitnessCall(call, takes))
        there = list(leaves(result.value, call.name, keys=True))
        about = [*given, *(leaf for _, leaf in there)]
        asked = bool(tool.reads) and any(map(heard.contains_any_form, large))
        for under, leaf in there:
            if not (leaf is None or type(leaf) is bool or leaf in given):
                made = not (tool.reads or shown[leaf] or leaf in old)
                shown[leaf].append(_Shown(number, under, made, asked, about))
    return witness


def _only(
    calls: Sequence[scenarios.WitnessCall], numbers: Sequence[int]
) -> tuple[scenarios.WitnessCall, ...]:
    """The calls with these numbers; what is taken from another one is forgotten."""
    place = {number: at for at, number in enumerate(numbers)}
    steps = [calls[number] for number in numbers]
    takes = ({name: place[at] for name, at in step.takes.items() if at in place} for step in steps)
    return tuple(
        scenarios.WitnessCall(step.call, taken) for step, taken in zip(steps, takes, strict=True)
    )
