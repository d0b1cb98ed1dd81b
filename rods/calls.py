"""A call of a tool: a name and keyword arguments that are plain JSON values.

Text is read as *literals* (`ast`), never evaluated. Both usual forms are read here: Python call strings
(`cd(folder='document')`, BFCL) and JSON objects (`{"name": …, "arguments": {…}}`). Text whose reading would drop or
round something is refused.
"""

from __future__ import annotations

import ast
import keyword as python
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rods.model_json import MAX_DEPTH

MAX_CALL_TEXT = 20_000  # characters; longer text is refused before it is parsed
_FIELDS = frozenset(("name", "arguments"))
_RESERVED = frozenset(python.kwlist)
# Warnings of Python's parser about a policy's text (odd escapes, `1if`) are not shown.
warnings.filterwarnings("ignore", module="<call>")


@dataclass(frozen=True, slots=True)
class Call:
    """`name` of a tool and its keyword `arguments` (JSON values). Compared and hashed by content through `as_json`."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": dict(self.arguments)}

    @staticmethod
    def from_json(value: Any) -> Call:
        """Raises ValueError when `value` is not {"name": str, "arguments": {str: …}}."""
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise ValueError("a call needs a 'name' (text) and 'arguments' (an object)")
        if not value.keys() <= _FIELDS:
            unknown = ", ".join(repr(key)[:40] for key in value if key not in _FIELDS)
            raise ValueError(
                f"a call has a 'name' and 'arguments' only, not {unknown}: write what it takes in 'arguments'"
            )
        arguments = value.get("arguments", {})
        if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
            raise ValueError(f"the arguments of {value['name']!r} must be an object with text keys")
        return Call(value["name"], arguments)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


def parse_python_call(text: str, parameters: Mapping[str, Sequence[str]]) -> Call:
    """Reads `name(1, key='value')`; positional arguments are bound by `parameters[name]`, in order.

    Raises ValueError for anything but one call with literal arguments. Tuples become lists (JSON has no tuples).
    """
    if len(text) > MAX_CALL_TEXT:
        raise ValueError(f"call text of {len(text)} characters; at most {MAX_CALL_TEXT} are read")
    plain = _scan_plain_call(text)
    if plain is not None:
        return plain
    if _nesting(text) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    try:
        return _parse_call(text.strip(), parameters)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"not a call: {text[:80]!r}") from error


# The commonest form, `name(key='text', other=[5, 6])`, is read without Python's parser, at a quarter of the cost.
# What is not certainly of this form (escapes, deeper nesting, positional arguments, odd numbers) goes through `ast`.
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\([ \t\n]*")
_BARRED = r"\\\r\n\0\ud800-\udfff"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?"
_ATOM = rf"""'[^'{_BARRED}]*'|"[^"{_BARRED}]*"|{_NUMBER}|True|False|None"""
_ARGUMENT = re.compile(
    rf"""([A-Za-z_][A-Za-z0-9_]*)[ ]*=[ ]*({_ATOM}|\[(?:(?:{_ATOM})(?:,[ ]*(?:{_ATOM}))*)?\])"""
    r"""[ \t\n]*(?:,[ \t\n]*(?=[A-Za-z_])|(\)))"""
)
_ITEM = re.compile(_ATOM)
_CONSTANTS = {"True": True, "False": False, "None": None}


def _scan_plain_call(text: str) -> Call | None:
    """The call in `text`, or None when it is not of the plain form (it may still be a call, or a mistake)."""
    text = text.strip()
    head = _NAME.match(text)
    if head is None or head[1] in _RESERVED:
        return None
    arguments: dict[str, Any] = {}
    position, closed = head.end(), False
    if text[position:] == ")":
        return Call(head[1], arguments)
    while not closed:
        found = _ARGUMENT.match(text, position)
        if found is None:
            return None
        key, value, end = found.groups()
        if key in arguments or key in _RESERVED:
            return None
        arguments[key] = _atom(value) if value[0] != "[" else [_atom(item) for item in _ITEM.findall(value)]
        position, closed = found.end(), end is not None
    return Call(head[1], arguments) if position == len(text) else None


def _atom(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return float(text) if "." in text else int(text)


def _parse_call(text: str, parameters: Mapping[str, Sequence[str]]) -> Call:
    try:
        node = ast.parse(text, "<call>", mode="eval").body
    except ValueError as error:  # a null byte, a lone surrogate
        raise ValueError(f"not a call: {text[:80]!r}") from error
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"not a call of a plain name: {text[:80]!r}")
    name = node.func.id
    arguments: dict[str, Any] = {}
    names = parameters.get(name, ())
    if len(node.args) > len(names):
        raise ValueError(f"{name} takes at most {len(names)} positional arguments, {len(node.args)} given")
    for parameter, value in zip(names, node.args, strict=False):
        arguments[parameter] = _literal(value, text)
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError(f"{name}: ** is not a literal argument")
        if keyword.arg in arguments:
            raise ValueError(f"{name}: argument {keyword.arg!r} given twice")
        arguments[keyword.arg] = _literal(keyword.value, text)
    return Call(name, arguments)


def _nesting(text: str) -> int:
    """The deepest bracket nesting in `text`, cheaply: texts inside may hide some of it, so `_as_json` looks again."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest


def _literal(node: ast.expr, text: str) -> Any:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        source = ast.get_source_segment(text, node) or text
        raise ValueError(f"not a literal: {source[:80]!r}") from error
    return _as_json(value)


def _as_json(value: Any, depth: int = 1) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_as_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("object keys must be text")
        return {key: _as_json(item, depth + 1) for key, item in value.items()}
    raise ValueError(f"not a JSON value: {value!r}")
