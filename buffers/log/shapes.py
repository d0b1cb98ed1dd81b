"""What the fields of records hold (records.toml): a record that says another thing was written by
nobody here.

A shape is the name of a type (`text`, `count`: a whole number from 0 on, `positive`: from 1 on,
`whole`: any, `number`, `flag`, `object`, `list`, `id`, `end`: of a rollout, `any`; `count?`: or
null); a table of shapes by field (`step?` may be missing, and what it does not name is not looked
at); `{"*" = shape}` for all values of an object, some of which may be named beside it; `[shape]`
for all items of a list.
"""

import re
from collections.abc import Callable
from typing import Any

from rods.canonical import ID_DIGITS, JsonMapping
from rods.faults import ENDS
from rods.observations import WHOLE

Fault = Callable[[Any], str]  # what is wrong with a value, where; empty for nothing

TYPES: dict[str, tuple[type, ...]] = {
    "count": (int,),
    "positive": (int,),
    "whole": (int,),
    "number": (int, float),
    "flag": (bool,),
    "object": (dict,),
    "list": (list,),
}
TESTS: dict[str, Callable[[Any], Any]] = {
    "count": range(WHOLE).__contains__,
    "positive": range(1, WHOLE).__contains__,
    "end": frozenset(ENDS).__contains__,
    "id": re.compile(f"[0-9a-f]{{{ID_DIGITS}}}").fullmatch,
}


def fault_of(shape: Any) -> Fault:
    """What looks for faults in values that ought to have this shape."""
    if isinstance(shape, str):
        return _of_word(shape)
    if isinstance(shape, list):
        return _of_items(fault_of(shape[0]))
    fields = _of_fields({name: part for name, part in shape.items() if name != "*"})
    if "*" not in shape:
        return fields
    values = _of_values(fault_of(shape["*"]))
    return lambda value: values(value) or fields(value)


def _of_word(name: str) -> Fault:
    word = name.removesuffix("?")
    # a bool is no number
    types = frozenset({*TYPES.get(word, (str,)), *({type(None)} if word != name else ())})
    test = TESTS.get(word)

    def fault(value: Any) -> str:
        sound = word == "any" or (
            type(value) in types and (test is None or value is None or test(value))
        )
        return "" if sound else f" is no {word}"

    return fault


def _of_items(item: Fault) -> Fault:
    def fault(value: Any) -> str:
        if type(value) is not list:
            return " is no list"
        return next(
            (f"[{place}]{what}" for place, each in enumerate(value) if (what := item(each))), ""
        )

    return fault


def _of_values(item: Fault) -> Fault:
    def fault(value: Any) -> str:
        if type(value) is not dict:
            return " is no object"
        return next((f".{name}{what}" for name, each in value.items() if (what := item(each))), "")

    return fault


def _of_fields(shapes: JsonMapping) -> Fault:
    fields = [
        (name.removesuffix("?"), fault_of(shape), name.endswith("?"))
        for name, shape in shapes.items()
    ]

    def fault(value: Any) -> str:
        if type(value) is not dict:
            return " is no object"
        for name, of, optional in fields:
            if name in value:
                if what := of(value[name]):
                    return f".{name}{what}"
            elif not optional:
                return f".{name} is missing"
        return ""

    return fault
