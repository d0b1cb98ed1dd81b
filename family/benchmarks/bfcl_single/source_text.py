"""Calls and values in the source text of Java and JavaScript, as BFCL reads and compares them.

BFCL reads a call with a parser of each language. Here only calls with named arguments are read,
whatever stands after the name as far as quotes and brackets match; a text that breaks the grammar
otherwise is read all the same. Source text becomes a value by the wheel's own functions, taken by
name as those of prompts are: `3L` is a Java long, and a text that is no value of its type stays a
text."""

import json
import re
import typing
from collections.abc import Sequence
from functools import cache
from typing import Any

from rods.canonical import JsonObject
from rods.family.benchmarks.bfcl.decoding import MAX_OUTPUT, calls_in
from rods.family.benchmarks.bfcl.harness import taken
from rods.family.benchmarks.folder import Form
from rods.worlds.bfcl import wheel

# characters of one value; a longer one stays a text, since patterns look at it many times
MAX_VALUE = 10_000
_LANGUAGES = {"java": "java", "javascript": "js"}  # and what the wheel calls them


def language(category: str) -> str:
    return next((name for name in _LANGUAGES if category.endswith(f"simple_{name}")), "python")


@cache
def reading(name: str) -> JsonObject:
    """The types that a language has in documents, and what makes values of source text, under the
    wheel's names for them."""
    short = _LANGUAGES[name]
    file = wheel.path()
    types = f"{short.upper()}_TYPE_CONVERSION"
    reader = f"{short}_type_converter"
    names = {
        "re": re,
        types: taken(file, "constants/type_mappings.py")[types],
        "List": typing.List,  # noqa: UP006 it names this
        "print": lambda *_: None,
    }
    readers = [reader] + [f"parse_{short}_{what}" for what in ("value", "collection", "boolean")]
    readers += ["parse_arraylist", "parse_array", "parse_hashmap"]
    member = f"eval_checker/ast_eval/type_convertor/{short}_type_converter.py"
    converter = taken(file, member, readers, names)[reader]

    def value(text: str, *kinds: str) -> Any:
        """The value that `text` has; the text itself where it has none, or is too long."""
        return text if len(text) > MAX_VALUE else converter(text, *kinds)

    return {types: names[types], reader: value}


def decoded(result: Any, form: Form, category: str) -> list[JsonObject] | None:
    """The calls in a result; None where BFCL's decoder raises or finds something else than calls.
    (Ir)relevance is judged by Python's reading."""
    try:
        if form == "native":
            calls: Any = [
                {name: json.loads(one[name])} for one in result for name in [next(iter(one))]
            ]
        elif language(category) == "python":
            calls = calls_in(result)
        else:
            text = result.strip("`\n ").removeprefix("[").removesuffix("]")
            calls = None if len(text) > MAX_OUTPUT else call(language(category), text)
    except Exception:  # noqa: BLE001
        # whatever goes wrong here, BFCL's own decoder has raised as well
        return None
    return (
        calls
        if calls is not None and all(type(own) is dict for one in calls for own in one.values())
        else None
    )


# --- calls

_TOKEN = re.compile(
    r"""\s+|\bnew\s+[\w.]+\s*<[\w\s,.?<>\[\]]{0,200}?>(?=\s*[(\[])"""
    r"""|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|[\w$]+|=>|[=!<>]=|.""",
    re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NAME = re.compile(r"[A-Za-z_$][\w$]*")


def call(language: str, text: str) -> list[dict[str, dict[Any, Any]]] | None:
    """The call in a text, arguments as source text without the quotes around them; None where it is
    none. A name alone as an argument has the name None, as there."""
    text = text.strip().removesuffix(";")
    head = re.match(r"[\w$.\s]+(?=\()", text)
    tokens = _TOKEN.findall(text[head.end() :]) if head else []
    arguments: list[list[str]] = [[]]
    open_brackets: list[str] = []
    for index, token in enumerate(tokens):
        if token in ('"', "'", "`"):
            return None
        if token in _CLOSING:
            open_brackets.append(_CLOSING[token])
        elif token in _CLOSING.values():
            if not open_brackets or open_brackets.pop() != token:
                return None
            if not open_brackets and "".join(tokens[index + 1 :]).strip():
                return None
        if len(open_brackets) == 1 and token == ",":
            arguments.append([])
        elif open_brackets and (len(open_brackets) > 1 or index):
            arguments[-1].append(token)
    if head is None or open_brackets or not tokens:
        return None
    values: dict[Any, Any] = {}
    for argument in arguments:
        parts = [token for token in argument if token.strip()]
        if len(parts) > 2 and parts[1] == "=" and _NAME.fullmatch(parts[0]):
            name = parts[0]
            own = "".join(argument).split("=", 1)[1].strip()
        elif len(parts) == 1 and _NAME.fullmatch(parts[0]):
            name = None
            own = parts[0]
        else:
            continue
        if name in values:
            return None
        values[name] = _argument(language, own)
    return [{re.sub(r"\s", "", head[0]): values}]


def _argument(language: str, text: str) -> str:
    """The source text of a value as it is compared: without its own quotes, and in Java without
    blanks between tokens or the body of a class (so that no entries of a map are seen)."""
    tokens: Sequence[str] = _TOKEN.findall(text)
    if len(tokens) == 1 or language == "javascript":
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
    if text.endswith(")") and not text.startswith(("new ", "(")):
        return text
    if text.startswith("new "):
        return re.sub(r"\)\s*\{.*", ")", re.sub(r"\s+", " ", text))
    return "".join(token for token in tokens if token.strip())
