"""Scenarios that models write in a world that models wrote (003 §4): a state, a task, a checklist,
a check function for each of its conditions, and a witness, the calls with which an agent has done
the task. Check functions take nothing but the state, and are appended to the world: all scenarios
of a world share one file and one address."""

import ast
import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rods.analysis.containment import Text, akin, leaves, values_in
from rods.asking import AnswerForm, Question, Unanswered, Unreadable, one_of, together
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen
from rods.conversations import Persona, Script
from rods.daemon.authors.llm.showing import compact, excerpt
from rods.environments.base import Environment, Result
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.errors import BrokenEnvironment
from rods.family.environments.checking import scenarios
from rods.family.environments.checking.worlds import OFFERED_TEXT
from rods.family.environments.procedural.scenarios import Mode
from rods.family.environments.programs import WorldProgram
from rods.family.environments.written import building
from rods.family.environments.written.record import FORMS, CachedQuestioner
from rods.prompts import load
from rods.syntax import parse
from rods.tasks import OpenTask, Split

SHOWN = 4_000  # characters of a result that the agent is shown
FINISH = "finish"
BROKEN = {"state", "witness", "errors", "pure_checks"}  # controls that are not about what is asked
TEMPLATES = (
    "scenario_state",
    "scenario_task",
    "scenario_checklist",
    "scenario_check",
    "scenario_solver",
)
WHEN = {True: "is true now and has to stay so", False: "is false now and has to be true in the end"}


class NearMiss(building.Dropped):
    """A scenario whose witness is known, and whose checks a control refuses."""


@frozen
class WrittenScenario:
    """A scenario before its witness is known. `task` says all at once; a played user opens with
    `query`, and `knows` the rest. `checks` and `guards` are sources by name."""

    number: int
    state: JsonMapping
    task: str
    query: str
    manner: str
    knows: Mapping[str, str]
    checks: Mapping[str, str]
    guards: Mapping[str, str]

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


async def write_scenario(
    authors: CachedQuestioner,
    program: WorldProgram,
    environments: Environments,
    place: str,
    number: int,
) -> WrittenScenario:
    """State, task, checklist and check functions of scenario `number` in a world that is loaded as
    `place`. Raises Dropped, EndpointError, BudgetSpent."""
    topic = program.plan.topic

    try:
        state = await building.write_state(
            authors, program, environments, place, building.STATES + 1 + number
        )
        tools = environments.load(place).tools().values()
        world = {"documentation": program.plan.documentation, "state": compact(state)}
        fields = {**world, "tools": "\n".join(compact(tool.schema()) for tool in tools)}
        answer = await authors.ask(
            Question("scenario_task", fields, FORMS["scenario_task"], dict), topic
        )
        task = answer["task"].strip()
        checks, guards = await _checklist(authors, program, number, state, task)
    except Unanswered as unanswered:
        raise _dropped(unanswered) from None
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
        guards=guards,
    )


async def with_other_checks(
    authors: CachedQuestioner, program: WorldProgram, scenario: WrittenScenario, miss: NearMiss
) -> WrittenScenario:
    """The scenario with checklist and checks written anew by whoever is told what they let pass.
    Raises Dropped, EndpointError, BudgetSpent."""
    told = "\n".join(f"- {detail}" for detail in miss.details[: building.SHOWN])
    sources = {**scenario.checks, **scenario.guards}
    functions = [parse(code).body[0] for code in sources.values()]
    conditions = [
        ast.get_docstring(node) or "" for node in functions if isinstance(node, ast.FunctionDef)
    ]
    try:
        checks, guards = await _checklist(
            authors,
            program,
            scenario.number,
            scenario.state,
            scenario.task,
            told,
            "\n".join(f"- {condition}" for condition in conditions),
        )
    except Unanswered as unanswered:
        raise _dropped(unanswered) from None
    return replace(scenario, checks=checks, guards=guards)


def _dropped(unanswered: Unanswered) -> building.Dropped:
    return building.Dropped("scenario", [building.control_of(unanswered)], [unanswered.why])


async def _checklist(
    authors: CachedQuestioner,
    program: WorldProgram,
    number: int,
    state: JsonMapping,
    task: str,
    problem: str = "",
    conditions: str = "",
) -> tuple[dict[str, str], dict[str, str]]:
    """Checks and guards of a task by name; `problem` is what was wrong with those of the
    `conditions`. Raises Unanswered."""

    def read_list(answer: JsonObject) -> list[tuple[str, bool]]:
        wanted = [(text, False) for text in answer["conditions"]]
        return [*wanted, *((text, True) for text in answer.get("kept", ()))]

    sections = ("mend",) if problem else ()
    fields = {
        "documentation": program.plan.documentation,
        "state": compact(state),
        "task": task,
        "problem": problem,
        "conditions": conditions,
    }
    form = FORMS["scenario_checklist"]
    asked = Question("scenario_checklist", fields, form, read_list, sections=sections)
    listed = await authors.ask(asked, program.plan.topic)
    wishes = {
        f"scenario_{number}_{'keeps' if stays else 'wants'}_{at}": {
            "task": task,
            "condition": text,
            "when": WHEN[stays],
            "problem": problem,
        }
        for at, (text, stays) in enumerate(listed, 1)
    }
    codes = await together(
        [_check(authors, program, name, wish, compact(state)) for name, wish in wishes.items()]
    )
    sources = dict(zip(wishes, codes, strict=True))
    checks = {name: code for name, code in sources.items() if "_wants_" in name}
    return checks, {name: code for name, code in sources.items() if "_keeps_" in name}


async def find_witness(
    authors: CachedQuestioner,
    program: WorldProgram,
    environment: Environment,
    scenario: WrittenScenario,
) -> DoneScenario:
    """Has an agent do the task, a few times at most, until all checks hold; leaves out what it did
    in vain, and holds the scenario to the controls. Raises Dropped, BudgetSpent, EndpointError, and
    any other InfrastructureError that is not of the world's own making."""
    why = "no_witness"
    for attempt in range(authors.settings.writing.witness_tries):
        try:
            calls, results = await _solved(authors, program, environment, scenario, attempt)
            witness = await asyncio.to_thread(
                shortest, environment, scenario, linked(scenario.task, calls, results)
            )
        except Unanswered:
            why = "unanswered"
            continue
        except BrokenEnvironment as error:
            name = "pure_checks" if "changed the state" in str(error) else "errors"
            raise building.Dropped("scenario", [name], [str(error)[:300]]) from None
        if witness is not None:
            return await asyncio.to_thread(_controlled, environment, scenario, witness)
    raise building.Dropped(
        "scenario", [why], [f"no way was found in {authors.settings.writing.witness_tries} tries"]
    )


def _controlled(
    environment: Environment, scenario: WrittenScenario, witness: tuple[scenarios.WitnessCall, ...]
) -> DoneScenario:
    """Leaves out guards that no call breaks, which guard nothing. Raises Dropped, NearMiss where it
    is the checks that are refused."""
    validated = scenarios.validate(environment, scenario.asking(witness))
    if set(scenarios.reasons(validated)) == {"guard_without_mutant"}:
        idle = {fault.where for fault in validated.faults}
        scenario = replace(
            scenario,
            guards={
                name: code
                for name, code in scenario.guards.items()
                if str(Call(name, {})) not in idle
            },
        )
        validated = scenarios.validate(environment, scenario.asking(witness))
    if faults := validated.faults:
        kind = building.Dropped if {fault.control for fault in faults} & BROKEN else NearMiss
        raise kind(
            "scenario",
            [fault.control for fault in faults],
            [f"{fault.control}: {fault}" for fault in faults],
        )
    return DoneScenario(scenario, scenario.asking(witness), validated)


def shortest(
    environment: Environment, scenario: WrittenScenario, calls: Sequence[scenarios.WitnessCall]
) -> tuple[scenarios.WitnessCall, ...] | None:
    """Those of `calls` without which not all checks would hold; None where they do not hold after
    all of them."""
    asked = [Call(name, {}) for name in (*scenario.checks, *scenario.guards)]

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


async def _check(
    authors: CachedQuestioner,
    program: WorldProgram,
    name: str,
    asked: Mapping[str, str],
    example: str,
) -> str:
    """The source of one check function, called `name`."""
    fields = {
        "documentation": program.plan.documentation,
        "state": program.state,
        "imports": OFFERED_TEXT,
        "example": example,
        **asked,
    }

    def read(answer: JsonMapping) -> str:
        code = building.code_of(answer["code"])
        imports, function = building.the_function(code, "check", (), program.state)
        first = function.body[0]
        body = function.body[1:] if ast.get_docstring(function) else function.body
        if not body:
            raise Unreadable("signature: write the function with something in it")
        about = ast.Expr(ast.Constant(" ".join(asked["condition"].split())))
        # What it imports stands in the function: the checks of all scenarios share one file.
        function.name = name
        function.body = [about, *imports, *body]
        function.returns = ast.Name("bool")
        world = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs][0].arg
        function.args = ast.arguments(
            [], [ast.arg(world, ast.Name("World"))], None, [], [], None, []
        )
        return ast.unparse(ast.fix_missing_locations(ast.copy_location(function, first))) + "\n"

    sections = ("mend",) if asked["problem"] else ()
    question = Question("scenario_check", fields, FORMS["scenario_check"], read, sections=sections)
    return await authors.ask(question, program.plan.topic)


async def _solved(
    authors: CachedQuestioner,
    program: WorldProgram,
    environment: Environment,
    scenario: WrittenScenario,
    attempt: int,
) -> tuple[list[Call], list[Result]]:
    """The calls of one attempt that succeeded, with what they gave."""
    instance = await asyncio.to_thread(environment.reset, dict(scenario.state))
    tools = environment.tools()
    form = AnswerForm(
        {"next": one_of(*tools, FINISH), "arguments": {"type": "object"}},
        optional=frozenset({"arguments"}),
    )
    fields = {
        "documentation": program.plan.documentation,
        "tools": "\n".join(compact(tool.schema()) for tool in tools.values()),
        "task": scenario.task,
    }
    calls = list[Call]()
    results = list[Result]()
    history = list[str]()

    def read(answer: JsonMapping) -> Call | None:
        return (
            None if answer["next"] == FINISH else Call(answer["next"], answer.get("arguments", {}))
        )

    for _ in range(authors.settings.writing.witness_calls):
        asked = {**fields, "calls": "\n".join(history) or "(none yet)"}
        call = await authors.ask(
            Question("scenario_solver", asked, form, read), program.plan.topic, attempt
        )
        if call is None:
            break
        result = await asyncio.to_thread(scenarios.carried_out, instance, call)
        history.append(
            f"{compact(call.as_json())} → "
            f"{'refused: ' if result.error else ''}{excerpt(result.text, SHOWN)}"
        )
        if result.error is None:
            calls.append(call)
            results.append(result)
    return calls, results


def linked(
    task: str, calls: Sequence[Call], results: Sequence[Result]
) -> list[scenarios.WitnessCall]:
    """The calls, each with those of its arguments that the task does not tell and that an earlier
    result has shown to somebody who had not said it: under a name like the argument's, or by a tool
    of such a name, rather than by chance; among such, the result that shows the least else."""
    heard = Text.of(task)
    witness = list[scenarios.WitnessCall]()
    # value → (name that it stood under, how many leaves stood there in all, number of the call)
    sources = defaultdict[Any, list[tuple[str, int, int]]](list)
    for number, (call, result) in enumerate(zip(calls, results, strict=True)):
        takes = {}
        for name, value in call.arguments.items():
            for leaf in values_in(value):
                if leaf in sources and type(leaf) is not bool and not heard.contains_any_form(leaf):
                    shown = sources[leaf]
                    best = max(shown, key=lambda source: (akin(source[0], name), -source[1]))
                    takes[name] = best[2]
        witness.append(scenarios.WitnessCall(call, takes))
        given = values_in(call.arguments)
        there = list(leaves(result.value, call.name, keys=True))
        for field, leaf in there:
            if leaf is not None and leaf not in given:
                sources[leaf].append((field, len(there), number))
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
