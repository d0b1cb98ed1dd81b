"""One call of one tool on one object, with the texts of the benchmark's executor and typed errors.

A tool's Python exception is its answer (`Error during execution: …`), as the benchmark has it. Where its texts depend
on the hash seed of the process (an unordered set is printed), they are put in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import localcontext
from functools import partial
from typing import Any, NamedTuple

import mpmath

from rods.environments.base import Result, Tool
from rods.environments.bfcl.bounds import (
    DIGITS_OF_AN_INTEGER,
    IN_PROCESS_DIGITS,
    MAX_DIGITS,
    MAX_RESULT,
    digits,
    impossible_power,
)
from rods.environments.bfcl.effects import CHANGED_IN_PLACE, EVERYTHING, READING
from rods.environments.bfcl.jsontext import JsonWriter, value_of
from rods.environments.bfcl.trees import too_many_paths

PREFIX = "Error during execution: "
_ROUNDED_AWAY = -400  # no 64-bit integer and no float has so many digits before its point

Before = Callable[["Entry", Any, Mapping[str, Any]], Result | None]


class Entry(NamedTuple):
    """A tool, ready to be called. `writes` is None for a reading tool, else what it changes in place (`effects`);
    `defaults` are its mutable defaults, handed in afresh each time (the classes would share one list between all
    worlds); `write` puts a dict into JSON."""

    tool: Tool
    group: str
    function: Callable[..., Any]
    writes: tuple[str, ...] | None
    defaults: Mapping[str, Any]
    before: Before | None
    mend: Callable[[dict[str, Any]], None] | None
    write: Callable[[dict[str, Any]], str]


def entry(kind: type, tool: Tool, precise: Before, writer: JsonWriter, padded: bool) -> Entry:
    """`precise` answers the calls of tools that compute with any number of digits, or returns None; `padded` says that
    answers may hold the writer's constants."""
    before: dict[str, Before] = {
        "power": _power,
        "round_number": _round_number,
        "find": _recursive,
        "du": _recursive,
        "logarithm": precise,
        "square_root": precise,
    }
    return Entry(
        tool,
        tool.group,
        getattr(kind, tool.name),
        None if tool.name in READING else CHANGED_IN_PLACE.get(tool.name, (EVERYTHING,)),
        {p.name: p.default for p in tool.parameters if isinstance(p.default, (list, dict))},
        before.get(tool.name),
        {"book_flight": _mend_booking, "edit_ticket": _mend_edit}.get(tool.name),
        writer.write_padded if padded else writer.write,
    )


class Answer(Result):
    """A result whose `value` is read from its text when somebody asks for it: training never does, and copying what
    the state holds would cost more than most calls. As a tuple it has None in that place."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        return value_of(self.text)


_answer: Callable[[tuple[str, None, str | None]], Result] = partial(tuple.__new__, Answer)  # half of Answer()'s cost


def run(entry: Entry, target: Any, arguments: Mapping[str, Any]) -> Result:
    """Calls the tool and puts its answer into words. Never raises for anything that the arguments can cause."""
    tool, _, function, _, _, _, mend, write = entry
    error = None
    try:
        value = function(target, **arguments)
        kind = type(value)
        if kind is dict:
            if mend is not None:
                mend(value)
            if "error" in value:
                error = "tool"
            try:
                text = write(value)
            except (TypeError, ValueError, RecursionError):
                text = str(value)
        elif kind is str:
            return Result(value, value)
        else:
            text = str(value)
            if kind is list and _complains(value):
                error = "tool"
    except RecursionError:
        return Result(f"{PREFIX}maximum recursion depth exceeded", None, "bounds")
    except Exception as problem:  # noqa: BLE001 the exception is the tool's answer
        return Result(f"{PREFIX}{problem}", None, blame(tool, arguments, problem))
    if len(text) > MAX_RESULT:
        return Result(f"{PREFIX}a result of {len(text)} characters; at most {MAX_RESULT}", None, "too_large")
    return _answer((text, None, error))


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def blame(tool: Tool, arguments: Mapping[str, Any], problem: Exception) -> str:
    """The kind of error: the arguments do not fit the document, or the tool refused."""
    if isinstance(problem, ValueError) and str(problem).startswith("Exceeds the limit"):
        return "too_large"
    known = {parameter.name: parameter for parameter in tool.parameters}
    if not arguments.keys() <= known.keys():
        return "bad_arguments"
    for name, parameter in known.items():
        if name not in arguments:
            if parameter.required:
                return "bad_arguments"
        elif type(arguments[name]) not in _TYPES[parameter.schema["type"]]:
            return "bad_arguments"
    return "tool"


def precisely(entry: Entry, target: Any, arguments: Mapping[str, Any]) -> Result:
    """Runs a tool that sets the precision of decimal and mpmath, and puts both back."""
    before = mpmath.mp.prec
    try:
        with localcontext():
            return run(entry, target, arguments)
    finally:
        mpmath.mp.prec = before


def many_digits(arguments: Mapping[str, Any]) -> Result | None:
    """The refusal of a call that asks for more digits than any process is given, or None."""
    precision = arguments.get("precision")
    if isinstance(precision, (int, float)) and precision > MAX_DIGITS:
        return Result(f"{PREFIX}a precision of {precision}; at most {MAX_DIGITS}", None, "bounds")
    return None


def few_digits(arguments: Mapping[str, Any]) -> bool:
    asked = digits(arguments)
    return asked is not None and asked <= IN_PROCESS_DIGITS


def _power(entry: Entry, target: Any, arguments: Mapping[str, Any]) -> Result | None:
    if not impossible_power(arguments.get("base"), arguments.get("exponent")):
        return None
    text = f"Exceeds the limit ({DIGITS_OF_AN_INTEGER} digits) for integer string conversion"
    return Result(f"{PREFIX}{text}; use sys.set_int_max_str_digits() to increase the limit", None, "too_large")


def _round_number(entry: Entry, target: Any, arguments: Mapping[str, Any]) -> Result | None:
    places = arguments.get("decimal_places", 0)
    if type(places) is int and places < _ROUNDED_AWAY:
        return run(entry, target, {**arguments, "decimal_places": _ROUNDED_AWAY})
    return None


def _recursive(entry: Entry, target: Any, arguments: Mapping[str, Any]) -> Result | None:
    if too_many_paths(target.root) or too_many_paths(target._current_dir):
        return Result(f"{PREFIX}maximum recursion depth exceeded", None, "bounds")
    return None


def _mend_booking(value: dict[str, Any]) -> None:
    error = value.get("error")
    if isinstance(error, str) and error.startswith("Invalid travel class. Must be one of "):
        value["error"] = "Invalid travel class. Must be one of {'business', 'economy', 'first'}"


def _mend_edit(value: dict[str, Any]) -> None:
    head, found, fields = str(value.get("error", "")).partition("Invalid fields for update: ")
    if found and not head:
        value["error"] = found + ", ".join(sorted(fields.split(", ")))


def _complains(value: list[Any]) -> bool:
    first = value[0] if value else None
    return (isinstance(first, dict) and "error" in first) or (isinstance(first, str) and first.startswith("Error: "))
