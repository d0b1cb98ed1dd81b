"""How prompts show tools, plans, calls and states: compact (contexts are short), as JSON where
values matter."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from rods.analysis.containment import values_in
from rods.calls import Call
from rods.canonical import JsonMapping
from rods.composing.catalogue import Catalogue
from rods.composing.records import BoundCall, ComposeError, Draft, Plan
from rods.daemon.authors.base import with_calls
from rods.environments.base import Environment, Result, Tool, Tools
from rods.tasks import Task
from rods.transcripts import BREAKS, LONGEST, line, one_line

# characters before and after what a later call takes from a result that is cut, at least
AROUND = 60
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
EXACT = 2**53  # from here on a bound is that of a machine
# characters of a text, entries
TOLD = 200  # characters of what a root's user says
SHORTENINGS = ((10_000, 10_000), (200, 100), (80, 30), (40, 12), (24, 6))


def signatures(tools: Iterable[Tool]) -> str:
    """One line a tool: its typed arguments, and what it does."""
    return "\n".join(f"{tool.signature()}: {tool.summary}" for tool in tools)


def schemas(tools: Iterable[Tool]) -> str:
    """One JSON object a tool: what it does, and of each argument the schema, the description and
    the default."""
    lines = []
    for tool in tools:
        arguments = {parameter.name: bounded(parameter.schema) for parameter in tool.parameters}
        for parameter in tool.parameters:
            about = {"description": parameter.description} if parameter.description else {}
            arguments[parameter.name] |= (
                about if parameter.required else {**about, "default": parameter.default}
            )
        lines.append(compact({"name": tool.name, "does": tool.summary, "arguments": arguments}))
    return "\n".join(lines)


def bounded(schema: Any) -> Any:
    """A JSON Schema without the bounds of a machine's numbers, at any depth: they tell nobody
    anything."""
    if isinstance(schema, list):
        return [bounded(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: bounded(word)
        for name, word in schema.items()
        if name not in BOUNDS or not isinstance(word, (int, float)) or abs(word) < EXACT
    }


def compact(value: Any) -> str:
    """`value` as one line of JSON."""
    return orjson.dumps(value, default=str).decode().translate(BREAKS)


def turn_lines(calls: Sequence[BoundCall]) -> str:
    """The calls of one turn, one JSON object a line: name, arguments and what came back."""
    return "\n".join(call_line(bound.call, bound.result) for bound in calls)


def plan(catalogue: Catalogue, plan: Plan) -> str:
    """A plan, one line a turn: each function with its purpose and the tools that it calls, and of
    what it takes up which function gave it last."""
    lines = []
    givers: dict[str, str] = {}
    for number, turn in enumerate(plan.turns, start=1):
        names = list[str]()
        for place, name in enumerate(turn.recipes, start=1):
            recipe = catalogue.recipes[name]
            text = purpose(catalogue, name)
            for kind in recipe.needs & givers.keys():
                text = text.replace(f"{{{kind}}}", f"{{{kind} of {givers[kind]}}}")
            names.append(f"{number}.{place} {text}")
            givers |= dict.fromkeys(recipe.gives, f"{number}.{place}")
        lines.append("; ".join(names) or f"{number} (asked in vain; done in the next turn)")
    return "\n".join(lines)


def purpose(catalogue: Catalogue, name: str) -> str:
    recipe = catalogue.recipes[name]
    return f"{name}: {recipe.phrases[0]} [{', '.join(recipe.tools)}]"


def call_line(call: Call, result: Result) -> str:
    """A call with its result as one JSON object."""
    return line({"call": call.name, "arguments": dict(call.arguments), "result": result.text})


def turn(number: int, text: str, calls: Sequence[BoundCall]) -> str:
    """The turn `number` under its heading "Turn 1:", with the user's text where there is one."""
    user = [line({"user": text}, LONGEST)] if text else []
    return "\n".join(
        [f"Turn {number + 1}:", *user, turn_lines(calls) or "(no call is right in this turn)"]
    )


def within(draft: Draft, room: int, turns: Sequence[int] | None = None) -> Draft:
    """The draft with its results in about `room` characters at most over `turns` (None: all). Short
    ones stay whole; the others share what is left, and are cut around what later calls take from
    them."""
    numbers = range(len(draft.turns)) if turns is None else turns
    lengths = sorted(len(bound.result.text) for turn in numbers for bound in draft.turns[turn])
    share = 0
    left = room
    for number, length in enumerate(lengths):
        share = left // (len(lengths) - number)
        left -= min(length, share)
    taken: dict[Any, list[Any]] = {}
    for bound in (bound for calls in draft.turns for bound in calls):
        for argument, flow in bound.flows.items():
            if flow.origin is not None:
                taken.setdefault(tuple(flow.origin), []).append(bound.call.arguments.get(argument))

    def cut(turn: int, place: int, bound: BoundCall) -> BoundCall:
        text = excerpt(bound.result.text, share, taken.get((turn, place), ()))
        return replace(bound, result=bound.result._replace(text=text))

    return with_calls(draft, cut)


def excerpt(text: str, room: int, values: Iterable[Any] = ()) -> str:
    """`text` in about `room` characters: its beginning, and what stands around each of `values`."""
    if len(text) <= room:
        return text
    wanted = {str(leaf): None for value in values for leaf in values_in(value) if leaf != ""}
    matches = (re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) for value in wanted)
    spans = sorted(match.span() for match in matches if match)[: room // (2 * AROUND)]
    around = max(AROUND, (room - sum(end - start for start, end in spans)) // (2 * len(spans) + 2))
    windows = [(0, min(2 * around, room))]
    for start, end in spans:
        if start - around <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(windows[-1][1], end + around))
        else:
            windows.append((start - around, end + around))
    pieces = "…".join(text[start:end] for start, end in windows)
    return pieces if windows[-1][1] >= len(text) else f"{pieces}…"


def state(state: Any, room: int) -> str:
    """A state as one line of JSON in at most `room` characters: long texts and long lists lose
    their ends first."""
    for text, entries in SHORTENINGS:
        json_line = compact(_shortened(state, text, entries))
        if len(json_line) <= room:
            return json_line
    return _cut(json_line, room)


def state_schema(environment: Environment) -> JsonMapping:
    """The environment's JSON Schema of its state; empty where it has none."""
    return getattr(environment, "state_schema", {})


def purposes(tools: Iterable[Tool]) -> str:
    """One line a tool: its name, and what it does."""
    return "\n".join(f"{tool.name}: {tool.summary}" for tool in tools)


def functions(tools: Tools, draft: Draft, numbers: Iterable[int]) -> str:
    """The purposes of the functions that a draft uses in the turns `numbers`: their arguments stand
    in its calls."""
    used = {bound.call.name for turn in numbers for bound in draft.turns[turn]}
    return purposes(tool for name, tool in tools.items() if name in used)


def turns(draft: Draft, texts: Sequence[str], numbers: Iterable[int]) -> str:
    """The turns `numbers` of a draft with their texts."""
    return "\n".join(turn(number, texts[number], draft.turns[number]) for number in numbers)


def narrative(story: Mapping[str, str]) -> str:
    """The plan's narrative in one text; "(none)" without one."""
    return (
        one_line(
            " ".join(f"{name}: {text}" if len(story) > 1 else text for name, text in story.items())
        )
        or "(none)"
    )


def at_turn(error: ComposeError) -> str:
    """Where a failure was, if that is known."""
    return "" if error.turn is None else f" in turn {error.turn + 1}"


def root(task: Task) -> str:
    """The beginning of what the user of a root says."""
    return excerpt("\n".join(map(one_line, task.script)), TOLD)


def setting(catalogue: Catalogue, written: Plan, world: Any, room: int) -> dict[str, str]:
    """What several prompts begin with: the story of a plan, the plan, and a state in at most `room`
    characters."""
    return {
        "story": narrative(written.narrative),
        "plan": plan(catalogue, written),
        "state": state(world, room),
    }


def _shortened(value: Any, text: int, entries: int) -> Any:
    if isinstance(value, str):
        return _cut(value, text)
    if isinstance(value, Mapping):
        first = {
            key: _shortened(item, text, entries) for key, item in list(value.items())[:entries]
        }
        return (
            first if len(first) == len(value) else {**first, "…": f"{len(value) - len(first)} more"}
        )
    if isinstance(value, (list, tuple)):
        items = [_shortened(item, text, entries) for item in value[:entries]]
        return items if len(items) == len(value) else [*items, "…"]
    return value


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
