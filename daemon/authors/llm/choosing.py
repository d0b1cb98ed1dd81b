"""What a plan leaves open: the values that a user has to say, and which of them are to be had at each moment.

A plan is bound and run with the answers so far; where one is missing, or no longer possible, chance stands in for it
and a `Blank` is noted. Asking for the blanks and running again fills the plan, in one question or in several. Names
and options are `closed`: one of those listed must be taken. Texts in whole phrases and amounts may be invented within
the tool's schema, and are closed too once an invented one has failed. For single tools, where lists are guesses, a
value is closed when the world holds those listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from daemon.authors.catalogue_free.plain import in_own_words, is_plain
from rods.analysis.schemas import fits, limits
from rods.canonical import canonical
from rods.composing.bind import Choice, by_chance, meant, spoken
from rods.composing.catalogue import LEFT_OUT, Said, Scene, Worded
from rods.environments.base import Tool

OPTIONS = 20  # offered for one value
EXAMPLES = 4
LONGEST = 80  # characters of an invented text
PHRASE = 2.5  # words from which on the listed texts are phrases, not names
Key = tuple[int, int, str]  # turn, place in it, slot


@dataclass(frozen=True, slots=True)
class Blank:
    """A value to be chosen: one of `options` (by label; a few of all the `values`), or one within `schema` where it is
    not `closed`. `problem` says what was wrong with the last answer."""

    key: Key
    tool: str
    argument: str
    values: Sequence[Any]
    options: Mapping[Any, Any]
    closed: bool
    schema: Mapping[str, Any]
    optional: bool
    problem: str = ""

    @property
    def id(self) -> str:
        turn, place, slot = self.key
        return f"{turn + 1}.{place + 1}.{slot}"

    def as_schema(self) -> dict[str, Any]:
        """JSON Schema of an answer."""
        return {"enum": list(self.options)} if self.closed else dict(self.schema)

    def value(self, answer: Any) -> Any:
        """The value that an answer of this schema means."""
        found = self.options.get(answer, answer) if isinstance(answer, (str, int, float)) else answer
        return _same_kind(found, answer)


@dataclass(slots=True)
class Choosing:
    """The `Chooser` of one run. `answers` are the model's; `strict` are blanks that have become closed. `links` say for
    a place which earlier calls (counted through) should feed it: where one of its arguments can take a value that they
    returned, it must."""

    tools: Mapping[str, Tool]
    answers: Mapping[Key, Any]
    strict: Mapping[Key, str]  # and what was wrong
    rng: Random
    links: Mapping[tuple[int, int], Sequence[int]] = field(default_factory=dict)
    blanks: dict[Key, Blank] = field(default_factory=dict)
    scene: Scene | None = None  # at the first blank
    place: tuple[int, int] = (-1, -1)  # of the last choice
    reached: set[tuple[int, int]] = field(default_factory=set)  # places that had a choice to make
    fed: set[tuple[int, int]] = field(default_factory=set)  # of these: those that found what should feed them

    def __call__(self, choice: Choice) -> Any:
        key = (choice.turn, choice.place, choice.slot)
        self.place = key[:2]
        self.reached.add(self.place)
        blank = self._blank(key, choice)
        if len(blank.values) == 1 and blank.closed and not blank.optional:
            return blank.values[0]
        if key in self.answers:
            taken = self._taken(blank, self.answers[key])
            if taken is not None:
                return taken
            problem = f"{_shown(self.answers[key])} is not to be had at that moment"
            blank = self._blank(key, choice, problem)
        self.blanks[key] = blank
        self.scene = self.scene or choice.scene
        left_out = [LEFT_OUT] if blank.optional else []
        return by_chance(self.rng)(replace(choice, values=[*blank.values, *left_out]))

    def _taken(self, blank: Blank, answer: Any) -> Any:
        """The answer as one of the values, or as it is where it may be invented; None when it cannot be."""
        if answer is LEFT_OUT:
            return LEFT_OUT if blank.optional else None
        for value in blank.values:
            if _equal(meant(value), meant(answer)):
                return value
        return None if blank.closed or not fits(blank.schema, answer) else answer

    def _blank(self, key: Key, choice: Choice, problem: str = "") -> Blank:
        tool, argument = _filled(choice)
        parameter = next(each for each in self.tools[tool].parameters if each.name == argument)
        schema = _limited(limits(parameter))
        values = [value for value in choice.values if value is not LEFT_OUT]
        fed = self._fed(choice, values)
        self.fed |= {key[:2]} if fed else set()
        closed = bool(fed) or key in self.strict or _is_closed(choice, argument, values, schema)
        values = fed or values
        few = values if len(values) <= OPTIONS else self._some(values, choice)
        options = {_label(value): value for value in few}
        problem = problem or self.strict.get(key, "")
        optional = LEFT_OUT in choice.values and not fed
        return Blank(key, tool, argument, values, options, closed, schema, optional, problem)

    def _fed(self, choice: Choice, values: list[Any]) -> list[Any]:
        """The values that the linked calls returned, and that no argument of theirs brought in."""
        producers = [choice.scene.calls[number] for number in self.links.get((choice.turn, choice.place), ())]
        returned = {canonical(one) for _, result in producers for one in held(result.value)}
        returned -= {canonical(one) for call, _ in producers for one in held(dict(call.arguments))}
        return [value for value in values if brought(meant(value), returned)]

    def _some(self, values: list[Any], choice: Choice) -> list[Any]:
        """A few of many values, those of earlier turns first."""
        known = [value for value in values if meant(value) in choice.earlier][: OPTIONS // 4]
        rest = [value for value in values if value not in known]
        return known + Random(len(values)).sample(rest, OPTIONS - len(known))


def _filled(choice: Choice) -> tuple[str, str]:
    """The tool and the argument that the slot goes to first; a thing's own argument where it only names one."""
    for step in choice.recipe.steps:
        for argument, source in step.arguments.items():
            if isinstance(source, Said) and source.slot == choice.slot:
                return step.tool, argument
    return choice.recipe.steps[0].tool, next(iter(choice.recipe.steps[0].arguments))


def _is_closed(choice: Choice, argument: str, values: list[Any], schema: Mapping[str, Any]) -> bool:
    if "enum" in schema or schema.get("type") == "boolean" or any(isinstance(value, Worded) for value in values):
        return True
    parts = [item for value in values for item in _items(value)]
    texts = [item for item in parts if isinstance(item, str)]
    if texts and not is_plain(choice.recipe):
        return not in_own_words(argument) and sum(len(text.split()) for text in texts) < PHRASE * len(texts)
    world = {canonical(value) for value in held(choice.scene.state)}
    for _, result in choice.scene.calls:
        world |= {canonical(value) for value in held(result.value)}
    return 2 * sum(canonical(item) in world for item in parts) >= len(parts)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def brought(value: Any, returned: Set[bytes]) -> bool:
    """Whether a value, or each element of a list, is among those returned (as canonical JSON)."""
    return all(canonical(item) in returned for item in _items(value))


def held(value: Any) -> Iterator[Any]:
    """Every key and leaf of a JSON value; keys that are numbers also as such."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            if key.isdecimal() and len(key) < 19:
                yield int(key)
            yield from held(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from held(item)
    else:
        yield value


def _limited(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with a bound on invented texts."""
    limited = {name: value for name, value in schema.items() if name not in ("description", "default")}
    if schema.get("type") == "string" and "enum" not in schema:
        limited["maxLength"] = min(schema.get("maxLength", LONGEST), LONGEST)
        limited["minLength"] = max(schema.get("minLength", 1), 1)
    if schema.get("type") == "array":
        limited["maxItems"] = min(schema.get("maxItems", 4), 4)
    return limited


def _label(value: Any) -> Any:
    """How an option is written: numbers and truth values as they are, anything else in words."""
    return value if isinstance(value, (bool, int, float)) else spoken(value)


def _shown(value: Any) -> str:
    return repr(spoken(value))[:80]


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same; 5 and 5.0 are, 1 and True are not."""
    return _kind(one) is _kind(other) and bool(one == other)


def _same_kind(found: Any, answer: Any) -> Any:
    """1 and True are one key of a dictionary, and two answers."""
    if isinstance(found, (bool, int, float)) and _kind(found) is not _kind(answer):
        return answer
    return found


def _kind(value: Any) -> type:
    """The type of a value, one for all numbers: JSON writes 5.0 as 5, too."""
    return float if type(value) is int else type(value)
