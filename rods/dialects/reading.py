"""Reads replies in the native forms of model families, by the tables of `rods.dialects.families`.

One rule for all families: what stands in thinking is not said, so a call in it is no call. A marker
that opens a call is an attempt at one wherever it stands outside of thinking; if any attempt in a
reply fails, the reply is malformed, the whole of it. Text before, between and after calls is kept
out; a reply without calls is an answer. Time is linear in the length of the text, nothing raises,
and values are read as literals, never evaluated."""

import re
from collections.abc import Callable, Iterator, Mapping
from json import JSONDecodeError
from types import NoneType
from typing import Any

from rods.calls import MAX_CALL_TEXT, MAX_CALLS, Call
from rods.canonical import JsonMapping, JsonObject
from rods.dialects import Parsed
from rods.dialects.families import Family
from rods.environments.base import Tool
from rods.model_json import MAX_DEPTH, read_exact, valid_unicode

Tools = Mapping[str, Tool]
_BLANKS = re.compile(r"\s*+")
_QUOTED = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING = re.compile(rf"{_QUOTED}|{_QUOTED.replace(chr(34), chr(39))}", re.DOTALL)
_JSON_PART = re.compile(rf"{_QUOTED}|[\[\]{{}}]", re.DOTALL)
_NAME = re.compile(r"""[^\s<>"'(){}\[\]=:,]++""")
_FUNCTION = re.compile(r'[^<>"\n]++')
_BARE = re.compile(r"[^,\[\]{}()]++")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""} | {
    character: character for character in "\\'\"/"
}
_CONSTANTS = {"true": True, "True": True, "false": False, "False": False}
_CONSTANTS |= {"null": None, "None": None}  # type: ignore[dict-item]
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": NoneType,
}
#: between the calls of a family without a marker
_BETWEEN = re.compile(r"\s*+[;,]?+\s*+(?={)")
MAX_NAME = 512  # characters in which the name of a call ends
_MESSAGE = "<|message|>"
_RECIPIENT = re.compile(r"\bto=([^\s<]++)")
_CHANNEL = re.compile(r"<\|channel\|>\s*+(\w++)")
_MESSAGE_END = re.compile(r"<\|(?:end|call|return|start)\|>")


class _Broken(Exception):
    """A reply that is malformed, and why."""


class Reader:
    """Reads the replies of one family."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.markers = _markers(family)
        # the longer first, where one begins another
        longest = sorted(self.markers, key=len, reverse=True)
        self._marker = re.compile("|".join(map(re.escape, longest)) or "(?!)")

    def read(self, text: str, tools: Tools) -> Parsed:
        """What `text` says: a reply with its special tokens, without the one that ends it, after
        what the prompt opened (thinking). `tools` (by name) decide the types of values that the
        form writes as bare text. Never raises."""
        try:
            if self.family.grammar == "channels":
                return _channels(text, self.family)
            return self._reply(text, tools)
        except _Broken as broken:
            return Parsed(error=str(broken))

    def _reply(self, text: str, tools: Tools) -> Parsed:
        bare = not self.family.open and _names_a_call(text, self.family.form)
        calls: list[Call] = []
        spoken: list[str] = []
        attempted = False
        thought = False
        place = 0
        while len(calls) <= MAX_CALLS:
            start = _blanks(text, place)
            if bare and not spoken and text[start : start + 1] in ("{", "["):
                kind = "call"
                place = start
                bare = False
            elif match := self._marker.search(text, place):
                kind = self.markers[match[0]]
                if said := text[place : match.start()].strip():
                    spoken.append(said)
                place = match.end()
            else:
                break
            if kind == "think":
                thought = True
                place = _thought(text, place, self.family)
            elif kind == "thought":
                if thought or calls or attempted:
                    raise _Broken("thinking is closed that was not opened")
                thought = True  # the prompt opened it
                spoken.clear()
            elif kind == "call":
                parsed, place = _call(text, place, self.family, tools)
                if parsed.error is not None:
                    return parsed
                calls += parsed.calls
            elif kind == "closed":
                raise _Broken(f"{self.family.close.strip()} closes no call")
            attempted = attempted or kind == "section"
        if attempted and not calls:
            raise _Broken(f"{self.family.section[0]} opens a section without calls")
        if calls:
            return Parsed.made(calls)
        return Parsed(answer="\n".join([*spoken, text[place:].strip()]).strip())


def _markers(family: Family) -> Mapping[str, str]:
    """What each marker is: think, thought, section, call, closed, or drop (nothing)."""
    think = family.think or ("", "")
    kinds = {
        **dict.fromkeys((*family.drop, family.section[1]), "drop"),
        think[1]: "thought",
        family.close: "closed",
        think[0]: "think",
        family.section[0]: "section",
        **dict.fromkeys((family.open, *family.open_also), "call"),
    }
    return {marker.strip(): kind for marker, kind in kinds.items() if marker.strip()}


def _thought(text: str, place: int, family: Family) -> int:
    """The place behind thinking that is open at `place`."""
    close = family.think[1].strip() if family.think else ""
    end = text.find(close, place)
    if end < 0:
        raise _Broken(f"thinking is not closed: {close} is missing")
    return end + len(close)


def _names_a_call(text: str, form: Mapping[str, str]) -> bool:
    keys = (form.get("arguments"), form.get("arguments_also"))
    return '"name"' in text and any(f'"{key}"' in text for key in keys)


def _call(text: str, place: int, family: Family, tools: Tools) -> tuple[Parsed, int]:
    """The calls of the block that is open at `place`, and the place behind it."""
    close = family.close.strip()
    start = place
    try:
        calls, place = _GRAMMARS[family.grammar](text, place, family, tools)
        if place - start > MAX_CALL_TEXT:
            raise _Broken("is too long")
        after = _blanks(text, place)
        if text.startswith(close, after):
            return Parsed(calls=tuple(calls)), after + len(close) if close else place
        if family.unclosed and after == len(text):
            return Parsed(calls=tuple(calls)), after
        raise _Broken(f"holds more than a call, or is not closed by {close}")
    except _Broken as broken:
        framed = not close or text.find(close, start) >= 0
        return Parsed(error=f"a call {broken}", in_call=framed), place


def _json(text: str, place: int, family: Family, tools: Tools) -> tuple[list[Call], int]:
    """Objects with a name and arguments, or lists of them."""
    calls: list[Call] = []
    while True:
        value, place = _json_value(text, place)
        values = value if isinstance(value, list) else [value]
        calls += [_json_call(value, family.form) for value in values]
        after = _BETWEEN.match(text, place)
        if family.open or not calls or after is None:
            break
        place = after.end()
    if not calls:
        raise _Broken("is missing: the list is empty")
    return calls, place


def _json_call(value: Any, form: Mapping[str, str]) -> Call:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise _Broken("needs a 'name' (text)")
    keys = [key for key in (form["arguments"], form.get("arguments_also")) if key in value]
    if unknown := value.keys() - {"name", "id", "type", *keys}:
        raise _Broken(f"has no {min(unknown)[:40]!r}: write it in {form['arguments']!r}")
    arguments = value[keys[0]] if len(keys) == 1 else None if keys else {}
    return _made(value["name"], arguments)


def _made(name: str, arguments: Any) -> Call:
    if not isinstance(arguments, dict):
        raise _Broken("needs its arguments as one object")
    return Call(name, arguments)


def _json_value(text: str, place: int) -> tuple[Any, int]:
    """The object or list at `place`, and the place behind it."""
    start = _blanks(text, place)
    depth = 0
    if text[start : start + 1] in ("{", "["):
        for part in _JSON_PART.finditer(text, start):
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(part[0], 0)
            if depth == 0:
                return _exact(text[start : part.end()]), part.end()
    raise _Broken("is not valid JSON")


def _exact(text: str) -> Any:
    try:
        return read_exact(text)
    except UnicodeEncodeError as error:
        raise _Broken("is not valid Unicode") from error
    except ValueError as error:
        broken = "is not valid JSON" if isinstance(error, JSONDecodeError) else f"has {error}"
        raise _Broken(broken) from error


def _named(text: str, place: int, family: Family, tools: Tools) -> tuple[list[Call], int]:
    """A name, a separator, and the arguments as JSON."""
    form = family.form
    place = _past(text, place, form.get("before", ""))
    separator = form["separator"].strip()
    end = text.find(separator, place, place + MAX_NAME)
    if end < 0:
        raise _Broken(f"needs {separator} after its name")
    name = text[place:end]
    if "id" in form:
        name = name.partition(form["id"])[0]
    arguments, place = _json_value(text, end + len(separator))
    call = _made(_plain_name(name.strip(), form["name"]), arguments)
    return [call], _past(text, place, form.get("after", ""))


def _plain_name(name: str, pattern: str) -> str:
    """The name without what the family's `pattern` puts around it: {name}, {number}."""
    before, _, after = pattern.partition("{name}")
    name = name.removeprefix(before)
    if "{number}" in after:
        head, mark, number = name.rpartition(after.partition("{number}")[0])
        name = head if mark and number.isdecimal() else name
    if not name:
        raise _Broken("has no name")
    return name


def _pairs(text: str, place: int, family: Family, tools: Tools) -> tuple[list[Call], int]:
    """A name, then keys and values between markers; the values are bare text."""
    form = family.form
    place = _past(text, place, form.get("name_open", ""))
    name, place = _word(text, place, _FUNCTION)
    place = _past(text, place, form.get("name_close", ""))
    tool = tools.get(name)
    schemas = {entry.name: entry.schema for entry in tool.parameters} if tool else {}
    arguments: JsonObject = {}
    while text.startswith(form["key_open"], after := _blanks(text, place)):
        key, place = _until(text, after + len(form["key_open"]), form["key_close"])
        place = _past(text, place, form["value_open"]) if "value_open" in form else place
        value, place = _until(text, place, form["value_close"])
        pad = form.get("pad", "")
        key = key.strip()
        if key in arguments:
            raise _Broken(f"names {key[:40]!r} twice")
        arguments[key] = typed(value.removeprefix(pad).removesuffix(pad), schemas.get(key))
    return [Call(name, arguments)], _past(text, place, form.get("end", ""))


def typed(text: str, schema: JsonMapping | None) -> Any:
    """The value that bare `text` is for a parameter of this JSON Schema: the first of its types
    that fits, JSON or Python literal; text where none does. Without a type: JSON where it is such,
    else text. `3.0` for an integer is 3."""
    kinds = list(_kinds(schema or {}))
    if kinds[:1] == ["string"]:
        return text
    try:
        value = _whole(text) if kinds else _exact(text)
    except _Broken:
        return text
    for kind in kinds:
        if kind == "string":
            return text
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            return int(value)
        expected = _TYPES.get(kind, ())
        if isinstance(value, expected) and isinstance(value, bool) == (kind == "boolean"):
            return value
    return text if kinds else value


def _kinds(schema: JsonMapping) -> Iterator[str]:
    """The types that a schema allows, in its order."""
    given = schema.get("type", [])
    yield from [given] if isinstance(given, str) else given
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _kinds(part)
    if not given and all(isinstance(value, str) for value in schema.get("enum", [0])):
        yield "string"


def _whole(text: str) -> Any:
    try:
        return _exact(text)
    except _Broken:
        value, place = _literal(text, 0)
        if text[place:].strip():
            raise
        return value


def _pythonic(text: str, place: int, family: Family, tools: Tools) -> tuple[list[Call], int]:
    """[name(key=value), …] with values in Python's or JSON's spelling."""
    place = _past(text, place, "[")
    calls: list[Call] = []
    while not text.startswith("]", place := _blanks(text, place)):
        if calls:
            place = _blanks(text, _past(text, place, ","))
        name, place = _word(text, place, _NAME)
        arguments, place = _members(text, _past(text, place, "("), "=", ")")
        calls.append(Call(name, arguments))
    if not calls:
        raise _Broken("is missing: the list is empty")
    return calls, place + 1


def _braced(text: str, place: int, family: Family, tools: Tools) -> tuple[list[Call], int]:
    """A name and {key:value, …} with bare keys, and texts between quotes of the family's own."""
    place = _past(text, place, family.form.get("name", ""))
    name, place = _word(text, place, _NAME)
    arguments, place = _members(text, _past(text, place, "{"), ":", "}", family.form["quote"])
    return [Call(name, arguments)], place


def _members(
    text: str, place: int, separator: str, close: str, quote: str = "", depth: int = 1
) -> tuple[JsonObject, int]:
    """Keys and values up to `close`, and the place behind it."""
    members: JsonObject = {}
    while not text.startswith(close, place := _blanks(text, place)):
        if members:
            place = _blanks(text, _past(text, place, ","))
        if text[place : place + 1] in ("'", '"') or (quote and text.startswith(quote, place)):
            key, place = _literal(text, place, quote, depth)
        else:
            key, place = _word(text, place, _NAME)
        if key in members:
            raise _Broken(f"names {key[:40]!r} twice")
        members[key], place = _literal(text, _past(text, place, separator), quote, depth)
    return members, place + 1


def _literal(text: str, place: int, quote: str = "", depth: int = 0) -> tuple[Any, int]:
    """The value at `place` in Python's, JSON's or the family's own spelling, and the place behind
    it. With a `quote` of its own, a bare word is text."""
    place = _blanks(text, place)
    first = text[place : place + 1]
    if depth > MAX_DEPTH:
        raise _Broken(f"is nested deeper than {MAX_DEPTH}")
    if quote and text.startswith(quote, place):
        return _until(text, place + len(quote), quote)
    if string := _STRING.match(text, place):
        return valid_unicode(_ESCAPE.sub(_unescaped, string[0][1:-1])), string.end()
    if first == "{":
        return _members(text, place + 1, ":", "}", quote, depth + 1)
    if first in ("[", "("):
        return _items(text, place + 1, "]" if first == "[" else ")", quote, depth + 1)
    word, place = _word(text, place, _BARE)
    if word in _CONSTANTS:
        return _CONSTANTS[word], place
    if word[:1] in "-0123456789":
        try:
            return _exact(word), place
        except _Broken:
            if not quote:
                raise
    if not quote:
        raise _Broken(f"has a value that is no literal: {word[:40]}")
    return word, place


def _items(text: str, place: int, close: str, quote: str, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while not text.startswith(close, place := _blanks(text, place)):
        if items:
            place = _past(text, place, ",")
        item, place = _literal(text, place, quote, depth)
        items.append(item)
    return items, place + 1


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, escape[0])


def _channels(text: str, family: Family) -> Parsed:
    """Messages with a header each, in which `to=` makes a call and the channel says what a text is:
    thinking (analysis), a preamble (commentary) or the answer (final)."""
    calls: list[Call] = []
    spoken: dict[str, list[str]] = {"final": [], "commentary": [], "analysis": []}
    place = 0
    while (body := text.find(_MESSAGE, place)) >= 0 and len(calls) <= MAX_CALLS:
        header = text[place:body]
        body += len(_MESSAGE)
        recipient = _RECIPIENT.search(header)
        channel = _CHANNEL.search(header)
        if recipient:
            arguments: Any = {}
            try:
                if text[body : _message_end(text, body)].strip():
                    arguments, body = _json_value(text, body)
                end = _message_end(text, body)
                if text[body:end].strip():
                    raise _Broken("holds more than its arguments")
                calls.append(_made(_plain_name(recipient[1], family.form["name"]), arguments))
            except _Broken as broken:
                return Parsed(error=f"a call {broken}", in_call=True)
        elif channel is None or channel[1] not in spoken:
            raise _Broken("a message needs a channel: analysis, commentary or final")
        else:
            end = _message_end(text, body)
            spoken[channel[1]].append(text[body:end].strip())
        closed = _MESSAGE_END.match(text, end)
        place = closed.end() if closed else end
    if calls:
        return Parsed.made(calls)
    if "<|" in text[place:]:
        raise _Broken(f"a message without {_MESSAGE}")
    if spoken["analysis"] and not spoken["final"] and not spoken["commentary"]:
        raise _Broken("nothing but thinking: the answer stands in the channel final")
    answer = spoken["final"] or spoken["commentary"] or [text[place:].strip()]
    return Parsed(answer="\n".join(answer))


def _message_end(text: str, place: int) -> int:
    end = _MESSAGE_END.search(text, place)
    return end.start() if end else len(text)


def _word(text: str, place: int, pattern: re.Pattern[str]) -> tuple[str, int]:
    match = pattern.match(text, place)
    if match is None or not match[0].strip():
        raise _Broken(f"is not readable at {text[place : place + 20]!r}")
    return match[0].strip(), match.end()


def _until(text: str, place: int, close: str) -> tuple[str, int]:
    """The text up to `close`, and the place behind it."""
    end = text.find(close, place)
    if end < 0:
        raise _Broken(f"lacks {close}")
    return text[place:end], end + len(close)


def _past(text: str, place: int, mark: str) -> int:
    """The place behind `mark`, which stands at `place` after blanks."""
    mark = mark.strip()
    start = _blanks(text, place)
    if not text.startswith(mark, start):
        raise _Broken(f"lacks {mark} at {text[start : start + 20]!r}")
    return start + len(mark) if mark else place


def _blanks(text: str, place: int) -> int:
    """The place behind the blanks at `place`."""
    match = _BLANKS.match(text, place)
    return match.end() if match else place


_GRAMMARS: Mapping[str, Callable[[str, int, Family, Tools], tuple[list[Call], int]]] = {
    "json": _json,
    "named": _named,
    "pairs": _pairs,
    "pythonic": _pythonic,
    "braced": _braced,
}
