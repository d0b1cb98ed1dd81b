"""Writes worlds by models (003 §3.2): a plan, the classes of the state, a function for each tool.
What a control refuses goes back to the model with the control's name, to the classes or to the one
tool that it is about; after a few corrections the world is dropped."""

import ast
import asyncio
import builtins
import keyword
import re
import tempfile
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rods.analysis.containment import COMMON, WORD, values_in
from rods.asking import AnswerForm, Question, Unanswered, Unreadable, together
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen, keyed_random, without
from rods.config import Sandbox
from rods.daemon.authors.llm.showing import compact, excerpt
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.errors import BrokenEnvironment
from rods.family.environments.checking.worlds import (
    ALLOWED,
    OFFERED_TEXT,
    check_world,
    program_faults,
)
from rods.family.environments.programs import (
    RULES,
    STATE_PART,
    PlannedTool,
    WorldPlan,
    WorldProgram,
    placed,
)
from rods.family.environments.written.record import FORMS, CachedQuestioner
from rods.syntax import parse
from rods.transcripts import one_line
from rods.worlds.checking import CheckReport, Fault

STATES = 2  # in which a world is controlled, beside the empty one
ENTRIES = 200  # of one table, at most
# no tool is called so: of a file's own, and what may be imported
NAMES_TAKEN = {"environment", *(name for names in ALLOWED.values() for name in names)}
VARIED = 60  # states of each example of a broken rule that the rules are tried on
TOOL_TOKENS = 512  # of each tool beside the first that one answer holds
LINE = 200  # characters of a state that are shown to whoever writes another one
SHOWN = 8  # faults that a model is told at a time
REFUSAL = re.compile(r"(?i)\b(?:refuse|only (?:if|when|while)|unless|not allowed|cannot|must)")
# of a class, or beside one: nothing that a state is written with
FUNCTION = re.compile(r"^( *)(?:@\w+\n\1)?def .*\n(?:\1[ )].*\n|\n)*", re.MULTILINE)


class Dropped(Exception):
    """A `world` or `scenario` (`what`) that is given up: for these `reasons`, names of controls as
    a rule, found in this (`details`)."""

    def __init__(self, what: str, reasons: Sequence[str], details: Sequence[str]) -> None:
        super().__init__(f"{what}: {', '.join(reasons)}")
        self.what = what
        self.reasons = tuple(dict.fromkeys(reasons))
        self.details = tuple(details)


@frozen
class BuiltWorld:
    """A world that has passed all controls, and the states that it was controlled in."""

    program: WorldProgram
    states: tuple[JsonObject, ...]


async def build(authors: CachedQuestioner, topic: str, sandbox: Sandbox) -> BuiltWorld:
    """Writes a world of `topic` and holds it to its controls, confined as `sandbox` says. Raises
    Dropped, EndpointError, BudgetSpent."""
    try:
        plan = await _plan(authors, topic)
    except Unanswered as unanswered:
        raise Dropped("world", [control_of(unanswered)], [unanswered.why]) from None
    authors.tell(topic, f"{len(plan.tools)} tools and {len(plan.rules)} rules planned")
    return await corrected(authors, BuiltWorld(WorldProgram(plan), ()), {STATE_PART: ""}, sandbox)


async def corrected(
    authors: CachedQuestioner, world: BuiltWorld, problems: Mapping[str, str], sandbox: Sandbox
) -> BuiltWorld:
    """The world with the parts in `problems` written anew, each told what was wrong with it, until
    all controls are passed. A tool that breaks a rule goes back to its writer once; breaks it the
    rule again, it is the rules that go back. Raises as `build`."""
    program = world.program
    states = list(world.states)
    report = CheckReport(program.plan.topic, ())
    blamed = set[tuple[str, str]]()
    try:
        for number in range(authors.settings.writing.corrections + 1):
            if STATE_PART in problems:
                program, states = await _stated(
                    authors, program, problems[STATE_PART], sandbox, number
                )
            fresh = [tool for tool in program.plan.tools if tool.name not in program.tools]
            again = [tool for tool in program.plan.tools if tool.name in problems]
            parts = [*_groups(authors, fresh), *_groups(authors, again)]
            written = await together(
                [_tools(authors, program, part, problems, number) for part in parts]
            )
            tools = {name: code for part in written for name, code in part.items()}
            program = replace(program, tools={**program.tools, **tools})
            authors.tell(program.plan.topic, f"{len(tools)} tools written, controls begin")
            report = await asyncio.to_thread(_controlled, program, states, sandbox)
            if not world.program.tools and number == 0:
                report = replace(report, faults=(*report.faults, *unsaid(program)))
            found = f"{len(report.faults)} faults found" if report.faults else "controls passed"
            authors.tell(program.plan.topic, found)
            if report.ok:
                return BuiltWorld(program, tuple(states))
            problems = parts_at_fault(program, report.faults, blamed)
            blamed.update(map(_breach, report.faults))
            authors.record.append(
                "refused",
                about=program.plan.topic,
                faults=[fault.as_json() for fault in report.faults],
            )
    except Unanswered as unanswered:
        raise Dropped("world", [control_of(unanswered)], [unanswered.why]) from None
    raise Dropped(
        "world", [fault.control for fault in report.faults], [str(fault) for fault in report.faults]
    )


async def write_state(
    authors: CachedQuestioner,
    program: WorldProgram,
    environment: Environment,
    others: Sequence[JsonMapping],
) -> JsonObject:
    """A state of a world (003 eq. 8), legal in its `environment`, about other things than the
    `others`. Raises Unanswered."""

    async def legal(state: JsonObject) -> None:
        try:
            await asyncio.to_thread(environment.reset, state)
        except ValueError as error:
            raise Unreadable(f"the world refuses this state: {unplaced(error)}") from None

    fields = {
        "documentation": program.plan.documentation,
        "state": FUNCTION.sub("", program.classes),
        "number": str(len(others) + 1),
        "others": "\n".join(map(_about, others)) or "(none yet)",
    }
    question = Question(
        "scenario_state",
        fields,
        FORMS["scenario_state"],
        lambda answer: dict(answer["state"]),
        legal,
    )
    return await authors.ask(question, program.plan.topic)


def _about(state: JsonMapping) -> str:
    """A line of what is in a state: its texts of several words."""
    texts = [text for text in values_in(state, keys=True) if isinstance(text, str) and " " in text]
    return f"- {excerpt(one_line(', '.join(dict.fromkeys(texts))), LINE)}"


def parts_at_fault(
    program: WorldProgram, faults: Sequence[Fault], blamed: Collection[tuple[str, str]] = ()
) -> dict[str, str]:
    """The parts of a program that are to be written anew, each with what was wrong, a line a fault.
    What is about no tool is about the state, and so is a rule for whose breach a tool was `blamed`
    before."""
    parts: dict[str, list[str]] = {}
    for fault in faults:
        line = f"- {fault.control}: {fault}"
        if fault.control == "rules" and _breach(fault) in blamed:
            part = STATE_PART
            asked = "was corrected for that: is the rule right? Its source now"
            line += f"\n  {fault.where} {asked}:\n{program.tools[fault.where]}"
        elif fault.where in program.tools:
            part = fault.where
        else:
            part = (_place(program, fault) or (STATE_PART, 0))[0]
        parts.setdefault(part, []).append(line)
    return {part: "\n".join(dict.fromkeys(lines[:SHOWN])) for part, lines in parts.items()}


def unsaid(program: WorldProgram) -> Iterator[Fault]:
    """The tools that refuse something by their plan, and do not say so in their docstrings."""
    for tool in program.plan.tools:
        said = _stems(ast.get_docstring(parse(program.tools[tool.name]).body[-1]) or "")
        for part in re.split(r"[.;:] ?", tool.about):
            words = _stems(part)
            if REFUSAL.search(part) and len(words & said) < len(words) / 2:
                what = f"leaves out of its docstring what its plan says of it: {part}"
                yield Fault(tool.name, "", what, "say when it refuses", "documents")


def _stems(text: str) -> set[str]:
    return {word[:5] for word in WORD.findall(text.casefold()) if word not in COMMON}


def _breach(fault: Fault) -> tuple[str, str]:
    """The tool that broke a rule, and which one: as what was found begins."""
    return fault.where, fault.what.partition(":")[0]


def control_of(unanswered: Unanswered) -> str:
    """The name of the control by which the last answer was refused, "unanswered" where none was."""
    name, colon, _ = unanswered.why.partition(": ")
    return name if colon and name.isidentifier() else "unanswered"


def unplaced(error: Exception) -> str:
    """What an error says, without the folder of this machine in which a world was tried."""
    return re.sub(r"[^\s'\"]*/(?=world\.py)", "", str(error))


def code_of(text: str) -> str:
    """The program in an answer: without a fence around it, and without what no later part of a file
    may have. Raises Unreadable where it does not parse."""
    fenced = text.split("```")
    code = fenced[1].partition("\n")[2] if len(fenced) >= 3 else text
    lines = textwrap.dedent(code.strip("\n")).splitlines()
    code = (
        "\n".join(line for line in lines if not line.startswith("from __future__")).strip() + "\n"
    )
    try:
        parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"syntax: it is no Python: {error}") from None
    return code


def functions_in(text: str) -> dict[str, str]:
    """The functions in an answer by name, each with the imports that stand beside it. Raises
    Unreadable where something else stands there."""
    code = code_of(text)
    body = parse(code).body
    imports = [ast.unparse(node) for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    if not functions or len(functions) + len(imports) < len(body):
        raise Unreadable("signature: write functions alone, without class, call or example")
    lines = code.splitlines()
    return {
        node.name: "\n".join([*imports, *lines[node.lineno - 1 : node.end_lineno], ""])
        for node in functions
    }


def the_function(
    code: str, name: str, takes: Sequence[str], before: str
) -> tuple[Sequence[ast.stmt], ast.FunctionDef]:
    """The imports and the only function of `code`, which is to be called `name` and to take the
    state and then `takes`; `before` it stands the state. Raises Unreadable, with the name of the
    control that a fault belongs to."""
    whole = parse(code).body
    imports = [node for node in whole if isinstance(node, (ast.Import, ast.ImportFrom))]
    body = [node for node in whole if node not in imports]
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef) or body[0].name != name:
        raise Unreadable(f"signature: write the one function {name}, without class or example")
    function = body[0]
    parameters = body[0].args
    taken = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
    names = [parameter.arg for parameter in taken]
    if parameters.vararg or parameters.kwarg or names[1:] != list(takes) or not names:
        raise Unreadable(f"signature: it was to be {name}({', '.join(('world: World', *takes))})")
    if any(parameter.annotation is None for parameter in taken[1:]) or not function.returns:
        raise Unreadable("signature: give every parameter and the result a type")
    if faults := fault_text(before, code):
        raise Unreadable(faults)
    return imports, function


def fault_text(before: str, code: str) -> str:
    """What the syntax tree of `code`, which follows `before`, shows, for the model to read; ""
    where all is well."""
    offset = before.count("\n")
    faults = program_faults(before + code, "line")
    return "; ".join(
        f"{fault.control}: line {int(line) - offset} {fault.what} → {fault.remedy}"
        for fault in faults[:SHOWN]
        if (line := fault.where.rpartition(":")[2]).isdigit() and int(line) > offset
    )


async def _plan(authors: CachedQuestioner, topic: str) -> WorldPlan:
    writing = authors.settings.writing
    parts = FORMS["world_plan"].fields
    form = AnswerForm({**parts, "tools": {**parts["tools"], "maxItems": writing.most_tools}})

    def read(answer: JsonObject) -> WorldPlan:
        tools = tuple(map(_planned_tool, answer["tools"]))
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise Unreadable("two tools have one name")
        if len(tools) < writing.fewest_tools:
            raise Unreadable(
                f"there are {len(tools)} tools, at least {writing.fewest_tools} are wanted"
            )
        if len({tool.reads for tool in tools}) < 2:
            raise Unreadable("some tools are to read only, and some to change something")
        tables = {table["name"]: table["about"] for table in answer["tables"]}
        return WorldPlan(topic, tables, tuple(map(one_line, answer["rules"])), tools)

    fields = {"topic": topic, "fewest": str(writing.fewest_tools), "most": str(writing.most_tools)}
    return await authors.ask(Question("world_plan", fields, form, read), topic)


def _planned_tool(answer: JsonMapping) -> PlannedTool:
    """A tool as it was planned. What Python, or the file of a world, means something else by is
    named after what it is of: `id` of cancel_order is `order_id`, `open` of doors `open_door`."""
    group = re.sub(r"\W+", "", answer["group"].title()) or "Tools"
    name = _renamed(answer["name"], NAMES_TAKEN, after=group.lower().removesuffix("s"))
    noun = name.rpartition("_")[2].removesuffix("s")
    takes = dict[str, str]()
    for parameter in answer["takes"]:
        called = _renamed(parameter["name"], {"world"}, before=noun)
        takes[f"{called}_" if called in takes else called] = one_line(parameter["about"])
    return PlannedTool(name, group, answer["reads"], one_line(answer["about"]), takes)


def _renamed(name: str, others: Collection[str], before: str = "", after: str = "") -> str:
    taken = name in others or keyword.iskeyword(name) or hasattr(builtins, name)
    return "_".join(filter(None, (before, name, after))) if taken else name


async def _stated(
    authors: CachedQuestioner, program: WorldProgram, problem: str, sandbox: Sandbox, number: int
) -> tuple[WorldProgram, list[JsonObject]]:
    """The program with its classes and rules, and states that they allow."""
    plan = program.plan
    tables = "\n".join(f"{name}: {about}" for name, about in plan.tables.items())
    fields = {**_planned(plan), "tables": tables, "code": program.state, "problem": problem}
    bare = replace(plan, tools=())
    with tempfile.TemporaryDirectory() as scratch, Environments(sandbox) as environments:

        def place(state: str) -> str:
            return placed(WorldProgram(bare, state).source() + BECOMES, Path(scratch))

        async def holds(written: tuple[str, list[JsonObject]]) -> None:
            code, broken = written
            await asyncio.to_thread(_try_rules, environments, place(code), broken)

        sections = ("mend",) if problem else ()

        def read(answer: JsonMapping) -> tuple[str, list[JsonObject]]:
            return _read_state(answer), _read_broken(answer, len(plan.rules))

        asked = Question("world_state", fields, FORMS["world_state"], read, holds, sections)
        state, _ = await authors.ask(asked, plan.topic, number)
        written = replace(program, state=state)
        environment = environments.load(place(state))
        states = list[JsonObject]()
        while len(states) < STATES:
            states.append(await write_state(authors, written, environment, states))
    authors.tell(plan.topic, f"classes, rules and {STATES} states written")
    return written, states


def _read_state(answer: JsonMapping) -> str:
    code = code_of(answer["code"])
    body = parse(code).body
    for node in body:
        fine = isinstance(
            node, (ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)
        )
        own = isinstance(node, ast.FunctionDef) and (node.name[0] == "_" or node.name == RULES)
        if not (fine or own):
            raise Unreadable(
                f"signature: line {node.lineno} is no type, class, function with an underscore, or "
                f"{RULES}"
            )
    if not any(isinstance(node, ast.ClassDef) and node.name == "World" for node in body):
        raise Unreadable("signature: there is no class World")
    functions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == RULES]
    if [len(node.args.args) for node in functions] != [2]:
        raise Unreadable(f"signature: there is to be one {RULES}(before: World, world: World)")
    if faults := fault_text("", code):
        raise Unreadable(faults)
    return code


def _read_broken(answer: JsonMapping, rules: int) -> list[JsonObject]:
    """The examples of states that break a rule, at least one of each."""
    broken: list[JsonObject] = list(answer["broken"])
    numbers = {example["rule"] for example in broken}
    for number in sorted(numbers ^ {*range(1, rules + 1)}):
        what = "there is no rule" if number in numbers else "no example breaks rule"
        raise Unreadable(f"rules: {what} {number}")
    return broken


# In a world without tools: any state after any other.
BECOMES = '''

@WORLD.tool("Control", reads=False)
def becomes(world: World, state: World) -> bool:
    """Becomes another state."""
    for name in state.__dataclass_fields__:
        setattr(world, name, getattr(state, name))
    return True
'''


def _try_rules(environments: Environments, place: str, broken: Sequence[JsonMapping]) -> None:
    """Holds the rules of a world without tools to the examples that break them: each is found
    broken, the empty state is not, and no state that the types allow makes them raise or run on.
    Raises Unreadable."""
    try:
        world = environments.load(place)
        world.reset(None)
    except (BrokenEnvironment, ValueError) as error:
        raise Unreadable(f"loads: {unplaced(error)[-400:]}") from None
    for example in broken:
        number = example["rule"]
        try:
            before = world.reset(example.get("before", example["state"]))
            answer = before.call(Call("becomes", {"state": example["state"]}))
            what = answer.text if answer.error else ""
        except (ValueError, BrokenEnvironment) as error:
            what = unplaced(error)
        if not re.search(rf"\brule {number}: ", what):
            why = f": {what[-300:]}" if what else ", and no rule is"
            raise Unreadable(f"rules: rule {number} is not found broken by its example{why}")
        for state in _variations(example["state"]):
            try:
                world.reset(state)
            except BrokenEnvironment as error:
                shown = compact(state)[:300]
                raise Unreadable(f"rules: {unplaced(error)[-300:]} in the state {shown}") from None
            except ValueError:
                continue  # refused, by a rule or a type


def _variations(state: JsonMapping) -> list[JsonObject]:
    """The state without each table and with many entries in it; and some of those without one
    entry, or with one field exchanged for that of another entry."""
    tables = [(name, table) for name, table in state.items() if isinstance(table, dict) and table]
    whole = list[JsonObject]()
    parts = list[JsonObject]()
    for name, table in tables:
        key, entry = next(iter(table.items()))
        keys = (f"{key.rstrip('0123456789')}{number}" for number in range(100, 100 + ENTRIES))
        whole += [{**state, name: {}}, {**state, name: {**table, **dict.fromkeys(keys, entry)}}]
        for key, entry in table.items():
            parts.append({**state, name: without(table, key)})
            for other in table.values() if isinstance(entry, dict) else ():
                parts += [
                    {**state, name: {**table, key: {**entry, field: other[field]}}}
                    for field in entry
                    if isinstance(other, dict) and other.get(field, entry[field]) != entry[field]
                ]
    return [*whole, *parts[:: 1 + len(parts) // VARIED]]


def _groups(
    authors: CachedQuestioner, tools: Sequence[PlannedTool]
) -> Iterator[Sequence[PlannedTool]]:
    """The tools, as many at a time as are asked for at once, in parts of like size."""
    parts = -(-len(tools) // authors.settings.writing.tools_at_once)
    return (tools[at::parts] for at in range(parts))


async def _tools(
    authors: CachedQuestioner,
    program: WorldProgram,
    tools: Sequence[PlannedTool],
    problems: Mapping[str, str],
    number: int,
) -> dict[str, str]:
    """The functions of `tools` by name. Raises Unanswered."""
    told = [problems[tool.name] for tool in tools if tool.name in problems]
    fields = {
        **_planned(program.plan),
        "state": program.state,
        "wanted": "\n".join(map(_asked_for, tools)),
        "code": "\n\n".join(program.tools.get(tool.name, "") for tool in tools),
        "problem": "\n".join(told),
    }

    def read(answer: JsonMapping) -> dict[str, str]:
        given = {name: code for text in answer["code"] for name, code in functions_in(text).items()}
        for tool in tools:
            function = the_function(
                given.get(tool.name, ""), tool.name, tuple(tool.takes), program.state
            )[1]
            if not ast.get_docstring(function):
                what = "has no docstring, which is what assistants read"
                raise Unreadable(f"documents: {tool.name} {what}")
        return {tool.name: given[tool.name] for tool in tools}

    asked = Question(
        "world_tool",
        fields,
        FORMS["world_tool"],
        read,
        sections=("mend",) if told else (),
        parts=TOOL_TOKENS * (len(tools) - 1),
    )
    return await authors.ask(asked, program.plan.topic, number)


def _asked_for(tool: PlannedTool) -> str:
    does = "changes nothing" if tool.reads else "changes the state whenever it succeeds"
    return f"{tool.name}({', '.join(('world: World', *tool.takes))}), which {does}"


def _planned(plan: WorldPlan) -> dict[str, str]:
    """What whoever writes a part is told of the whole."""
    rules = "\n".join(f"{number}. {rule}" for number, rule in enumerate(plan.rules, 1))
    fields = {"imports": OFFERED_TEXT, "topic": plan.topic, "rules": rules}
    return {**fields, "tools": "\n".join(map(str, plan.tools))}


def _controlled(
    program: WorldProgram, states: Sequence[JsonMapping], sandbox: Sandbox
) -> CheckReport:
    """Where the file does not load, each tool is loaded alone: what an import raises names no
    line."""
    with tempfile.TemporaryDirectory() as scratch, Environments(sandbox) as environments:

        def place(part: WorldProgram) -> str:
            return placed(part.source(), Path(scratch))

        planned = {tool.name: list(tool.takes) for tool in program.plan.tools}
        faults = list[Fault]()
        # Each version of a world is tried by other calls: what one draw does not meet, the next
        # may.
        drawn = keyed_random(0, "controls", program.source()).getrandbits(31)
        report = check_world(place(program), planned, states, environments, random_seed=drawn)
        for tool in (
            program.plan.tools if any(fault.control == "loads" for fault in report.faults) else ()
        ):
            try:
                environments.load(
                    place(replace(program, plan=replace(program.plan, tools=(tool,))))
                )
            except BrokenEnvironment as error:
                faults.append(
                    Fault(
                        f"{report.faults[0].where}:{program.lines()[tool.name][0]}",
                        "",
                        unplaced(error)[-400:],
                        "correct it",
                        "loads",
                    )
                )
    places = [(fault, _place(program, fault)) for fault in faults or report.faults]
    with_places = (
        replace(fault, field=f"({at[0]}, line {at[1]})") if at else fault for fault, at in places
    )
    return replace(report, faults=tuple(with_places))


def _place(program: WorldProgram, fault: Fault) -> tuple[str, int] | None:
    """The part of a program, and the line of it, of a fault that has a line of the file."""
    line = fault.where.rpartition(":")[2]
    at = int(line) if line.isdigit() else 0
    return next(
        ((part, at - lines[0] + 1) for part, lines in program.lines().items() if at in lines), None
    )
