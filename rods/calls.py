"""A call of a tool: a name and keyword arguments that are plain JSON values.

Text is read as *literals*, never evaluated, in both usual forms: Python call strings
(`cd(folder='document')`, BFCL) and JSON objects (`{"name": …, "arguments": {…}}`). What would be
dropped or rounded is refused."""

import ast
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import field
from keyword import kwlist
from typing import Any, Literal

from rods.canonical import JsonMapping, JsonObject, frozen
from rods.model_json import MAX_DEPTH
from rods.syntax import parse

# what the results of a turn's calls are judged by (`rods.environments.base.Features`)
ReadsJudged = Literal["asked", "all", "state"]

MAX_CALL_TEXT = 20_000  # characters; longer text is refused before it is parsed
# of one reply: ten times what the longest ground truth of a turn has; each call is executed and
# shown
MAX_CALLS = 256
_FIELDS = frozenset(("name", "arguments"))
# Warnings of Python's parser about a policy's text (odd escapes, `1if`) are not shown.
warnings.filterwarnings("ignore", module="<call>")

# The plain form, `name(key='text', other=[5, 6])`, is read at a fifth of the cost of Python's
# parser.
_ATOM = (
    r"""(?:'[^'\\\r\n\0\ud800-\udfff]*'|"[^"\\\r\n\0\ud800-\udfff]*"|True|False|None|"""
    r"""-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?)"""
)
_NAME = "([A-Za-z_][A-Za-z0-9_]*)"
_VALUE = rf"({_ATOM}|\[(?:{_ATOM}(?:, ?{_ATOM})*)?\])"
_ITEM = re.compile(_ATOM)
_ARGUMENT = re.compile(f"{_NAME}={_VALUE}")
_PLAIN_CALL = re.compile(rf"{_NAME}\(((?:{_NAME}={_VALUE}(?:, ?(?=[A-Za-z_])|(?=\))))*)\)")
_KEYWORDS = frozenset(kwlist)
_CONSTANTS = {"True": True, "False": False, "None": None}


@frozen
class Call:
    """`name` of a tool and its keyword `arguments` (JSON values). Compared and hashed by content
    through `as_json`."""

    name: str
    arguments: JsonMapping = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        return {"name": self.name, "arguments": dict(self.arguments)}

    @staticmethod
    def from_json(value: Any) -> "Call":
        """Raises ValueError when `value` is not {"name": str, "arguments": {str: …}}."""
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise ValueError("a call needs a 'name' (text) and 'arguments' (an object)")
        if not value.keys() <= _FIELDS:
            unknown = ", ".join(repr(key)[:40] for key in value if key not in _FIELDS)
            remedy = "write what it takes in 'arguments'"
            raise ValueError(f"a call has a 'name' and 'arguments' only, not {unknown}: {remedy}")
        arguments = value.get("arguments", {})
        if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
            raise ValueError(f"the arguments of {value['name']!r} must be an object with text keys")
        return Call(sys.intern(value["name"]), arguments)

    def __str__(self) -> str:
        return (
            f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"
        )


def parse_python_call(text: str, parameters: Mapping[str, Sequence[str]]) -> Call:
    """Reads `name(1, key='value')`; positional arguments are bound by `parameters[name]`, in order.
    Raises ValueError for anything but one call with literal arguments. Tuples become lists (JSON
    has no tuples)."""
    if len(text) > MAX_CALL_TEXT:
        raise ValueError(f"call text of {len(text)} characters; at most {MAX_CALL_TEXT} are read")
    text = text.strip()
    if (plain := _plain_call(text)) is not None:
        return plain
    try:
        node = parse(text, "<call>", "eval").body
    # ValueError: a null byte, a lone surrogate
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"not a call: {text[:80]!r}") from error
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"not a call of a plain name: {text[:80]!r}")
    name = node.func.id
    arguments: JsonObject = {}
    names = parameters.get(name, ())
    if len(node.args) > len(names):
        raise ValueError(
            f"{name} takes at most {len(names)} positional arguments, {len(node.args)} given"
        )
    for parameter, value in zip(names, node.args, strict=False):
        arguments[parameter] = _literal(value, text)
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError(f"{name}: ** is not a literal argument")
        if keyword.arg in arguments:
            raise ValueError(f"{name}: argument {keyword.arg!r} given twice")
        arguments[keyword.arg] = _literal(keyword.value, text)
    return Call(name, arguments)


def _plain_call(text: str) -> Call | None:
    """The call in `text` where it is of the plain form. None: it may still be a call, or a
    mistake."""
    if (whole := _PLAIN_CALL.fullmatch(text)) is None:
        return None
    arguments: JsonObject = {}
    for key, value in _ARGUMENT.findall(whole[2]):
        if key in arguments:
            return None
        arguments[key] = value[1:-1] if value[0] in "'\"" else _plain(value)
    return Call(whole[1], arguments) if _KEYWORDS.isdisjoint((whole[1], *arguments)) else None


def _plain(text: str) -> Any:
    if text[0] == "[":
        return list(map(_plain, _ITEM.findall(text)))
    if text[0] in "'\"":
        return text[1:-1]
    return _CONSTANTS[text] if text in _CONSTANTS else float(text) if "." in text else int(text)


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
