"""Whether decoded calls are among those that BFCL allows: its comparison of syntax trees, with its
habits.

An item allows, for each call, a name and a list of values for each argument; "" in the list says
that the argument may be left out. Texts are compared without case, blanks and some punctuation. A
value of the type that the first allowed value has, where the document says another, is a *variable*
and compared as it is. Where BFCL's own comparison would raise, no call is allowed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rods.family.benchmarks.bfcl_single import source_text

Decoded = Mapping[str, Mapping[str, Any]]  # one call: {name: {argument: value}}
_IGNORED = re.compile(r"[ ,./\-_*^]")
_PYTHON = {"string": str, "integer": int, "float": float, "boolean": bool, "dict": dict, "any": str}
_PYTHON |= {"array": list, "tuple": list}


def allowed(
    category: str,
    documents: Sequence[Any],
    answers: Sequence[Decoded],
    calls: Sequence[Decoded],
    *,
    dotted: bool,
) -> bool:
    """Whether `calls` are right in an item of `category`. `dotted`: names of functions have their
    dots still; native ones have underscores in their place."""
    if len(calls) != len(answers):
        return False
    try:
        if "parallel" not in category and "multiple" not in category:
            return _call_allowed(documents[0], answers[0], calls[0], category, dotted)
        by_name = {document["name"]: document for document in reversed(documents)}
        left = list(calls)
        for answer in answers:  # each takes the first call that fits, as there
            document = by_name[next(iter(answer))]
            fits = (
                i
                for i, call in enumerate(left)
                if _call_allowed(document, answer, call, category, dotted)
            )
            if (index := next(fits, None)) is None:
                return False
            del left[index]
        return True
    except Exception:  # noqa: BLE001 whatever goes wrong here, BFCL's own comparison has raised as well
        return False


def _call_allowed(
    document: Any, answer: Decoded, call: Decoded, category: str, dotted: bool
) -> bool:
    name = document["name"]
    wanted = next(iter(answer.values()))
    given = call.get(name if dotted else name.replace(".", "_"))
    described, required = (document["parameters"][part] for part in ("properties", "required"))
    if given is None or any(argument not in given for argument in required):
        return False
    return all(
        argument in described
        and argument in wanted
        and _argument_allowed(value, described[argument], wanted[argument], category)
        for argument, value in given.items()
    ) and all(argument in given or "" in values for argument, values in wanted.items())


def _argument_allowed(value: Any, described: Any, wanted: Sequence[Any], category: str) -> bool:
    kind = described["type"]
    foreign = source_text.language(category) != "python"
    types = source_text.reading(source_text.language(category))[0] if foreign else _PYTHON
    nested = (
        described["items"]["type"] if kind in ("array", "tuple", "Array", "ArrayList") else None
    )
    if foreign:
        if type(value) is not str:
            return False
        value = source_text.value(category, value, described, nested)
    elif kind == "tuple" and type(value) is tuple:
        value = list(value)
    elif kind == "float" and type(value) is int:
        value = float(value)
    expected: Any = types[kind]
    entries = types[nested] if nested else None
    variable = _type_of(wanted)
    if type(value) is not expected:
        return type(value) is variable and value in wanted
    if entries is not None and not any(_entries_typed(value, item, entries) for item in wanted):
        return False
    if variable not in (None, expected):
        return value in wanted
    if expected is dict:
        return any(_entry_allowed(value, item) for item in wanted if item != "")
    if entries is dict:
        return any(
            len(value) == len(item)
            and all(
                part != "" and _entry_allowed(own, part)
                for own, part in zip(value, item, strict=True)
            )
            for item in wanted
        )
    if expected is str:
        return _plain(value) in [_plain(item) for item in wanted if type(item) is str]
    if expected is list:
        return [_plain(part) for part in value] in [
            [_plain(item[i]) for i in range(len(item))] for item in wanted
        ]
    return value in wanted


def _type_of(wanted: Sequence[Any]) -> type | None:
    """The type of the first value that is not "" among those allowed."""
    return next((type(item) for item in wanted if item != ""), None)


def _entries_typed(value: Sequence[Any], item: Any, nested: type) -> bool:
    return type(item) is not list or all(type(entry) in (nested, _type_of(item)) for entry in value)


def _entry_allowed(value: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    """Whether a dict has the keys of an allowed one, each with an allowed value."""
    return all(
        key in item and _plain(own) in [_plain(item[key][i]) for i in range(len(item[key]))]
        for key, own in value.items()
    ) and all(key in value or "" in values for key, values in item.items())


def _plain(value: Any) -> Any:
    """A text as texts are compared."""
    return _IGNORED.sub("", value).lower().replace("'", '"') if type(value) is str else value
