"""What may help after a failed call: from documents, the environment's catalogue, the words of the
refusal (000 §3.3, Appendix C: `parameter_constraint`, `format_mismatch`, `dependency_missing`,
`state_prerequisite`).

`misuses` needs the tool's document alone; `lookups` the catalogue, which knows what recipes take
from earlier results; `constraints` and `related` compare the words of the refusal with those of
documents. Only tools that the policy sees are named, and never a value that no document has."""

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

from rods.analysis.containment import Text, is_small, stems
from rods.analysis.flows import Output
from rods.analysis.schemas import Checker, limits
from rods.calls import Call
from rods.canonical import JsonMapping, frozen
from rods.composing.catalogue import FromEarlierRecipe, FromResult, known_catalogue
from rods.environments.base import Environment, Parameter, Tool, kept
from rods.interfaces import Shown

MOST = 3  # names in one hint
LISTED = 12  # allowed values that are still listed
LONGEST = 60  # characters of a name that a policy made up
_UNITS = {"imum": "", "Length": " characters", "Items": " entries", "Properties": " entries"}

# Refusals whose cause may be a value that does not exist.
LACKING = re.compile(
    r"\b(no such|not found|not registered|does not exist|invalid|unknown|expired|no available|not "
    r"initialized)\b",
    re.IGNORECASE,
)
# Refusals whose cause is a value that the tool does not take.
WRONG = re.compile(r"\b(invalid|not supported|bad|wrong|must be|cannot be)\b", re.IGNORECASE)

LOG_IN = re.compile(r"\blog(?:ged)?[ -]in\b", re.IGNORECASE)  # one word, unlike "log out"
# stems that stand in many refusals
NOISE = frozenset(("avail", "requir", "current", "specifi", "given"))


class Misuse(NamedTuple):
    """An argument that breaks a tool's document: which way, in a sentence and in a few words."""

    sentence: str
    kind: Literal["missing", "unknown_argument", "mistyped"]
    brief: str


class Advice(NamedTuple):
    """What may help after a refusal, in a sentence and in a few words."""

    sentence: str
    brief: str


def misuses(tool: Tool, arguments: JsonMapping) -> list[Misuse]:
    """Each argument that breaks the document of `tool`; none where all of them keep to it."""
    faults: list[Misuse] = []
    parameters = tool.by_name
    for unknown in arguments.keys() - parameters.keys():
        name = unknown[:LONGEST]
        close = named(alike(name, [free for free in parameters if free not in arguments]))
        takes = f"it takes {named(parameters)}" if parameters else "it takes none"
        sentence = f"`{tool.name}` has no argument `{name}`; " + (
            f"did you mean {close}?" if close else f"{takes}."
        )
        faults.append(Misuse(sentence, "unknown_argument", f"no {name}"))
    for name, parameter in parameters.items():
        if name not in arguments:
            if parameter.required:
                faults.append(
                    Misuse(f"`{name}` is missing{_about(parameter)}.", "missing", f"need {name}")
                )
        elif wrong := _wrong(arguments[name], parameter):
            sentence = f"`{name}` must be {wrong}{_about(parameter)}."
            faults.append(Misuse(sentence, "mistyped", f"{name} must be {wrong}"))
    return sorted(faults)


def alike(name: str, others: Iterable[str]) -> list[str]:
    """At most `MOST` of `others` that are spelled like `name` or share a word with it, the likest
    first."""
    names = list(others)
    close = difflib.get_close_matches(name[:LONGEST], names, MOST)
    words = set(stems(name[:LONGEST]))
    shared = {other: len(words.intersection(stems(other))) for other in names if other not in close}
    sharing = sorted(
        (other for other, count in shared.items() if count),
        key=lambda other: (-shared[other], other),
    )
    return (close + sharing)[:MOST]


def named(names: Iterable[str]) -> str:
    """The names in backticks: `a`, `b` or `c`."""
    *first, last = [f"`{name}`" for name in names] or [""]
    return f"{', '.join(first)} or {last}" if first else last


def similar(close: Sequence[str]) -> str:
    """In a few words: there is no such tool, but these are `close`."""
    return f"like {' '.join(close)}" if close else "no such tool"


def _about(parameter: Parameter) -> str:
    """What its document says of it."""
    about = parameter.description.partition("\n")[0].strip().rstrip(".")
    return f" ({about})" if about and about != parameter.name else ""


def _wrong(value: Any, parameter: Parameter) -> str:
    """What the value should have been; empty where it conforms, or where that takes too long to
    say."""
    checker = Checker(limits(parameter))
    for error in checker.errors(value):
        keyword = error.kind.name
        deep = len(error.instance_path)
        schema = checker.at(error)
        if keyword == "type" and not deep:
            kind = (
                schema["type"] if isinstance(schema["type"], str) else " or ".join(schema["type"])
            )
            return f"{'an' if kind[0] in 'aio' else 'a'} {kind}"
        if keyword == "enum" and deep < 2 and len(schema["enum"]) <= LISTED:
            return f"one of {', '.join(map(str, schema['enum']))}"
        if not deep and keyword[:3] in ("min", "max"):
            low, high = (parameter.schema.get(f"{end}{keyword[3:]}") for end in ("min", "max"))
            unit = _UNITS[keyword[3:]]
            if parameter.schema.get(keyword) is None:  # a bound that no document shows stays hidden
                larger = keyword[:3] == "min"
                return (
                    ("longer" if larger else "shorter")
                    if unit
                    else ("larger" if larger else "smaller")
                )
            if low is not None and high is not None:
                return f"between {low} and {high}{unit}"
            return f"at most {high}{unit}" if low is None else f"at least {low}{unit}"
    return ""


@frozen
class Dependencies:
    """What a catalogue says of an environment's tools. `suppliers`: (tool, parameter) → the
    tools whose results recipes take its value from, the commonest first. `readers`: tools that
    only read."""

    suppliers: Mapping[tuple[str, str], tuple[str, ...]]
    readers: frozenset[str]


@kept
def dependencies(environment: Environment) -> Dependencies:
    """The dependencies of an environment; empty for one without a catalogue. A parameter that no
    recipe of its tool looks up has the suppliers of parameters of that name in the other tools of
    its class."""
    if (catalogue := known_catalogue(environment)) is None:
        return Dependencies({}, frozenset())
    recipes = catalogue.recipes.values()
    # kind of thing → tools whose results it comes from
    givers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for recipe in recipes:
        for kind, gift in recipe.gives.items():
            if isinstance(gift.value, FromResult):
                givers[kind][recipe.tools[gift.value.step]] += 1
    tools = environment.tools()
    by_place: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for recipe in recipes:
        for step in recipe.steps:
            for parameter, source in step.arguments.items():
                suppliers = [recipe.tools[source.step]] if isinstance(source, FromResult) else []
                if isinstance(source, FromEarlierRecipe):
                    suppliers = list(givers[source.kind])
                for place in (step.tool, parameter), (tools[step.tool].group, parameter):
                    by_place[place].update(suppliers)
    suppliers_by_place = {
        (tool.name, parameter): tuple(sorted(counts, key=lambda name: (-counts[name], name)))
        for tool in tools.values()
        for parameter in tool.parameter_names
        if (counts := by_place.get((tool.name, parameter)) or by_place.get((tool.group, parameter)))
    }
    return Dependencies(suppliers_by_place, catalogue.lookups)


def lookups(view: Shown, call: Call, refusal: str) -> list[Advice]:
    """One for each argument that should perhaps have been looked up: tools that supply it are
    visible, and no call so far has returned its value. Where the refusal speaks of some arguments,
    only these; at most two. In few words it is the argument, not the tool: in so few it would be
    the next call (002 Appendix D.3)."""
    if not LACKING.search(refusal):
        return []
    suppliers = dependencies(view.environment).suppliers
    returned = [
        Output((0, place), earlier, result) for place, (earlier, result) in enumerate(view.results)
    ]
    lookable: dict[str, list[str]] = {}
    for name, value in call.arguments.items():
        tools = [
            tool
            for tool in suppliers.get((call.name, name), ())
            if tool in view.tools and tool != call.name
        ]
        if tools and not any(
            output.brought(name, value) or output.mentions(value) for output in returned
        ):
            lookable[name] = tools[:MOST]
    tool = view.tools[call.name]
    blamed = (
        _spoken_of(tool, call, refusal, beside=tool)
        or _spoken_of(tool, call, refusal)
        or list(lookable)
    )
    due = [name for name in blamed if name in lookable]
    why = "may be a value that has to be looked up or made first"
    return [
        Advice(f"`{name}` {why}: see {named(lookable[name])}.", f"look up {name}")
        for name in due[:2]
    ]


def constraints(view: Shown, call: Call, refusal: str) -> list[Advice]:
    """What the document says of the argument that the refusal speaks of, where it says that it is
    wrong."""
    if not WRONG.search(refusal):
        return []
    tool = view.tools[call.name]
    about = {parameter.name: parameter.description for parameter in tool.parameters}
    spoken = [name for name in _spoken_of(tool, call, refusal, beside=tool) if about.get(name)]
    return [
        Advice(f"Of `{name}` the document says: {about[name]}", f"bad {name}")
        for name in spoken[:1]
    ]


def _spoken_of(tool: Tool, call: Call, refusal: str, beside: Tool | None = None) -> list[str]:
    """The arguments that the refusal means: those whose value it repeats, else those whose name and
    description share the most words with it; words about the tool `beside` do not count."""
    text = Text.of(refusal)
    words = set(stems(refusal))
    by_value = [
        name
        for name, value in call.arguments.items()
        if not is_small(value) and text.contains_exact(value)
    ]
    if by_value:
        return by_value
    if beside is not None:
        words -= _vocabulary(beside.name, beside.summary)
    parameters = [parameter for parameter in tool.parameters if parameter.name in call.arguments]
    documents = {
        parameter.name: f"{parameter.name} {parameter.description}" for parameter in parameters
    }
    shared = {
        name: len(words.intersection(stems(document))) for name, document in documents.items()
    }
    most = max(shared.values(), default=0)
    return [name for name, count in shared.items() if count == most] if most else []


def related(view: Shown, call: Call, refusal: str) -> list[Advice]:
    """The other tools of the call's class that speak of the same as the refusal, if they are few.
    Where something is lacking, these are tools that look for it."""
    tool = view.tools[call.name]
    readers = dependencies(view.environment).readers
    lacking = bool(readers and LACKING.search(refusal))
    words = set(stems(LOG_IN.sub("login", refusal))) - NOISE
    words -= {word for value in call.arguments.values() for word in stems(str(value))}
    if not lacking:
        # "before starting the engine": what was tried, not what it takes
        words -= set(stems(call.name))
    others = [
        other
        for other in view.tools.values()
        if other.group == tool.group and other.name != tool.name
    ]
    if lacking:
        others = [other for other in others if other.name in readers]
    by_all = _rarities(
        words, {other.name: _vocabulary(other.name, other.summary) for other in others}
    )
    by_name = _rarities(words, {other.name: frozenset(stems(other.name)) for other in others})
    scores = {other.name: (by_all[other.name], by_name[other.name]) for other in others}
    most = max(scores.values(), default=(0.0, 0.0))
    best = [name for name, score in scores.items() if score == most]
    if most[0] == 0 or len(best) > MOST:
        return []
    todo = "looked up" if lacking else "done"
    sentence = f"Something may have to be {todo} first, perhaps with {named(best)}."
    return [Advice(sentence, "look up first" if lacking else "not yet")]


def _rarities(
    words: Collection[str], vocabularies: Mapping[str, Collection[str]]
) -> dict[str, float]:
    """How much each vocabulary shares with `words`: a word that few vocabularies hold counts
    more."""
    shared = {name: sorted(set(words).intersection(held)) for name, held in vocabularies.items()}
    holders = Counter(word for held in shared.values() for word in held)
    return {
        name: round(sum(1 / holders[word] for word in held), 9) for name, held in shared.items()
    }


@cache
def _vocabulary(name: str, summary: str) -> frozenset[str]:
    return frozenset((*stems(name), *stems(LOG_IN.sub("login", summary))))
