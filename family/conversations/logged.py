"""Reads a logged conversation, in whichever form it is: messages of OpenAI's interfaces (with
`tool_calls`, the older `function_call`, or items of their own for calls and outputs), Anthropic's
(blocks `tool_use` and `tool_result`), or ShareGPT's (`from` and `value`, calls as JSON or between
tags).

Whatever cannot be read as a whole conversation raises `Unreadable`, which names the message. None
is mended by guessing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import orjson

from rods import dialects
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, frozen
from rods.files import module_table
from rods.model_json import exact

_TABLES = module_table(__file__)
ROLES: Mapping[str, str] = {
    name: role for role, names in _TABLES["roles"].items() for name in names
}
CONVERSATION: Sequence[str] = _TABLES["keys"]["conversation"]
_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)
_HERMES = dialects.load("hermes")


class Unreadable(ValueError):
    """Why a conversation makes no task. `message`, counted from 1, is where; 0: the whole of it."""

    def __init__(self, what: str, message: int = 0) -> None:
        super().__init__(what)
        self.message = message


@dataclass(slots=True)
class LoggedCall:
    """A call of the log. `result`: the text that the log has as its answer."""

    call: Call
    message: int  # in which it stands, counted from 1
    id: str | None = None
    result: str | None = None


@dataclass(slots=True)
class LoggedTurn:
    """What a user said, and the calls that answered it."""

    text: str
    calls: list[LoggedCall] = field(default_factory=list)
    answered: bool = False


@frozen
class Conversation:
    """`tools`: the names that the log says were offered, none where it does not say. `notes`: what
    of the log is left out."""

    turns: Sequence[LoggedTurn]
    system: str = ""
    tools: frozenset[str] = frozenset()
    state: JsonMapping | None = None
    notes: tuple[str, ...] = ()


def read(record: Any) -> Conversation:
    """The conversation in a record: an object that has one, or the list of messages alone. Raises
    Unreadable."""
    fields: JsonObject = record if isinstance(record, dict) else {"messages": record}
    messages = next((fields[key] for key in CONVERSATION if key in fields), None)
    if not isinstance(messages, list) or not messages:
        raise Unreadable(f"has no list of messages under {', '.join(CONVERSATION)}")
    reader = _Reader()
    if fields.get("system"):
        reader.system.append(_text(fields["system"]))
    for reader.number, message in enumerate(messages, start=1):
        reader.take(message)
    return reader.conversation(_tools(fields), _state(fields))


class _Reader:
    """Puts messages together to turns, one after the other."""

    def __init__(self) -> None:
        self.number = 0  # of the message that is read
        self.system: list[str] = []
        self._turns: list[LoggedTurn] = []
        self._open: list[LoggedCall] = []  # calls without a result so far

    def conversation(self, tools: frozenset[str], state: JsonMapping | None) -> Conversation:
        self._all_answered()
        turns = list(self._turns)
        notes = []
        if turns and not turns[-1].answered and not turns[-1].calls:
            turns.pop()
            notes.append("the last message of its user is not answered, and left out")
        if not any(turn.calls for turn in turns):
            raise Unreadable("makes no call, so nothing could be judged")
        return Conversation(turns, "\n\n".join(self.system), tools, state, tuple(notes))

    def take(self, message: Any) -> None:
        """Reads the next message."""
        if not isinstance(message, dict):
            self._refuse("is no object")
        named = message.get("role", message.get("from", message.get("type")))
        role = ROLES.get(named) if isinstance(named, str) else None
        if role is None:
            self._refuse(f"is of {named!r}, which is no known role")
        if role == "system":
            # a later one is no part of a task
            if not self._turns:
                self.system.append(_text(message.get("content", message.get("value"))))
        elif role == "calls":
            whole = "name" in message
            self._calls(message if whole else message.get("value", message.get("content")))
        elif role == "results":
            self._results(message)
        else:
            self._said(role, message)

    def _said(self, role: str, message: JsonObject) -> None:
        """A message of the user or the assistant, in blocks where it has them."""
        words = []
        content = message.get("content", message.get("value"))
        for block in _blocks(content, self.number):
            kind = block.get("type", "text")
            if kind == "tool_use":
                self._call(block)
            elif kind == "tool_result":
                self._result(block.get("tool_use_id"), None, _text(block.get("content")))
            elif isinstance(block.get("text"), str):
                words.append(block["text"])
            elif role == "user":
                self._refuse(f"has a part of type {kind!r}, which no task can say")
        text = "\n".join(words)
        if role == "assistant":
            self._reply(text, message)
        elif text.startswith("<tool_response>"):
            self._results({"content": text})
        elif text.strip():
            self._all_answered()
            waiting = self._turns and not (self._turns[-1].answered or self._turns[-1].calls)
            if waiting:  # two messages that nobody answered between them are one request
                self._turns[-1].text += f"\n\n{text}"
            else:
                self._turns.append(LoggedTurn(text))

    def _reply(self, text: str, message: JsonObject) -> None:
        called = message.get("tool_calls") or []
        if message.get("function_call"):
            called = [message["function_call"]]
        if not isinstance(called, list):
            self._refuse("has 'tool_calls' that are no list")
        for entry in called:
            self._call(entry)
        if "<tool_call>" in text:
            # what is malformed was carried out by nobody, or its result is refused
            for call in _HERMES.parse(text).calls:
                self._call(call.as_json())
        if self._turns:
            self._turns[-1].answered = True

    def _calls(self, content: Any) -> None:
        """A message that is nothing but calls."""
        if isinstance(content, str):
            content = self._json(content, "the calls")
        for entry in content if isinstance(content, list) else [content]:
            self._call(entry)

    def _call(self, entry: Any) -> None:
        fields = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(fields, dict) or not isinstance(name := fields.get("name"), str):
            self._refuse(f"has a call without a name: {str(entry)[:80]}")
        if not self._turns:
            self._refuse(f"calls {name} before its user has said anything")
        keys = (key for key in _TABLES["keys"]["arguments"] if key in fields)
        arguments = fields.get(next(keys, ""))
        if isinstance(arguments, str):
            written = arguments.strip() or "{}"
            arguments = self._json(written, f"the arguments of {name}")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            self._refuse(f"gives {name} {str(arguments)[:80]}, where an object of arguments stands")
        own = entry.get("call_id", entry.get("id"))
        if own is not None and any(call.id == own for call in self._open):
            self._refuse(f"has two calls with the id {own!r}")
        logged = LoggedCall(Call(name, arguments), self.number, own)
        self._turns[-1].calls.append(logged)
        self._open.append(logged)

    def _results(self, message: JsonObject) -> None:
        content = message.get("content", message.get("value", message.get("output")))
        own = message.get("tool_call_id", message.get("call_id", message.get("tool_use_id")))
        text = _text(content)
        for result in _RESPONSE.findall(text) or [text]:
            self._result(own, message.get("name"), result)

    def _result(self, own: Any, name: Any, text: str) -> None:
        """The result of the call with this id; where it has none, of the first that waits, of this
        name where one has it."""
        waiting = [call for call in self._open if own is None or call.id == own]
        if own is None:
            waiting.sort(key=lambda call: call.call.name != name)
        if not waiting:
            of_call = "a call" if own is None else f"the call {own!r}"
            self._refuse(f"has the result of {of_call}, which no message before it makes")
        waiting[0].result = text
        self._open.remove(waiting[0])

    def _all_answered(self) -> None:
        if self._open:
            call = self._open[0]
            what = f"calls {call.call.name}, and the log has no result of it"
            raise Unreadable(what, call.message)

    def _json(self, text: str, what: str) -> Any:
        try:
            return exact(text)
        except ValueError as error:
            self._refuse(f"{what} are no JSON: {error}")

    def _refuse(self, what: str) -> NoReturn:
        raise Unreadable(what, self.number)


def _blocks(content: Any, number: int) -> Iterator[JsonObject]:
    """The parts of a message's content: none, a text, or a list of texts and objects."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, dict):
            yield part
        elif part is not None:
            if not isinstance(part, str):
                raise Unreadable(f"has {str(part)[:80]}, where a text or parts stand", number)
            yield {"text": part}


def _text(content: Any) -> str:
    """What a content says in words; JSON that is neither a text nor made of parts, as it is."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    if parts and all(isinstance(part, dict) and type(part.get("text")) is str for part in parts):
        return "\n".join(part["text"] for part in parts)
    return orjson.dumps(content).decode()


def _tools(fields: JsonMapping) -> frozenset[str]:
    """The names of the tools that a record says were offered."""
    tools = fields.get("tools") or fields.get("functions") or []
    if isinstance(tools, str):
        tools = _parsed(tools, "tools")
    documents = [tool.get("function", tool) for tool in tools if isinstance(tool, dict)]
    return frozenset(
        document["name"]
        for document in documents
        if isinstance(document, dict) and isinstance(document.get("name"), str)
    )


def _state(fields: JsonMapping) -> JsonMapping | None:
    """The initial state that a record gives."""
    key = next((key for key in _TABLES["keys"]["state"] if fields.get(key)), "")
    state = fields.get(key)
    if isinstance(state, str):
        state = _parsed(state, key)
    if state is not None and not isinstance(state, dict):
        raise Unreadable(f"{key!r} is no object")
    return state


def _parsed(text: str, key: str) -> Any:
    try:
        return exact(text)
    except ValueError as error:
        raise Unreadable(f"{key!r} is no JSON: {error}") from None
