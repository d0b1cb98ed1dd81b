"""Decodes a policy's output into calls as BFCL's two decoders do, but evaluates nothing.

The benchmark decodes an output into *call strings*, which its executor then evaluates. `decode`
gives the same strings, with all the original's habits (positional arguments are dropped, a bare
name becomes text, `+5` becomes -5, a dict of dicts becomes a call); `executed` reads such a
string as a call with literal arguments. docs/evaluation.md lists what is different: arithmetic
is computed for plain numbers and texts only, and what is no call of a plain name with literals
is not executed."""

import ast
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from rods.calls import Call
from rods.family.benchmarks.folder import Form
from rods.syntax import parse

MAX_OUTPUT = 200_000  # characters; a longer output decodes to nothing
_MAX_NUMBER = 1e300  # arithmetic beyond it is not computed
_MAX_BASE = 1_000_000
_MAX_EXPONENT = 64
_MAX_TEXT = 20_000
_BEFORE_PARENTHESIS = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")


def decode(step: Any, form: Form) -> list[str] | None:
    """The call strings of one output: text, or for native calls a list of {name: arguments}. None
    when it cannot be decoded, which ends the turn as an answer does; an empty list likewise. Never
    raises."""
    try:
        if form == "native":
            return _native(step)
        return [
            _call_string(name, arguments)
            for call in calls_in(step)
            for name, arguments in call.items()
        ]
    # Whatever goes wrong here, the benchmark's own decoder has raised as well, and its harness
    # takes that as an answer.
    except Exception:  # noqa: BLE001
        return None


def executed(text: str, owners: Mapping[str, str]) -> Call:
    """The call that the executor makes of a call string. `owners` gives the class of every callable
    tool. Before it evaluates a string, the executor puts an instance's name before whatever stands
    before a parenthesis, inside texts too. A string that is no call with literal arguments comes
    back whole as the name of a call that no world knows."""
    bound = _BEFORE_PARENTHESIS.sub(lambda match: _instance(owners, match[1]) + match[1], text)
    try:
        node = parse(bound, "<call>", "eval").body
        if isinstance(node, ast.Call) and not node.args:
            name = _method(node.func, owners)
            names = {str(keyword.arg) for keyword in node.keywords if keyword.arg}
            if name is not None and len(names) == len(node.keywords):
                return Call(
                    name,
                    {
                        str(keyword.arg): ast.literal_eval(keyword.value)
                        for keyword in node.keywords
                    },
                )
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    return Call(text)


def _instance(owners: Mapping[str, str], name: str) -> str:
    """What the executor puts before the name of a tool."""
    return f"{owners[name]}_instance." if name in owners else ""


def _method(function: ast.expr, owners: Mapping[str, str]) -> str | None:
    match function:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name(instance), name) if f"{instance}." == _instance(owners, name):
            return name
    return None


def _native(step: Any) -> list[str]:
    """Function calls as a server parsed them: {name: arguments}, the arguments as JSON text or an
    object."""
    strings = []
    for function_call in [step] if type(step) is dict else step:
        for name, arguments in function_call.items():
            named = json.loads(arguments) if type(arguments) is str else arguments
            strings.append(
                f"{name}({','.join(f'{key}={value!r}' for key, value in named.items())})"
            )
    return strings


def calls_in(text: str) -> list[dict[str, dict[Any, Any]]]:
    """The calls, {name: arguments}, in a Python list of them, brackets and fences optional. Raises
    for anything else, and for what is too long."""
    text = text.strip("`\n ")
    text = text if text.startswith("[") else "[" + text
    text = text if text.endswith("]") else text + "]"
    if len(text) > MAX_OUTPUT:
        raise ValueError("too long")
    nodes = parse(text, "<call>", "eval").body.elts
    if not all(isinstance(node, ast.Call) for node in nodes):
        raise ValueError("an element that is no call")
    return [_call(node) for node in nodes]


def _call(node: ast.Call) -> dict[str, dict[Any, Any]]:
    """{name: keyword arguments}; a name with dots stays whole, and what is called otherwise has the
    empty name."""
    parts: list[str] = []
    function = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        parts.append(function.id)
    return {
        ".".join(reversed(parts)): {keyword.arg: _value(keyword.value) for keyword in node.keywords}
    }


def _value(node: ast.expr | None) -> Any:
    """An argument as the decoder has it."""
    match node:
        case ast.Constant(value):
            return "..." if value is Ellipsis else value
        case ast.UnaryOp(operand=operand):  # the operator is never looked at
            return -operand.value  # type: ignore[attr-defined]
        case ast.List(items):
            return [_value(item) for item in items]
        case ast.Dict(keys, items):
            return {_value(key): _value(item) for key, item in zip(keys, items, strict=True)}
        case ast.BinOp():
            return _arithmetic(node)
        case ast.Name(name):
            return name
        case ast.Call():
            return _call(node) if node.keywords else ast.unparse(node)
        case ast.Tuple(items):
            return tuple(_value(item) for item in items)
        case ast.Subscript(whole, place):
            return f"{ast.unparse(whole)}[{ast.unparse(place)}]"
    raise ValueError(f"a {type(node).__name__} as an argument")


def _power(base: float, exponent: float) -> Any:
    if abs(base) > _MAX_BASE or abs(exponent) > _MAX_EXPONENT:
        raise ValueError("too large a power")
    return base**exponent


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}


def _arithmetic(node: ast.expr) -> Any:
    """The value of a sum, difference, product or quotient of numbers, or of joined texts;
    ValueError for the rest."""
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float, complex, str):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _arithmetic(node.operand)
        return -value if isinstance(node.op, ast.USub) else +value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left = _arithmetic(node.left)
        right = _arithmetic(node.right)
        texts = isinstance(left, str) or isinstance(right, str)
        if texts and not (
            isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str)
        ):
            raise ValueError("only joining is done to texts")
        value = _OPERATORS[type(node.op)](left, right)
        if len(value) <= _MAX_TEXT if texts else abs(value) < _MAX_NUMBER:
            return value
    raise ValueError("not plain arithmetic")


def _call_string(name: str, arguments: Mapping[Any, Any]) -> str:
    return f"{name}({', '.join(f'{key}={_shown(value)}' for key, value in arguments.items())})"


def _shown(value: Any) -> str:
    """The source text of a value. A dict whose values are all dicts is taken for a call of its
    first key."""
    if not isinstance(value, dict):
        return repr(value)
    if all(isinstance(item, dict) for item in value.values()):
        if not value:
            raise ValueError("an empty dict")
        return _call_string(*next(iter(value.items())))
    return "{" + ", ".join(f"'{key}': {_shown(item)}" for key, item in value.items()) + "}"
