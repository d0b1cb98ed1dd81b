"""The dialect `native`: calls and answers in the form that a model's own chat template gives them,
by the table of its family.

`write` gives what `parse` reads back, but for what a form cannot carry: a text that holds the mark
which closes it (`</parameter>` in bare text, the quote of a family's own), numbers beyond 64 bits,
and in forms of bare text a value whose type the tool does not declare."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject
from rods.dialects import NO_TOOLS, Message, Parsed, RoleAndText
from rods.dialects.families import Family, family_of, named
from rods.dialects.reading import Reader
from rods.environments.base import Result, Tool
from rods.errors import UserError
from rods.files import read_regular

Calls = Sequence[Call]
_TOOLS = re.compile(r"\btools\b")
MORE_TOOLS = "More functions are available from now on:"


class Native:
    """Reads and writes the replies of one family of models."""

    name = "native"

    def __init__(self, family: Family) -> None:
        self.family = family
        self._reader = Reader(family)
        self._marks = sorted({*self._reader.markers, *family.ends})

    def system(self, tools: Sequence[Tool], guidelines: str = "") -> str:
        return guidelines

    def beside(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        return tuple(_document(tool) for tool in tools)

    def user(self, text: str, returned: Sequence[Tool]) -> str:
        """A user turn. No chat template documents tools that come back in mid conversation: they
        stand below the text, one JSON document a line."""
        if not returned:
            return text
        return "\n".join([text, "", MORE_TOOLS, *map(_document, returned)])

    def observation(self, calls: Calls, results: Sequence[Result]) -> Sequence[Message]:
        return [
            Message("tool", result.text, name=call.name)
            for call, result in zip(calls, results, strict=True)
        ]

    def complaint(self, error: str) -> RoleAndText:
        return "user", f"Format error: {error}."

    def parse(self, text: str, tools: Mapping[str, Tool] = NO_TOOLS) -> Parsed:
        """Reads a reply: decoded with its special tokens, without the token that ends it, after
        what the prompt opened (`<think>`). `tools` by name: their schemas type what the form writes
        as bare text. Never raises."""
        return self._reader.read(text, tools)

    def write(self, calls: Calls) -> str:
        """The reply that makes `calls`, with all markers, without the token that ends it. Where
        the family renders one call in a message only, several stand as its parser reads them."""
        family = self.family
        written = [
            f"{family.open}{_WRITERS[family.grammar](self, block, number)}{family.close}"
            for number, block in enumerate([calls] if family.list else [[call] for call in calls])
        ]
        text = f"{family.section[0]}{family.between.join(written)}{family.section[1]}"
        return text.removeprefix(family.prefix)

    def answer(self, text: str) -> str:
        """The reply that ends a turn with `text`."""
        return f"{self.family.answer_prefix}{text}"

    def _json(self, calls: Calls, number: int) -> str:
        key = self.family.form.arguments
        values = [{"name": call.name, key: call.arguments} for call in calls]
        return self._dumped(values if self.family.list else values[0])

    def _named(self, calls: Calls, number: int) -> str:
        form = self.family.form
        name = form.name.format(name=calls[0].name, number=number)
        arguments = self._dumped(calls[0].arguments)
        return f"{form.before}{name}{form.separator}{arguments}{form.after}"

    def _pairs(self, calls: Calls, number: int) -> str:
        form = self.family.form
        text = f"{form.name_open}{calls[0].name}{form.name_close}"
        for key, value in calls[0].arguments.items():
            if not isinstance(value, str):
                nested = isinstance(value, list | dict)
                value = str(value) if form.python and not nested else _dumped(value)
            text += f"{form.key_open}{key}{form.key_close}{form.value_open}{form.pad}{value}"
            text += f"{form.pad}{form.value_close}{form.key_end}"
        return text + form.end

    def _pythonic(self, calls: Calls, number: int) -> str:
        written = [
            ", ".join(f"{key}={self._argument(value)}" for key, value in call.arguments.items())
            for call in calls
        ]
        functions = [f"{call.name}({text})" for call, text in zip(calls, written, strict=True)]
        return f"[{', '.join(functions)}]"

    def _argument(self, value: Any) -> str:
        if isinstance(value, list | dict):
            return self._dumped(value)
        if not isinstance(value, str):
            return str(value)
        text = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return self._markless(f"'{text}'").replace("\r", "\\r")

    def _braced(self, calls: Calls, number: int) -> str:
        name = self.family.form.name.format(name=calls[0].name)
        return f"{name}{self._quoted(calls[0].arguments)}"

    def _quoted(self, value: Any) -> str:
        quote = self.family.form.quote
        if isinstance(value, str):
            return f"{quote}{value}{quote}"
        if isinstance(value, Mapping):
            members = [f"{key}:{self._quoted(value[key])}" for key in sorted(value)]
            return f"{{{','.join(members)}}}"
        if isinstance(value, list):
            return f"[{','.join(map(self._quoted, value))}]"
        return _dumped(value)

    def _dumped(self, value: Any) -> str:
        return self._markless(_dumped(value))

    def _markless(self, text: str) -> str:
        """JSON or a quoted text in which no text can be taken for a marker: the first character of
        one is escaped."""
        for mark in self._marks:
            text = text.replace(mark, f"\\u{ord(mark[0]):04x}{mark[1:]}")
        return text


def as_rendered(message: Message, place: int = 0) -> JsonObject:
    """`message` as chat templates take it; the result of the call number `place` of its reply."""
    shown: JsonObject = {"role": message.role, "content": message.content}
    return shown | {"name": message.name, "tool_call_id": _id(place)} if message.name else shown


def call_as_rendered(name: str, arguments: JsonMapping, place: int = 0) -> JsonObject:
    """A call as chat templates take it, its arguments as a mapping."""
    function = {"name": name, "arguments": dict(arguments)}
    return {"id": _id(place), "type": "function", "function": function}


def assistant_as_rendered(calls: Sequence[JsonMapping]) -> JsonObject:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def _id(place: int) -> str:
    return f"call{place:05d}"  # nine characters: some templates take no other


def family_in(folder: str, name: str = "") -> Family | None:
    """The family of the chat template in a model's `folder`, or the one that is named; None where
    it writes neither tools nor calls. Raises UserError where it documents tools in a form that is
    not known here, or writes calls and documents no tools, and for a name that no family has."""
    template = template_in(Path(folder))
    family = named(name) if name else family_of(template)
    documents = _TOOLS.search(template) is not None
    if family is None and documents:
        raise UserError(
            "its chat template documents tools in a form that no family here has",
            where=folder,
            remedy='name the family (policy.family), or set policy.dialect = "hermes"',
        )
    if family is not None and template and not documents:
        raise UserError(
            f"its chat template writes the calls of {family.title} and documents no tools",
            where=folder,
            remedy='set policy.dialect = "hermes", or save a chat_template.jinja that documents '
            "them beside the tokenizer",
        )
    return family


def template_in(folder: Path) -> str:
    """The chat template that transformers would load from a model's `folder`, the one for tools
    where it has several; empty where there is none."""
    file = folder / "chat_template.jinja"
    config = folder / "tokenizer_config.json"
    if file.exists():
        return read_regular(file).decode("utf-8", "replace")
    if not config.exists():
        return ""
    template = json.loads(read_regular(config)).get("chat_template") or ""
    if isinstance(template, list):
        by_name = {one["name"]: one["template"] for one in template}
        return str(by_name.get("tool_use") or by_name.get("default") or "")
    return str(template)


def _document(tool: Tool) -> str:
    return _dumped({"type": "function", "function": tool.schema()})


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_WRITERS: Mapping[str, Callable[[Native, Calls, int], str]] = {
    "json": Native._json,
    "named": Native._named,
    "pairs": Native._pairs,
    "pythonic": Native._pythonic,
    "braced": Native._braced,
}
