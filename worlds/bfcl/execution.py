"""One call of one tool on one object, with the texts of the benchmark's executor and typed errors.

A tool's Python exception is its answer (`Error during execution: …`), as the benchmark has it.
Where its texts depend on the hash seed of the process (an unordered set is printed), they are put
in order.
"""

from ast import literal_eval
from collections.abc import Callable, Mapping
from decimal import localcontext
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from rods.canonical import JsonMapping, JsonObject
from rods.environments.base import Result, Tool
from rods.model_json import TYPES
from rods.syntax import parse
from rods.worlds.bfcl.bounds import DIGITS_OF_AN_INTEGER, UNBOUNDED, digits, impossible_power
from rods.worlds.bfcl.classes import load_type
from rods.worlds.bfcl.jsontext import value_of, write
from rods.worlds.bfcl.ownership import READING, Take, takes
from rods.worlds.bfcl.trees import too_many_paths

PREFIX = "Error during execution: "
COMPUTE = "rods.worlds.bfcl.execution:compute"
_load_type = cache(load_type)
_NUMBERS = 1_024  # results with up to a thousand digits that are remembered
_ROUNDED_AWAY = -400  # no 64-bit integer and no float has so many digits before its point

Before = Callable[["BoundTool", Any, JsonMapping], Result | None]
Method = Callable[..., Any]


class BoundTool(NamedTuple):
    """A tool, ready to be called. `takes` is None for a reading tool, else what the world must own
    first; `before` may answer instead of the tool; `write` puts a dict into JSON."""

    tool: Tool
    group: str
    function: Callable[..., Any]
    takes: tuple[Take, ...] | None
    before: Before | None
    write: Callable[[JsonObject], str]


def bound_tool(
    kind: type, tool: Tool, precise: Before, write: Callable[[JsonObject], str]
) -> BoundTool:
    """`precise` answers the calls of tools that compute with any number of digits, or returns
    None."""
    function = getattr(kind, tool.name)
    return BoundTool(
        tool,
        tool.group,
        _WRAPPERS[tool.name](function) if tool.name in _WRAPPERS else function,
        None if tool.name in READING else takes(tool.name),
        _BEFORE.get(tool.name) if tool.bounded else precise,
        write,
    )


class Answer(Result):
    """A result whose `value` is read from its text when somebody asks for it: training never does,
    and copying what the state holds would cost more than most calls. As a tuple it has None in that
    place."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        return value_of(self.text)


# half of Answer()'s cost
answer: Callable[[tuple[str, None, str | None]], Result] = partial(tuple.__new__, Answer)


def kind_of_error(tool: Tool, arguments: JsonMapping, problem: Exception) -> str:
    """The kind of error: the arguments do not fit the document, or the tool refused."""
    if isinstance(problem, ValueError) and str(problem).startswith("Exceeds the limit"):
        return "too_large"
    parameters = tool.by_name
    if not arguments.keys() <= parameters.keys():
        return "bad_arguments"
    for name, parameter in parameters.items():
        if name not in arguments:
            if parameter.required:
                return "bad_arguments"
        elif type(arguments[name]) not in TYPES[parameter.schema["type"]]:
            return "bad_arguments"
    return "tool"


def _power(bound: BoundTool, target: Any, arguments: JsonMapping) -> Result | None:
    if not impossible_power(arguments.get("base"), arguments.get("exponent")):
        return None
    text = f"Exceeds the limit ({DIGITS_OF_AN_INTEGER} digits) for integer string conversion"
    return Result(
        f"{PREFIX}{text}; use sys.set_int_max_str_digits() to increase the limit", None, "too_large"
    )


def _recursive(bound: BoundTool, target: Any, arguments: JsonMapping) -> Result | None:
    if too_many_paths(target.root) or too_many_paths(target._current_dir):
        return Result(f"{PREFIX}maximum recursion depth exceeded", None, "bounds")
    return None


_BEFORE: Mapping[str, Before] = {"power": _power, "find": _recursive, "du": _recursive}


def _precisely(method: Method) -> Method:
    """The method with the precision of decimal and mpmath put back. Its number is put into words
    first, while the precision still holds; and remembered, by its arguments as they are written
    (0.0 is not -0.0)."""

    def compute(self: Any, arguments: JsonMapping) -> Any:
        # late: only a tool that computes needs it, and every command line would wait for it
        import mpmath

        with mpmath.workprec(mpmath.mp.prec), localcontext():
            value = method(self, **arguments)
            return value if "error" in value else str(value)

    @lru_cache(_NUMBERS)
    def remembered(written: str) -> Any:
        return compute(None, literal_eval(parse(written, mode="eval")))

    def call(self: Any, /, **arguments: Any) -> Any:
        return compute(self, arguments) if digits(arguments) is None else remembered(str(arguments))

    return call


def _changed(
    before: Callable[[JsonObject], JsonObject] = lambda arguments: arguments,
    after: Callable[[JsonObject], JsonObject] = lambda value: value,
) -> Callable[[Method], Method]:
    """Wraps a method: it gets what `before` makes of its arguments, and answers what `after` makes
    of its value."""

    def wrapped(method: Method) -> Method:
        return lambda self, /, **arguments: after(method(self, **before(arguments)))

    return wrapped


def _rounding(arguments: JsonObject) -> JsonObject:
    """`round(5, -10**9)` would compute 10**10**9 to find that nothing is left."""
    places = arguments.get("decimal_places")
    far = type(places) is int and places < _ROUNDED_AWAY
    return {**arguments, "decimal_places": _ROUNDED_AWAY} if far else arguments


def _booked(value: JsonObject) -> JsonObject:
    error = value.get("error")
    if isinstance(error, str) and error.startswith("Invalid travel class. Must be one of "):
        value["error"] = "Invalid travel class. Must be one of {'business', 'economy', 'first'}"
    return value


def _edited(value: JsonObject) -> JsonObject:
    head, label, fields = str(value.get("error", "")).partition("Invalid fields for update: ")
    if label and not head:
        value["error"] = label + ", ".join(sorted(fields.split(", ")))
    return value


_WRAPPERS: Mapping[str, Callable[[Method], Method]] = {
    **dict.fromkeys(UNBOUNDED, _precisely),
    "round_number": _changed(before=_rounding),
    "book_flight": _changed(after=_booked),
    "edit_ticket": _changed(after=_edited),
    # the class would share its default lists between all worlds
    "post_tweet": _changed(before=lambda arguments: {"tags": [], "mentions": [], **arguments}),
}


def reports_error(value: list[Any]) -> bool:
    first = value[0] if value else None
    return (isinstance(first, dict) and "error" in first) or (
        isinstance(first, str) and first.startswith("Error: ")
    )


def compute(request: JsonObject) -> JsonObject:
    """What the worker process runs: the tools of MathAPI that compute with as many digits as they
    are asked for.

    {"wheel", "name", "arguments"} → {"text", "failed"} as the executor would write it; `wheel` was
    checked by the parent.
    """
    kind = _load_type(Path(request["wheel"]), "MathAPI")
    try:
        value = getattr(kind, request["name"])(kind(), **request["arguments"])
        try:
            text = write(value)
        except (TypeError, ValueError):
            text = str(value)  # the numbers of mpmath and decimal are no JSON
        return {"text": text, "failed": "error" in value}
    except Exception as problem:  # noqa: BLE001 the exception is the tool's answer
        return {"text": f"{PREFIX}{problem}", "failed": True}
