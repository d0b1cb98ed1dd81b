"""Calls in the formats of BFCL's format sensitivity, read as BFCL reads them and written.

XML becomes values by the wheel's own functions. BFCL looks for JSON and for tags by patterns whose
time grows exponentially with a cut-off list; here the same parts are found in one pass."""

import ast
import json
import re
import xml.etree.ElementTree as ElementTree
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from rods.calls import Call
from rods.family.benchmarks.bfcl.decoding import bracketed, calls_of
from rods.family.benchmarks.bfcl.harness import taken
from rods.worlds.bfcl import wheel

_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    dict: "dict",
    type(None): "null",
}
_OPENS = re.compile(r"\[\s*\{")
_GOES_ON = re.compile(r"\s*,\s*\{")
_CLOSES = re.compile(r"\s*\]")


def _told(format: str) -> tuple[str, bool]:
    """How calls are written (python, json, verbose_xml, concise_xml), and whether in a tag."""
    told = dict(part.split("=") for part in format.split("&"))
    return told["ret_fmt"], told["tool_call_tag"] == "True"


def decoded(text: Any, format: str) -> list[dict[str, Any]] | None:
    """The calls in an output; None where BFCL's decoder raises or finds something else than
    calls."""
    kind, tagged = _told(format)
    try:
        text = bracketed(text)
        if tagged:
            text = _between(text, "<TOOLCALL>", "</TOOLCALL>").strip()
        if kind == "python":
            calls = calls_of(text)
        elif kind == "json":
            start = text.find("[")
            end = text.rfind("]")
            calls = _json_calls(text[start : end + 1] if 0 <= start < end else text)
        else:
            calls = _xml_reader(kind)(
                f"<functions>{_between(text, '<functions>', '</functions>')}</functions>"
            )
    except Exception:  # noqa: BLE001 whatever goes wrong here, BFCL's own decoder has raised as well
        return None
    return calls if all(type(own) is dict for call in calls for own in call.values()) else None


def _between(text: str, opening: str, closing: str) -> str:
    """What stands between the first `opening` and the next `closing`. Raises ValueError."""
    start = text.index(opening) + len(opening)
    return text[start : text.index(closing, start)]


def _json_calls(text: str) -> list[dict[str, Any]]:
    try:
        listed = json.loads(_list_of_objects(text))
    except json.JSONDecodeError:
        return []
    return [{entry["function"]: entry["parameters"]} for entry in listed if isinstance(entry, dict)]


def _list_of_objects(text: str) -> str:
    r"""What `\[\s*{.*?}\s*(?:,\s*{.*?}\s*)*\]` matches first, the dot for any character; else the
    whole text.

    Behind a "}" the match goes on to another object where that comes to the end of a list at all,
    and else closes the list: where it ends is worked out from the last "}" back to the first."""
    ends: dict[int, int] = {}  # place behind a "}" → end of the match that goes on there
    places: list[int] = []  # their keys, negated, so that they ascend

    def end_from(opened: int) -> int | None:
        """The end of the match whose next object begins before `opened`."""
        index = bisect_left(places, -opened) - 1
        return ends[-places[index]] if index >= 0 else None

    for place in reversed([match.end() for match in re.finditer("}", text)]):
        more = _GOES_ON.match(text, place)
        closes = _CLOSES.match(text, place)
        end = end_from(more.end()) if more else None
        if end is None and closes:
            end = closes.end()
        if end is not None:
            ends[place] = end
            places.append(-place)
    opens = _OPENS.search(text)
    end = end_from(opens.end()) if opens else None
    return text if opens is None or end is None else text[opens.start() : end]


@cache
def _xml_reader(form: str) -> Callable[[str], list[dict[str, Any]]]:
    name = f"parse_{form}_function_call"
    known = {"ast": ast, "ET": ElementTree}
    member = "model_handler/parser/xml_parser.py"
    reader: Callable[[str], list[dict[str, Any]]]
    reader = taken(wheel.path(), member, [name, "convert_value_by_type"], known)[name]
    return reader


def written(calls: Sequence[Call], format: str) -> str:
    """The output that makes `calls`, which is read as these."""
    kind, tagged = _told(format)
    if kind == "python":
        text = f"[{', '.join(map(str, calls))}]"
    elif kind == "json":
        text = json.dumps(
            [{"function": call.name, "parameters": dict(call.arguments)} for call in calls]
        )
    else:
        text = "".join(
            f"<function name={quoteattr(call.name)}>{_arguments(call, kind)}</function>"
            for call in calls
        )
        text = f"<functions>{text}</functions>"
    return f"<TOOLCALL>{text}</TOOLCALL>" if tagged else text


def _arguments(call: Call, form: str) -> str:
    parts = []
    for name, value in call.arguments.items():
        kind = _TYPES.get(type(value), "array")
        text = str(value)
        about = f"name={quoteattr(name)} type={quoteattr(kind)}"
        if form == "verbose_xml":
            parts.append(f"<param {about} value={quoteattr(text)}/>")
        else:
            parts.append(f"<param {about}>{escape(text)}</param>")
    return f"<params>{''.join(parts)}</params>" if form == "verbose_xml" else "".join(parts)
