"""Encodes a `Request` as a request body and decodes a reply's body into a `Completion`.

Lone surrogates become U+FFFD, in both directions (orjson refuses them, and no log could hold them);
NaN and infinities in a request are refused; integers over 64 bits are sent and read exactly.
Anything in a reply may have any type."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson

from rods.canonical import JsonMapping, JsonObject, refuse_nan
from rods.faults import Finish
from rods.llm.connections import Key
from rods.llm.records import Completion, Request, ToolCall
from rods.model_json import all_valid, valid_unicode

# characters of an answer, and of all calls in it; what is longer was cut short (`length`)
MOST_TEXT = 1 << 22
MOST_NAME = 300  # characters of what a server calls its model, and of a tool's name
NO_KEY = Key()
CHAT = "/chat/completions"
CHARACTERS_A_TOKEN = 4  # a rough count, for servers that send none
# what servers call the end of an answer, in small letters
_WORDS: dict[Finish, str] = {
    "stop": "stop eos eos_token stop_sequence end_turn",
    "tools": "tool_calls function_call tool_use",
    "length": "length max_tokens model_length",
    # vLLM and SGLang; routers; DeepSeek; Zhipu
    "aborted": "abort aborted cancelled canceled error insufficient_system_resource network_error",
    "filtered": "content_filter safety sensitive refusal",
}
_FINISH = {word: finish for finish, words in _WORDS.items() for word in words.split()}
_NO_ROOM = re.compile(
    r"maximum context length|context[ _]length|max_model_len|prompt is too long|longer than the "
    r"maximum"
    r"|available context size|exceed_context_size"  # llama.cpp
    r"|input length .*exceeds the maximum allowed length",  # SGLang
    re.I,
)
# Fields that a server may refuse, and what it is sent instead ("": nothing; the same: it has to be
# there): some models know another limit, a fixed temperature, no seed, or streams alone.
REPLACEMENTS = {
    "max_tokens": "max_completion_tokens",
    "temperature": "",
    "top_p": "",
    "seed": "",
    "chat_template_kwargs": "",
    "stream": "stream",
}
_UNKNOWN = re.compile(
    r"(?:not|n't|never) (?:be )?(?:support|permit|allow|accept|recogni|avail)"
    r"|unsupported|unknown|unrecogni|unexpected|unavailable|extra|no longer|deprecated",
    re.I,
)
# what orjson refuses and json reads, fifty times as slowly
_PYTHON_ALONE = (rb"\ud", rb"\uD", b"NaN", b"Infinity")

_STREAM = (b"data:", b"event:", b"id:", b": ", b":\n")  # how server-sent events begin

# A model's own thinking, as far as it got; some chat templates write its opening tag into the
# prompt.
THOUGHTS = re.compile(r"\s*+(?:<think>.*?(?:</think>|\Z)|[^{<].*?</think>)", re.DOTALL)


class NotAnAnswer(ValueError):
    """A body that is no chat completion: cut, garbled, or from something that is not the server."""


def path(request: Request) -> str:
    """Where a request goes, below the base address."""
    if request.texts:
        return "/embeddings"
    return CHAT if request.prompt is None else "/completions"


def encode(
    request: Request,
    model: str,
    extra: JsonMapping,
    fields: Mapping[str, str] = {},
    *,
    constrained: bool,
) -> bytes:
    """The body, whose fields are called as `fields` says, or left out where it says "". Raises
    ValueError for what JSON cannot say."""
    if request.texts:
        return orjson.dumps(
            {
                "model": model,
                "input": [valid_unicode(text) for text in request.texts],
                **request.extra,
            }
        )
    body: JsonObject = {
        "model": model,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        **(
            {"messages": request.messages} if request.prompt is None else {"prompt": request.prompt}
        ),
        **({} if request.random_seed is None else {"seed": request.random_seed}),
        **({"tools": request.tools} if request.tools else {}),
    }
    if constrained and request.schema is not None:
        refuse_nan(request.schema)
        answer = {"name": "answer", "schema": request.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": answer}
    body |= extra
    if request.thinking is not None:
        body["chat_template_kwargs"] = {
            **body.get("chat_template_kwargs", {}),
            "enable_thinking": request.thinking,
        }
    body |= request.extra
    body |= {"stream": True} if fields.get("stream") else {}
    body = {called: value for name, value in body.items() if (called := fields.get(name, name))}
    try:
        return orjson.dumps(body)
    except TypeError:  # lone surrogates, integers over 64 bits, or something that is no JSON at all
        try:
            text = json.dumps(
                all_valid(body), ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"this request cannot be written as JSON: {error}") from None
        return text.encode()


def decode(body: bytes, sent: Completion, seconds: float, key: Key = NO_KEY) -> Completion:
    """The completion in a reply with status 200, its texts without `key` and bounded; `sent`: what
    is known of it before, with the model as it was asked for and a rough count of tokens in. Raises
    NotAnAnswer."""
    reply = _streamed(body, key) if body.lstrip().startswith(_STREAM) else _read(body, key)
    choices = _object(reply).get("choices")
    if not isinstance(choices, list):
        raise NotAnAnswer(f"a reply without choices: {key.complaint(body)}")
    choice = _object(choices[0]) if choices else {}
    message = _object(choice.get("message"))
    reasoning = _reasoning(message, key)
    content = _text(message.get("content", choice.get("text")))
    refusal = None if content else _text(message.get("refusal"))
    text = content or refusal or ""
    calls = _tool_calls(message, key)
    too_long = len(text) > MOST_TEXT or sum(len(call.arguments) for call in calls) >= MOST_TEXT
    finish = "filtered" if refusal else _finish(choice.get("finish_reason"), content, calls)
    counts = _object(reply.get("usage"))
    return replace(
        sent,
        text=key.heard(text, MOST_TEXT),
        finish="length" if too_long else finish,
        model=key.heard(_text(reply.get("model")) or sent.model, MOST_NAME),
        tokens_in=_count(counts.get("prompt_tokens")) or sent.tokens_in,
        tokens_out=_count(counts.get("completion_tokens"))
        or math.ceil(len(text) / CHARACTERS_A_TOKEN),
        seconds=seconds,
        thought=bool(reasoning or ("think>" in text and THOUGHTS.match(text))),
        reasoning=reasoning,
        tool_calls=calls,
        token_ids=_ids(choice.get("token_ids")),
        logprobs=_logprobs(choice.get("logprobs")),
    )


def decode_embeddings(
    body: bytes, sent: Completion, count: int, seconds: float, key: Key = NO_KEY
) -> Completion:
    """The embeddings of `count` texts in a reply with status 200. Raises NotAnAnswer."""
    reply = _object(_read(body, key))
    vectors: list[Any] = [item.get("embedding") for item in _objects(reply.get("data"))]
    if len(vectors) != count or not all(
        isinstance(vector, list) and vector and _finite(vector) for vector in vectors
    ):
        raise NotAnAnswer(f"a reply without an embedding for each text: {key.complaint(body)}")
    tokens = _count(_object(reply.get("usage")).get("prompt_tokens")) or sent.tokens_in
    embeddings = tuple(tuple(map(float, vector)) for vector in vectors)
    return replace(sent, finish="stop", tokens_in=tokens, seconds=seconds, embeddings=embeddings)


def complaint(body: bytes, key: Key = NO_KEY) -> str:
    """What a reply with an error status says, in a line without `key`."""
    try:
        value = _read(body, key)
    except NotAnAnswer:
        return key.complaint(body)
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    try:
        return key.complaint(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
    except RecursionError:
        return "an object too deep to be shown"


def no_room(body: bytes) -> bool:
    """Whether a refusal, by its words or by the type or code of its error, is about a prompt that
    does not fit."""
    error: JsonObject = {}
    with suppress(NotAnAnswer):
        reply = _object(_read(body, NO_KEY))
        error = _object(reply.get("error", reply))
    return any(
        _NO_ROOM.search(text)
        for text in (complaint(body), error.get("type"), error.get("code"))
        if isinstance(text, str)
    )


def _text(content: Any) -> str | None:
    """None where there is no text, not even an empty one."""
    if isinstance(content, list):  # parts
        parts = [
            part.get("text")
            for part in _objects(content)
            if part.get("type") not in ("thinking", "reasoning")
        ]
        texts = [part for part in parts if isinstance(part, str)]
        content = "".join(texts) if texts else None
    return valid_unicode(content) if isinstance(content, str) else None


def _reasoning(message: JsonObject, key: Key) -> JsonObject:
    """What a model thought first, where its server parts that from the text."""
    apart = {name: _text(message.get(name)) for name in ("reasoning_content", "reasoning")}
    return {
        name: key.heard(thought, MOST_TEXT)
        for name, thought in apart.items()
        if thought and thought.strip()
    }


def finish_of(reason: Any) -> Finish:
    """What a server's `finish_reason` says."""
    return _FINISH.get(reason.lower(), "other") if isinstance(reason, str) else "other"


def _finish(reason: Any, content: str | None, calls: tuple[ToolCall, ...]) -> Finish:
    """How an answer ended. A text of no characters with which a model stopped is its own; no text
    at all is nobody's answer, even where the model has thought."""
    finish = finish_of(reason)
    if calls:
        return "tools" if finish == "stop" else finish
    lacking = content is None if finish == "stop" else not content
    return "empty" if lacking and finish in ("stop", "tools", "other") else finish


def _tool_calls(message: JsonObject, key: Key) -> tuple[ToolCall, ...]:
    calls = []
    room = MOST_TEXT
    value = message.get("tool_calls") or [{"function": message.get("function_call")}]
    for call in _objects(value):
        function = _object(call.get("function"))
        if isinstance(function.get("name"), str) and room:
            given = function.get("arguments")
            if isinstance(given, dict):
                given = json.dumps(given, ensure_ascii=False)
            arguments = key.heard(_text(given) or "", room)
            name = key.heard(function["name"], MOST_NAME)
            identifier = key.heard(_text(call.get("id")) or "", MOST_NAME)
            calls.append(ToolCall(name, arguments, identifier))
            room -= len(arguments)
    return tuple(calls)


def refused_field(body: bytes, fields: Mapping[str, str]) -> dict[str, str]:
    """The field that a refusal names first, of those that `fields` does not change yet, and what is
    sent in its place; empty where it names none, or a limit for its number."""
    words = body.decode(errors="replace")
    named = {
        match.start(): name
        for name in REPLACEMENTS.keys() - fields.keys()
        if (match := re.search(rf"\b{name}(?:ing)?\b", words))
    }
    name = named[min(named)] if named else ""
    other = REPLACEMENTS.get(name, "")
    if not name or (other.startswith("max_") and not (other in words or _UNKNOWN.search(words))):
        return {}
    return {name: other}


def refuses_schemas(words: str) -> bool:
    """Whether a refusal is of every schema, not of the one that was sent."""
    named = "response_format" in words and not re.search(r"\bschema", words, re.I)
    return named and _UNKNOWN.search(words) is not None


def _streamed(body: bytes, key: Key) -> JsonObject:
    """The reply whose parts are server-sent events. Raises NotAnAnswer for one that was cut off."""
    reply: JsonObject = {}
    texts = defaultdict[str, list[str]](list)
    calls = defaultdict[str, defaultdict[str, list[str]]](lambda: defaultdict(list))
    ended = None
    whole = False
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip()
        whole = whole or data == b"[DONE]"
        if whole or not line.startswith(b"data:") or not data:
            continue
        part = _object(_read(data, key))
        if not part or part.get("error"):
            raise NotAnAnswer(f"a stream that broke: {complaint(data, key)}")
        reply |= {name: value for name, value in part.items() if value}
        choice = next(iter(_objects(part.get("choices"))), {})
        ended = choice.get("finish_reason") or ended
        delta = _object(choice.get("delta") or choice.get("message"))
        for name, value in delta.items():
            texts[name].append(_text(value) or "")
        for call in _objects(delta.get("tool_calls")):
            for name, value in _object(call.get("function")).items():
                calls[str(call.get("index"))][name].append(_text(value) or "")
    if ended is None and not whole:
        raise NotAnAnswer("a stream that was cut off")
    functions = [{"function": _joined(call)} for call in calls.values()]
    message = {**_joined(texts), "tool_calls": functions}
    return {**reply, "choices": [{"message": message, "finish_reason": ended}]}


def _joined(pieces: Mapping[str, list[str]]) -> JsonObject:
    return {name: "".join(texts) for name, texts in pieces.items()}


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(values: Any) -> list[JsonObject]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def _read(body: bytes, key: Key) -> Any:
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(body)
    if not body.isascii() or any(word in body for word in _PYTHON_ALONE):
        with suppress(ValueError, RecursionError):
            return json.loads(body.decode(errors="replace"))
    raise NotAnAnswer(f"not JSON, or cut short: {key.complaint(body)}")


def _ids(value: Any) -> tuple[int, ...]:
    return (
        tuple(value)
        if isinstance(value, list) and all(_count(item) is not None for item in value)
        else ()
    )


def _logprobs(value: Any) -> tuple[float, ...]:
    logprobs = _object(value).get("token_logprobs")
    return tuple(logprobs) if isinstance(logprobs, list) and _finite(logprobs) else ()


def _finite(values: list[Any]) -> bool:
    return all(type(value) in (int, float) and math.isfinite(value) for value in values)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 40 else None
