"""Calls to probe an environment with: legal ones sampled from schemas and from what was seen, and
illegal ones. Values that results and states have shown are tried again, so that calls find what
earlier calls made."""

import random
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from rods.analysis.containment import akin
from rods.analysis.schemas import Checker, fits, limits
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, present, without
from rods.environments.base import Result, Tool

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "juniper")
# of dates
FIRST_DAY = datetime(2026, 1, 5, 9)
DAYS = 700
_DATES = ("date", "date-time")  # formats
# how a description writes them, and arguments that are called like one
_WRITTEN = re.compile(r"YYYY-MM(-DD([T ]HH:MM(:SS)?)?)?")
_DATED = re.compile(r"\d{4}-\d\d")
_DAY = re.compile(r"(^|_)(date|day|deadline)($|_(from|to|before|after)$)")
_PATTERN = re.compile(
    r"(?:\[(?P<of>[A-Za-z0-9-]+)\]|(?P<literal>\\[+.()-]|[\w: -]))(?:\{(?P<count>\d{1,3})\})?"
)
_EITHER = re.compile(r"\(([^()]+)\)")
_RANGE = re.compile(r"(\w)-(\w)")
SEEN = 200  # values kept; the oldest give way
# what may be the name of something in a text, and how many of them are kept
_NAME = re.compile(r"[A-Za-z_-]*[0-9][\w-]*")
MOST_NAMES = 20
MOST = 1000  # characters, or entries, of a value that is drawn


class Sampler:
    """Draws legal calls. `learn` adds values that an environment has shown."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.seen: list[tuple[str, Any]] = []  # (name of the field, value)
        self._unions = 0  # that were drawn

    def learn(self, name: str, value: Any) -> None:
        """Keeps the leaves of a JSON value, keys included, for later arguments."""
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.learn(name, key)
                self.learn(key, item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.learn(name, item)
        elif value is not None and not isinstance(value, bool) and (name, value) not in self.seen:
            self.seen.append((name, value))
            if isinstance(value, str) and value.isascii() and value.isdigit():
                self.learn(name, int(value[:18]))
            del self.seen[:-SEEN]

    def heard(self, call: Call, result: Result) -> None:
        if result.error is None:
            self.learn("", dict(call.arguments))
            self.learn("", result.text if result.value is None else result.value)
            for name in _NAME.findall(result.text)[:MOST_NAMES] if result.value is None else ():
                self.learn("id", name)

    def call(self, tool: Tool, *, highest: bool = False) -> Call:
        """A call within the declared bounds, with half of the optional arguments. `highest`: of the
        largest numbers."""
        chosen = [
            parameter
            for parameter in tool.parameters
            if parameter.required or self.rng.random() < 0.5
        ]
        values = {
            parameter.name: self._drawn(parameter.name, limits(parameter)) for parameter in chosen
        }
        if highest:
            bounds = {parameter.name: limits(parameter).get("maximum") for parameter in chosen}
            values |= present(**bounds)
        return Call(tool.name, values)

    def _drawn(self, name: str, schema: JsonMapping) -> Any:
        try:
            return self.value(name, schema)
        # of a schema that is none, which `tool_faults` says
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return self.rng.choice(WORDS)

    def value(self, name: str, schema: JsonMapping) -> Any:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(list(schema["enum"]))
        if branches := _branches(schema):
            self._unions += 1
            return self.value(name, branches[(self._unions - 1) % len(branches)])
        checker = Checker(schema)
        dated = _form_of_time(name, schema)
        candidates = [
            (field, value)
            for field, value in self.seen
            if "type" in schema and checker.fits(value) and (not dated or _DATED.match(str(value)))
        ]
        if candidates and self.rng.random() < 0.8:
            related = [(field, value) for field, value in candidates if akin(field, name)]
            return self.rng.choice(related if related and self.rng.random() < 0.7 else candidates)[
                1
            ]
        if examples := [example for example in schema.get("examples", ()) if checker.fits(example)]:
            return self.rng.choice(examples)
        kind = schema.get("type", "string")
        if kind == "array":
            fewest = min(schema.get("minItems", 0), MOST)
            count = self.rng.randint(fewest, max(fewest, min(schema.get("maxItems", 3), 3)))
            return [self.value(name, schema.get("items", {"type": "string"})) for _ in range(count)]
        if kind == "object":
            return {
                field: self.value(field, inner)
                for field, inner in schema.get("properties", {}).items()
            }
        return self._scalar(dated, kind, schema)

    def _scalar(self, dated: str, kind: str, schema: JsonMapping) -> Any:
        if kind == "boolean":
            return self.rng.random() < 0.5
        if kind == "null":
            return None
        if kind in ("integer", "number"):
            lowest = schema.get("minimum", 0)
            highest = schema.get("maximum", 1000)
            # small numbers more often than large ones, now and then the bound
            low = min(max(0, lowest), highest)
            top = self.rng.choice((low, min(highest, low + 10), min(highest, low + 1000), highest))
            return (
                self.rng.randint(int(low), int(top))
                if kind == "integer"
                else round(self.rng.uniform(low, top), 2)
            )
        if dated:
            moment = FIRST_DAY + timedelta(days=self.rng.randrange(DAYS))
            return moment.isoformat(dated[10:11] or "T")[: len(dated)] + dated[19:]
        if text := self._of_pattern(schema.get("pattern", "")):
            return text
        word = self.rng.choice(WORDS)
        shortest = min(schema.get("minLength", 0), MOST)
        longest = schema.get("maxLength", 40)
        return word.ljust(shortest, "x")[: max(longest, 0)]

    def _of_pattern(self, pattern: str) -> str:
        """A text of a simple pattern: literal characters, classes such as `[A-Z0-9]{4}`, and
        choices such as `([01][0-9]|2[0-3])`; "" for any other."""
        text = ""
        inside = pattern.removeprefix("^").removesuffix("$")
        while inside:
            if part := _EITHER.match(inside):
                chosen = self._of_pattern(self.rng.choice(part[1].split("|")))
            elif part := _PATTERN.match(inside):
                of = _RANGE.sub(
                    lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))),
                    part["of"] or "",
                )
                choices = of or part["literal"].removeprefix("\\")
                chosen = "".join(self.rng.choice(choices) for _ in range(int(part["count"] or 1)))
            if part is None or not chosen:
                return ""
            text = text + chosen
            inside = inside[part.end() :]
        return text


def _form_of_time(name: str, schema: JsonMapping) -> str:
    """How a date, or a time of a day, is written that stands here; "" for anything else."""
    if written := _WRITTEN.search(schema.get("description", "")):
        return written[0]
    day = "YYYY-MM-DD" if schema.get("format") in _DATES or _DAY.search(name) else ""
    return f"{day}THH:MM:SSZ" if schema.get("format") == _DATES[1] else day


def _branches(schema: JsonMapping) -> list[JsonObject]:
    """The schemas that a union, or a list of types, stands for, in the order in which they are
    drawn: listed values first, null after three rounds of the others. Empty where there is but
    one."""
    rest = dict(schema)
    parts = [*rest.pop("anyOf", ()), *rest.pop("oneOf", ())]
    if isinstance(schema.get("type"), list):
        parts = [{"type": kind} for kind in schema["type"]]
    nulls = [part for part in parts if part.get("type") == "null"]
    others = [part for part in parts if part not in nulls]
    others.sort(key=lambda part: not {"enum", "const"} & part.keys())
    return [{**rest, **part} for part in others * 3 + nulls]


def illegal(tool: Tool, sampler: Sampler) -> Iterator[tuple[str, str, Call]]:
    """(kind, argument, call) for calls that must be refused: missing, extra, wrong type, out of
    bounds."""
    legal = dict(sampler.call(tool).arguments)
    yield "extra", "no_such_argument", Call(tool.name, {**legal, "no_such_argument": 1})
    for parameter in tool.parameters:
        if parameter.required:
            yield ("missing", parameter.name, Call(tool.name, without(legal, parameter.name)))
        bare = {"type": parameter.schema["type"]} if "type" in parameter.schema else {}
        for wrong in ("text", 7, 7.5, True, None, ["text"], {"key": "text"}):
            if not fits(bare, wrong) and (parameter.required or wrong is not None):
                yield "type", parameter.name, Call(tool.name, {**legal, parameter.name: wrong})
        schema = limits(parameter)
        beyond = [
            schema[bound] + by
            for bound, by in (("maximum", 1), ("minimum", -1))
            if isinstance(schema.get(bound), int | float)
        ]
        if "enum" in schema and schema.get("type") == "string":
            beyond = ["no such option", *beyond]
        elif schema.get("maxLength", MOST) < MOST:
            beyond = ["x" * (schema["maxLength"] + 1), *beyond]
        for wrong in beyond:
            yield "bounds", parameter.name, Call(tool.name, {**legal, parameter.name: wrong})
