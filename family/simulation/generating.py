"""Draws tasks from a tool repository without a model (001 §2.2.1), in the paper's order: a category
and as many of its tools as the level asks for, further ones only when it has no more (§3.4); the
calls that are expected; then a user who wants them. Whatever a call needs is said by the user or
known to it. A task is a pure function of repository, levels, random seed, step and slot."""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rods.analysis.containment import Text, values_in
from rods.analysis.sampling import Sampler
from rods.analysis.schemas import fits, limits
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, frozen, keyed_random, without
from rods.conversations import Limits, Persona, Rubric
from rods.environments.base import Parameter, Tool, Tools
from rods.errors import UserError
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.documents import SimulatedTool, ToolRepository
from rods.files import read_toml
from rods.prompts import load
from rods.tasks import AnyTask, EnvironmentRef, OpenTask

PHRASES = read_toml(Path(__file__).with_name("phrases.toml"))
OPTIONAL = 0.35  # share of the optional arguments that a call gives
SHARED = 0.7  # share of the identifiers that a call has in common with an earlier one of the task
TRIES = 20  # drawings of tools until one of them can be called
WANTED = "what is wanted"  # the topic of the request itself, without its details
LONG = 24  # characters from which a text with blanks is quoted
# The order of calls in a task: what removes or ends something comes last.
ORDER = {
    "finds": 0,
    "lists": 0,
    "looks_up": 0,
    "reads": 0,
    "creates": 1,
    "changes": 2,
    "removes": 3,
}
# Table 7, level by level
CRITERIA = ("intent", "expected_tools", "no_hallucination", "no_redundancy", "efficiency")
_MACHINE_WORD = re.compile(r"[a-z]+(?:_[a-z]+)+")
_THIRD_PERSON = re.compile(r"(?<=ss|sh|ch|zz)es$|(?<=x)es$|(?<!s)s$")  # its ending
_ISO = re.compile(r"\d{4}-\d\d-\d\d")


@frozen
class Errand:
    """What models that play may be told of a task: the user's `intent` and `manner`, what it
    `knows` (topic → its words), the `calls` that are expected of the policy, and the `criteria`
    that count."""

    intent: str
    manner: str
    knows: Mapping[str, str]
    calls: tuple[Call, ...]
    criteria: tuple[str, ...]

    @staticmethod
    def of(task: OpenTask) -> "Errand":
        criteria = task.goal.criteria if isinstance(task.goal, Rubric) else ()
        if isinstance(task.user, Persona):
            return Errand(
                task.user.intent, task.user.manner, task.user.knows, task.goal_calls, criteria
            )
        return Errand(" ".join(task.user.texts), "", {}, task.goal_calls, criteria)


@frozen
class DrawnTask(Errand):
    """A task of a generator. `tools` are offered to the policy. The user opens with `first_query`;
    `further` are the requests of its later turns; it knows all that the calls need, and `hidden`
    are the topics of the first turn that the first query leaves out. The criteria are those of
    `CRITERIA` that count."""

    levels: Levels
    category: str
    tools: tuple[str, ...]
    first_query: str
    further: tuple[str, ...]
    hidden: tuple[str, ...]


class Wanted(NamedTuple):
    """A task that is to be drawn for a slot of a step."""

    step: int
    slot: int
    difficulty: int
    levels: Levels


# Draws tasks, one each, in order. May raise InfrastructureError where somebody who was asked does
# not answer.
Generator = Callable[[Sequence[Wanted]], Sequence[AnyTask]]


@frozen
class _Fact:
    """An argument as the user knows it: a `topic` that can be asked about, and how its value is
    said."""

    topic: str
    label: str
    value: Any
    text: str

    def stands_in(self, text: Text) -> bool:
        return any(
            text.contains_any_form(leaf)
            for leaf in values_in(self.value)
            if not isinstance(leaf, bool)
        )


def draw_task(
    repository: ToolRepository, levels: Levels, random_seed: int, step: int, slot: int
) -> DrawnTask:
    """The task in `slot` of `step`. Raises UserError where the repository has no tool whose
    arguments can be drawn."""
    for attempt in range(TRIES):
        rng = keyed_random(random_seed, "drawn task", step, slot, attempt)
        tools = offered(repository, levels.tools, rng)
        if calls := _calls(tools, levels.calls, rng):
            return _with_user(repository, levels, tools, calls, rng)
    raise UserError(
        f"{TRIES} drawings gave no tool whose arguments can be drawn",
        where="the tool repository",
        remedy='give parameters "examples", an "enum", or a pattern such as ^[A-Z]{2}-[0-9]{4}$',
    )


def open_task(
    drawn: DrawnTask, environment: EnvironmentRef, *, provenance: JsonMapping = MappingProxyType({})
) -> OpenTask:
    """The task of a run. Its rubric names the criteria that count and has the expected calls; its
    limits are the caps of its levels. A user whose first query hides something has one text more
    than these, and the policy one reply: to ask and to be told. The random seed of its world
    follows from what was drawn."""
    turns, tool_turns, replies = drawn.levels.caps
    asked = int(bool(drawn.hidden))
    return OpenTask(
        environment=environment,
        type="base",
        user=Persona(
            drawn.intent, drawn.first_query, drawn.knows, drawn.manner, turns + asked, drawn.further
        ),
        goal=Rubric(drawn.criteria, drawn.calls),
        tools=drawn.tools,
        state={"random_seed": int(content_id(asdict(drawn))[:8], 16)},
        provenance={
            "levels": asdict(drawn.levels),
            "category": drawn.category,
            "hidden": list(drawn.hidden),
            **provenance,
        },
        # from a few paragraphs to one sentence (§2.3.1)
        system=said(f"system_{drawn.levels.system}"),
        limits=Limits(tool_turns, replies + asked),
    )


def brings(tool: Tool, parameter: Parameter) -> bool:
    """Whether a result of `tool` may hold a value of `parameter`, or one of those that it lists:
    its document has a field of that name or of that pattern, or does not say what results hold."""
    fields = values_in(tool.result or {}, keys=True)
    schema = limits(parameter)
    one = schema.get("items", schema)
    names = {parameter.name, one.get("pattern", parameter.name)}
    return "properties" not in fields or not names.isdisjoint(map(str, fields))


def user_text(task: OpenTask) -> Text:
    """All that the user of `task` says or knows."""
    user = task.user.as_json()
    return Text.holding(without(user.get("persona", user), "turns"))


def found_by_calls(task: OpenTask) -> list[Call]:
    """The expected calls of `task`, with those of their values alone that no user has: an earlier
    call finds them."""
    heard = user_text(task)
    later = [
        Call(
            call.name,
            {name: value for name, value in call.arguments.items() if unheard(heard, value)},
        )
        for call in task.goal_calls[1:]
    ]
    return [call for call in later if call.arguments]


def unheard(heard: Text, value: Any) -> bool:
    """Whether a part of `value` stands in no form in what was heard, nor as a measure in another
    unit: "an hour" for 60."""
    return not all(
        isinstance(leaf, bool) or heard.contains_any_form(leaf) or heard.converts(leaf)
        for leaf in values_in(value)
    )


def said(section: str) -> str:
    """What a level or a criterion is in words."""
    return load("simulation_levels").sections[section]


def offered(repository: ToolRepository, count: int, rng: random.Random) -> list[SimulatedTool]:
    """`count` tools, or all: of one category as long as it has any."""
    categories = sorted(repository.categories)
    rng.shuffle(categories)
    chosen: list[SimulatedTool] = []
    for category in categories:
        within = list(repository.of(category))
        rng.shuffle(within)
        chosen += within[: count - len(chosen)]
        if len(chosen) == count:
            break
    return chosen


def _calls(tools: Sequence[SimulatedTool], count: int, rng: random.Random) -> list[Call]:
    """`count` different calls in a sensible order, fewer where there are no more; of different
    tools if possible."""
    placed: list[tuple[int, Call]] = []
    identifiers: JsonObject = {}  # identifiers by parameter
    order = rng.sample(list(tools), len(tools))
    for entry in chain(order, order, order):
        call = _call(entry, identifiers, rng)
        if call is None or any(call == other for _, other in placed):
            continue
        placed.append((_place(entry), call))
        if len(placed) == count:
            break
    return [call for _, call in sorted(placed, key=lambda pair: pair[0])]


def _place(entry: SimulatedTool) -> int:
    if entry.effect is None:
        return 0
    ends = entry.effect.does == "changes" and entry.effect.sets  # it is cancelled, closed, returned
    return ORDER["removes"] if ends else ORDER[entry.effect.does]


def _call(entry: SimulatedTool, identifiers: JsonObject, rng: random.Random) -> Call | None:
    """A call with drawn arguments; None where they do not conform, since a schema says more than is
    understood."""
    optional = [parameter for parameter in entry.tool.parameters if not parameter.required]
    parameters = [
        parameter
        for parameter in entry.tool.parameters
        if parameter.required or rng.random() < OPTIONAL
    ]
    if not parameters and optional:
        parameters = [rng.choice(optional)]
    sampler = Sampler(rng)
    arguments = dict[str, Any]()
    for parameter in parameters:
        schema = limits(parameter)
        shared = "pattern" in schema and _place(entry) < ORDER["removes"] and rng.random() < SHARED
        value = identifiers.get(parameter.name) if shared else None
        if value is None or not fits(schema, value):
            value = sampler.value(parameter.name, schema)
        if not fits(schema, value):
            return None
        arguments[parameter.name] = value
        if "pattern" in schema:
            identifiers.setdefault(parameter.name, value)
    # dates of one call go forward in the order of its parameters: first and last day, check-in and
    # check-out
    dates = [parameter.name for parameter in parameters if parameter.schema.get("format") == "date"]
    arguments |= zip(dates, sorted(arguments[name] for name in dates), strict=True)
    return Call(entry.tool.name, arguments)


def _with_user(
    repository: ToolRepository,
    levels: Levels,
    tools: Sequence[SimulatedTool],
    calls: Sequence[Call],
    rng: random.Random,
) -> DrawnTask:
    by_name = {entry.tool.name: entry.tool for entry in tools}
    facts = list(_facts(by_name, calls, plain=levels.persona > 0))
    requests = [_request(by_name[call.name]) for call in calls]
    # the calls are shared out evenly over the turns, the earlier ones taking more
    turns = [
        part.tolist()
        for part in np.array_split(range(len(calls)), min(len(calls), levels.expected_turns))
    ]
    about = repository.categories[by_name[calls[0].name].group].rstrip(".")
    greeting, who, doing = (rng.choice(choices) for choices in PHRASES["context"].values())
    context = f"{greeting} {who if greeting.endswith(',') else who[:1].upper() + who[1:]} {doing}."
    opening = rng.choice(PHRASES["openings"][levels.persona]["clear"])
    first = turns[0]
    # the facts of each call that the first query says: all, or half when it is somewhat ambiguous
    first_facts = [list(of_call) for of_call in facts[: len(first)]]
    if levels.ambiguity:
        first_facts = [
            [of_call[at] for at in sorted(rng.sample(range(len(of_call)), len(of_call) // 2))]
            for of_call in first_facts
        ]

    def query() -> str:
        parts = (_said(requests[call], first_facts[call]) for call in first)
        return f"{context} {opening.format(request=', and then '.join(parts))}"

    def unshown() -> list[tuple[int, _Fact]]:
        """The facts that the first query leaves out, with the number of their call."""
        return [
            (call, fact) for call in first for fact in facts[call] if fact not in first_facts[call]
        ]

    if levels.ambiguity == 2:
        first_facts = [[] for _ in first]
        hint, wish, close = (rng.choice(choices) for choices in PHRASES["vague"].values())
        text = f"{context} {hint.format(area=about[:1].lower() + about[1:])}, {wish} {close}"
    else:
        text = query()
        while repeats := [part for part in unshown() if part[1].stands_in(Text.of(text))]:
            for call, fact in repeats:  # that another fact with the same value has told
                first_facts[call].append(fact)
            text = query()
    heard = Text.of(text)
    hidden = [fact.topic for _, fact in unshown() if not fact.stands_in(heard)]
    later = [
        ", and then ".join(_said(requests[call], facts[call]) for call in turn)
        for turn in turns[1:]
    ]
    further = [rng.choice(PHRASES["further"]["clear"]).format(request=request) for request in later]
    manner = PHRASES["manner"][levels.persona]
    wanted = "; ".join(requests)
    intent = "; ".join(
        _said(request, of_call) for request, of_call in zip(requests, facts, strict=True)
    )
    return DrawnTask(
        levels=levels,
        category=by_name[calls[0].name].group,
        tools=tuple(by_name),
        calls=tuple(calls),
        intent=f"The user wants the assistant to {intent}.",
        first_query=text,
        further=tuple(further),
        knows={WANTED: wanted, **{fact.topic: fact.text for of_call in facts for fact in of_call}},
        hidden=(WANTED, *hidden) if levels.ambiguity == 2 else tuple(hidden),
        manner=f"The user is {rng.choice(PHRASES['people'])}. {manner['who']} The user "
        f"{rng.choice(manner['talks'])}.",
        criteria=CRITERIA[: levels.criteria + 1],
    )


def _facts(tools: Tools, calls: Sequence[Call], *, plain: bool) -> Iterator[list[_Fact]]:
    """What the user knows, call by call. Topics are told apart: two calls may have arguments of one
    name."""
    taken: set[str] = set()
    for call in calls:
        facts = []
        for parameter in tools[call.name].parameters:
            if parameter.name not in call.arguments:
                continue
            label = parameter.name.replace("_", " ").strip()
            topic = label
            number = 1
            while topic in taken:
                number += 1
                topic = (
                    f"{label} ({_request(tools[call.name])}{f', {number}' if number > 2 else ''})"
                )
            taken.add(topic)
            value = call.arguments[parameter.name]
            facts.append(_Fact(topic, label, value, _in_words(value, plain)))
        yield facts


def _in_words(value: Any, plain: bool) -> str:
    """A value as a user says it; `plain` users say dates in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        parts = [_in_words(part, plain) for part in value]
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    if isinstance(value, dict):
        return " with ".join(
            f"{name.replace('_', ' ')} {_in_words(part, plain)}" for name, part in value.items()
        )
    text = str(value)
    if plain and _ISO.fullmatch(text):
        day = date.fromisoformat(text)
        return f"{day:%B} {day.day}, {day.year}"
    if _MACHINE_WORD.fullmatch(text):
        return text.replace("_", " ")
    return f'"{text}"' if len(text) > LONG and " " in text else text


def _request(tool: Tool) -> str:
    """What a tool does, as it is asked for: "Books a seat on a flight." is to book a seat on a
    flight."""
    verb, _, rest = tool.summary.partition(" ")
    verb = _THIRD_PERSON.sub("", re.sub("ies$", "y", verb))
    return f"{verb[:1].lower()}{verb[1:]} {rest}".strip()


def _said(request: str, facts: Sequence[_Fact]) -> str:
    details = ", ".join(f"{fact.label} {fact.text}" for fact in facts)
    return f"{request} ({details})" if details else request
