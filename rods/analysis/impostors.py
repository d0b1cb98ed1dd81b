"""Calls that cannot succeed, and what answers to them look like where no error is flagged.

An impostor is a call that has worked, or might, with names that nothing bears in place of its own.
A call that is answered as its impostor is has found nothing either."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rods.analysis.schemas import Checker, limits
from rods.calls import Call
from rods.canonical import JsonObject
from rods.environments.base import Result, Tool, value_of
from rods.environments.failing import text_of
from rods.files import module_table

_TABLES = module_table(__file__)
_FIELDS: Mapping[str, Sequence[Any]] = _TABLES["fields"]
# "Error", "**Error:**", "Database error:"
_BEGINS = re.compile(
    rf"[^\w{{\[]{{0,4}}(?:(?:{'|'.join(_TABLES['begins'])})\b|(?:\w+ ){{1,2}}error:)", re.IGNORECASE
)
_PHRASES = re.compile(rf"[^\n]{{0,200}}\b(?:{'|'.join(_TABLES['phrases'])})\b", re.IGNORECASE)


class Impostor(NamedTuple):
    """A call with names that nothing bears, and what stood in the place of each."""

    call: Call
    names: Mapping[str, str]

    def answer(self, text: str) -> str:
        """What `text` would be if it were about the names of the other call."""
        for name, own in self.names.items():
            text = text.replace(name, own)
        return text


def impostor(tool: Tool, call: Call) -> Impostor | None:
    """The impostor of `call`: all of its texts and whole numbers that are no listed options, lists
    of them too, are others, within their schema. None where it has none."""
    arguments = dict(call.arguments)
    names = dict[str, str]()
    for parameter in tool.parameters:
        value = arguments.get(parameter.name)
        listed = isinstance(value, list)
        own = next(iter(value), None) if isinstance(value, list) else value
        schema = limits(parameter)
        if "enum" in (schema.get("items", {}) if listed else schema):
            continue
        checker = Checker(schema)
        for name in _strangers(own, len(names)):
            other = [name] if listed else name
            if name != own and checker.fits(other):
                arguments[parameter.name] = other
                names[str(name)] = str(own)
                break
    return Impostor(Call(call.name, arguments), names) if names else None


def _strangers(own: Any, number: int) -> Iterator[Any]:
    """Names like `own` that nothing bears, the surest first."""
    if isinstance(own, int) and not isinstance(own, bool):
        yield 987_654_320 + number
    if isinstance(own, str):
        folder, slash, _ = own.rpartition("/")
        yield f"{folder}{slash}zz-never-{number}"
        yield re.sub(r"\d", "9", own)


def signs(result: Result, names: Mapping[str, str] | None = None) -> Iterator[JsonObject]:
    """The rules (`rods.environments.failing`) by which an ordinary result would be a failure.
    `names`: those of an impostor, of which a text may speak."""
    yield from _fields(value_of(result))
    if matched := _BEGINS.match(text_of(result)) or _PHRASES.match(text_of(result)):
        begins = _plain(matched[0])
        for name in names or ():
            begins = begins.replace(_plain(name), ".+")
        yield {"begins": begins}


def _plain(text: str) -> str:
    """The expression for `text`, as a person would write it."""
    return re.sub(r"\\([ \-/:'\"])", r"\1", re.escape(text))


def _fields(value: Any, path: str = "") -> Iterator[JsonObject]:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    for key, item in value.items() if isinstance(value, Mapping) else ():
        values = _FIELDS.get(key)
        if values == [] and item:
            yield {"field": f"{path}{key}"}
        elif values and (item.casefold() if isinstance(item, str) else item) in values:
            yield {"field": f"{path}{key}", "values": [item]}
        yield from _fields(item, f"{path}{key}.")
