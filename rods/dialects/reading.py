"""Reads replies in the native forms of model families, by the tables of `rods.dialects.families`.

One rule for all families: what stands in thinking is not said, so a call in it is no call. A marker
that opens a call is an attempt at one wherever it stands outside of thinking; if any attempt in a
reply fails, the reply is malformed, the whole of it. Text before, between and after calls is kept
out; a reply without calls is an answer. Time is linear in the length of the text, nothing raises,
and values are read as literals, never evaluated."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from json import JSONDecodeError
from typing import Any

from rods.calls import MAX_CALL_TEXT, MAX_CALLS, Call
from rods.canonical import JsonMapping, JsonObject
from rods.dialects import ESCAPES, Parsed
from rods.dialects.families import Family, Form
from rods.environments.base import Tool
from rods.model_json import TYPES, read_exact, valid_unicode

Tools = Mapping[str, Tool]
Read = tuple[list[Call], int]  # calls, and the place behind them
_BLANKS = re.compile(r"\s*+")
_QUOTED = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_JSON_PART = re.compile(rf"{_QUOTED}|[\[\]{{}}]", re.DOTALL)
_PART = re.compile(
    rf"""{_QUOTED}|{_QUOTED.replace('"', "'")}|[,:=(){{}}\[\]]|[^\s,:=(){{}}\[\]'"]++""", re.DOTALL
)
_NAME = re.compile(r"[\w.-]++")
_FUNCTION = re.compile(r"""\s*+([^\s<>"{}\[\]]++)""")
_NUMBER = re.compile(r"[-+.0-9eE]++")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = dict(zip("ntrbf\n\\'\"/", "\n\t\r\b\f\0\\'\"/", strict=True)) | {"\n": ""}
_OPENING = {"[": ("[", "]", "]"), "{": ("{", "}", "}"), "(": ("[", ")", "]")}
_SPELLED = {"True": "true", "False": "false", "None": "null", "=": ":"}
_SPELLED |= {token: token for token in ("true", "false", "null", ",", ":", ")", "]", "}")}
#: between the calls of a family without a marker
_BETWEEN = re.compile(r"\s*+[;,]?+\s*+(?={)")
MAX_HEADER = 512  # characters between a call's name and its arguments, at most


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
            return self._reply(self.family.prefix + text, tools)
        except _Broken as broken:
            return Parsed(error=str(broken))

    def _reply(self, text: str, tools: Tools) -> Parsed:
        form = self.family.form
        keys = [f'"{key}"' for key in (form.arguments, form.arguments_also) if key]
        bare = not self.family.open and '"name"' in text and any(key in text for key in keys)
        think = self.family.think or ("", "")
        last = text.rfind(self.family.close.strip()) if self.family.prose else len(text)
        calls: list[Call] = []
        spoken: list[str] = []
        attempted = False
        thought = False
        unsaid = place = 0
        while len(calls) <= MAX_CALLS:
            match = self._marker.search(text, place)
            kind = self.markers[match[0]] if match else ""
            start = match.end() if match else len(text)
            mention = kind == "call" and last < start and not calls
            if mention and _next(text, start) not in ("{", "["):
                place = start
                continue
            if bare and not spoken and _next(text, place) in ("{", "["):
                kind = "call"
                start = place
            elif said := text[unsaid : match.start() if match else start].strip():
                spoken.append(said)
            if match and match[0] == self.family.answer_prefix.strip():
                spoken.clear()  # what stood before was no answer
            bare = bare and kind in ("think", "thought")
            unsaid = place = start
            if kind == "think":
                thought = True
                unsaid = place = _until(text, place, think[1])[1]
            elif kind == "thought":
                if thought or attempted or (calls and not self.family.prose):
                    raise _Broken(
                        f"{think[1]} closes no {think[0]}, or closes it twice: think once, first"
                    )
                thought = True  # the prompt opened it
                calls.clear()
                spoken.clear()
            elif kind == "call":
                parsed, place = _call(text, place, self.family, tools)
                if parsed.error is not None:
                    return parsed
                calls += parsed.calls
                unsaid = place
            elif kind == "stray":
                raise _Broken(
                    f"{text[:start][-20:]!r} stands outside of a call: write nothing beside calls"
                )
            elif not kind:
                break
            attempted = attempted or kind == "section"
        if attempted and not calls:
            raise _Broken(f"{self.family.section[0]} opens a section without calls: leave it out")
        return Parsed.made(calls) if calls else Parsed(answer="\n".join(spoken))


def _markers(family: Family) -> Mapping[str, str]:
    """What each marker is: think, thought, section, call, stray, or drop (nothing)."""
    think = family.think or ("", "")
    kinds = {
        **dict.fromkeys((family.close, *family.stray), "stray"),
        think[1]: "thought",
        think[0]: "think",
        family.section[0]: "section",
        **dict.fromkeys((family.open, *family.open_also), "call"),
        **dict.fromkeys((*family.drop, family.section[1]), "drop"),
    }
    return {marker.strip(): kind for marker, kind in kinds.items() if marker.strip()}


def _call(text: str, place: int, family: Family, tools: Tools) -> tuple[Parsed, int]:
    """The calls of the block that is open at `place`, and the place behind it."""
    close = family.close.strip()
    start = place
    try:
        calls, place = _GRAMMARS[family.grammar](text, place, family, tools)
        if place - start > MAX_CALL_TEXT:
            raise _Broken(f"is longer than {MAX_CALL_TEXT} characters: make several")
        after = _blanks(text, place)
        closed = text.startswith(close, after)
        # another marker than `open` has no close of its own
        other = not text.endswith(family.open.strip(), 0, start)
        if closed or (family.unclosed and (other or after == len(text))):
            return Parsed(calls=tuple(calls)), after + closed * len(close)
        raise _Broken(f"holds more than a call, or is not closed by {close}: {ESCAPES}")
    except _Broken as broken:
        framed = not close or text.find(close, start) >= 0
        return Parsed(error=f"a call {broken}", in_call=framed), place


def _json(text: str, place: int, family: Family, tools: Tools) -> Read:
    """Objects with a name and arguments, or lists of them."""
    calls: list[Call] = []
    after: re.Match[str] | None = None
    while after or not calls:
        value, place = _json_value(text, after.end() if after else place)
        calls += _json_calls(value, family.form)
        after = None if family.open else _BETWEEN.match(text, place)
    return calls, place


def _json_calls(value: Any, form: Form) -> list[Call]:
    calls = value if isinstance(value, list) else [value]
    if not calls:
        raise _Broken("is missing: the list is empty")
    return [_json_call(call, form) for call in calls]


def _json_call(value: Any, form: Form) -> Call:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise _Broken("needs a 'name' (text)")
    keys = value.keys() - {"name", "id", "type"}
    if len(keys) > 1 or not keys <= {form.arguments, form.arguments_also} - {""}:
        unknown = min(keys - {form.arguments})[:40]
        remedy = f"write what it takes in {form.arguments!r}"
        raise _Broken(f"has 'name' and {form.arguments!r} only, not {unknown!r}: {remedy}")
    return _made(value["name"], value[keys.pop()] if keys else {})


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
    raise _Broken(f"is not valid JSON: {ESCAPES}")


def _exact(text: str) -> Any:
    try:
        return read_exact(text)
    except UnicodeEncodeError as error:
        raise _Broken("is not valid Unicode: leave out half of a surrogate pair") from error
    except ValueError as error:
        no_json = isinstance(error, JSONDecodeError)
        broken = f"is not valid JSON: {ESCAPES}" if no_json else f"has {error}"
        raise _Broken(broken) from error


def _named(text: str, place: int, family: Family, tools: Tools) -> Read:
    """A name, a separator, and the arguments as JSON."""
    form = family.form
    name, place = _function(text, _past(text, place, form.before))
    before, _, after = form.name.partition("{name}")
    name = name.removeprefix(before)
    if after:
        name = name.rpartition(after.removesuffix("{number}"))[0] or name
    _, place = _until(text, place, (form.header or form.separator).strip(), MAX_HEADER)
    arguments, place = _json_value(text, place)
    return [_made(name, arguments)], _past(text, place, form.after)


def _function(text: str, place: int) -> tuple[str, int]:
    """A function's name at `place`, after blanks, and the place behind it."""
    match = _FUNCTION.match(text, place)
    if match is None:
        raise _Broken(f"has no name at {text[place : place + 20]!r}: begin with the tool's")
    return match[1], match.end()


def _pairs(text: str, place: int, family: Family, tools: Tools) -> Read:
    """A name, then keys and values between markers; the values are bare text."""
    form = family.form
    name, place = _function(text, _past(text, place, form.name_open))
    place = _past(text, place, form.name_close)
    parameters = tools[name].parameters if name in tools else ()
    schemas = {entry.name: entry.schema for entry in parameters}
    arguments: JsonObject = {}
    while text.startswith(form.key_open, after := _blanks(text, place)):
        key, place = _until(text, after + len(form.key_open), form.key_close)
        value, place = _until(text, _past(text, place, form.value_open), form.value_close)
        key = key.strip()
        if key in arguments:
            raise _Broken(f"names {key[:40]!r} twice: write each argument once")
        value = value.removeprefix(form.pad).removesuffix(form.pad)
        arguments[key] = typed(value, schemas.get(key, {}))
    return [Call(name, arguments)], _past(text, place, form.end)


def typed(text: str, schema: JsonMapping) -> Any:
    """The value that bare `text` is for a parameter of this JSON Schema: the first of its types
    that fits, JSON or Python literal; text where none does. Without a type: JSON where it is such,
    else text. `3.0` for an integer is 3."""
    kinds = list(_kinds(schema))
    if kinds[:1] == ["string"]:
        return text
    try:
        value = _exact(text)
    except _Broken:
        value = _python_value(text) if kinds else text
    for kind in kinds:
        if kind == "string":
            return text
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            return int(value)
        expected = TYPES.get(kind, ())
        if isinstance(value, expected) and isinstance(value, bool) == (kind == "boolean"):
            return value
    return text if kinds else value


def _python_value(text: str) -> Any:
    """A Python literal's value, or the text that is none."""
    try:
        value, place = _literal(text, 0)
    except _Broken:
        return text
    return text if text[place:].strip() else value


def _kinds(schema: JsonMapping) -> Iterator[str]:
    """The types that a schema allows, in its order."""
    given = schema.get("type", [])
    yield from [given] if isinstance(given, str) else given
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _kinds(part)
    if not given and all(isinstance(value, str) for value in schema.get("enum", [0])):
        yield "string"


def _pythonic(text: str, place: int, family: Family, tools: Tools) -> Read:
    """[name(key=value), …] with values in Python's or JSON's spelling."""
    value, place = _literal(text, place)
    return _json_calls(value, family.form), place


def _braced(text: str, place: int, family: Family, tools: Tools) -> Read:
    """A name and {key:value, …} with bare keys, and texts between quotes of the family's own."""
    before, _, _ = family.form.name.partition("{name}")
    name, place = _function(text, _past(text, place, before))
    arguments, place = _literal(text, place, family.form.quote)
    return [_made(name, arguments)], place


def _literal(text: str, place: int, quote: str = "") -> tuple[Any, int]:
    """The value at `place`, and the place behind it: Python's or JSON's spelling, calls
    (`name(key=value)`, as objects), and, where the family has a `quote`, its texts and bare words.
    Spelled as JSON first: what that refuses is refused."""
    parts: list[str] = []
    closing: list[tuple[str, str]] = []  # the brackets that are awaited, and their spelling
    while True:
        place = _blanks(text, place)
        part = _PART.match(text, place)
        if quote and text.startswith(quote, place):
            value, place = _until(text, place + len(quote), quote)
            parts.append(json.dumps(value, ensure_ascii=False))
        elif part is None:
            raise _Broken(f"is not readable at {text[place : place + 20]!r}: put texts in quotes")
        else:
            token = part[0]
            place = _blanks(text, part.end())
            following = text[place : place + 1]
            if token in _OPENING:
                parts.append(_OPENING[token][0])
                closing.append(_OPENING[token][1:])
            elif closing and token == closing[-1][0]:
                parts.append(closing.pop()[1])
            elif following == "(" and _NAME.fullmatch(token):
                parts.append(f'{{"name": "{token}", "arguments": {{')
                closing.append((")", "}}"))
                place += 1
            else:
                parts.append(_spelled(token, following, quote))
        if not closing:
            return _exact("".join(parts)), place


def _spelled(token: str, following: str, quote: str) -> str:
    """A token of a literal as JSON spells it."""
    if token[0] in "'\"":
        token = valid_unicode(_ESCAPE.sub(_unescaped, token[1:-1]))
    elif token in _SPELLED:
        return _SPELLED[token]
    elif following not in (":", "=") and (not quote or _NUMBER.fullmatch(token)):
        return token
    return json.dumps(token, ensure_ascii=False)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, escape[0])


def _until(text: str, place: int, close: str, limit: int | None = None) -> tuple[str, int]:
    """The text up to `close`, and the place behind it."""
    end = text.find(close, place, limit and place + limit)
    if end < 0:
        raise _Broken(f"lacks {close}: close what you open")
    return text[place:end], end + len(close)


def _past(text: str, place: int, mark: str) -> int:
    """The place behind `mark`, which stands at `place` after blanks."""
    mark = mark.strip()
    start = _blanks(text, place)
    if not text.startswith(mark, start):
        raise _Broken(f"lacks {mark} at {text[start : start + 20]!r}: put it there")
    return start + len(mark) if mark else place


def _next(text: str, place: int) -> str:
    """The first character at `place` that is no blank."""
    start = _blanks(text, place)
    return text[start : start + 1]


def _blanks(text: str, place: int) -> int:
    """The place behind the blanks at `place`."""
    match = _BLANKS.match(text, place)
    return match.end() if match else place


_GRAMMARS: Mapping[str, Callable[[str, int, Family, Tools], Read]] = {
    "json": _json,
    "named": _named,
    "pairs": _pairs,
    "pythonic": _pythonic,
    "braced": _braced,
}
