"""The bytes of the stub's replies: good ones, and those that only look good."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.utils import formatdate
from time import time
from typing import Any

from tests.llm_stub.script import Script

FILLER = "a quiet sentence that says little and goes on for a while "


def http(status: str, body: bytes, *, kind: str = "application/json", headers: str = "", length: int = -1) -> bytes:
    """A whole HTTP reply; `length` lies about the body's."""
    announced = len(body) if length < 0 else length
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {announced}\r\n{headers}\r\n".encode() + body


def error(status: str, message: str, headers: str = "") -> bytes:
    return http(status, json.dumps({"error": {"message": message, "code": int(status[:3])}}).encode(), headers=headers)


def completion(
    text: Any,
    script: Script,
    *,
    chat: bool = True,
    finish: str = "stop",
    usage: Any = None,
    choices: list[Any] | None = None,
    ensure_ascii: bool = False,
) -> bytes:
    """The JSON body of a completion."""
    choice = {"index": 0, "finish_reason": finish, **({"message": _message(text)} if chat else {"text": text})}
    tokens = max(1, len(text) // 4) if isinstance(text, str) else 0
    reply = {
        "id": "stub",
        "object": "chat.completion" if chat else "text_completion",
        "model": script.model,
        "choices": [choice] if choices is None else choices,
        "usage": {"prompt_tokens": 10, "completion_tokens": tokens} if usage is None else usage,
    }
    return json.dumps(reply, ensure_ascii=ensure_ascii).encode(errors="replace")


def _message(text: Any) -> dict[str, Any]:
    return {"role": "assistant", **text} if isinstance(text, dict) else {"role": "assistant", "content": text}


def text_for(request: dict[str, Any], script: Script) -> str:
    """What the stub says by itself: the smallest instance of a schema, or filler."""
    wanted = request.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        return json.dumps(smallest(wanted["json_schema"]["schema"]))
    return (FILLER * (script.answer_bytes // len(FILLER) + 1))[: script.answer_bytes]


def smallest(schema: dict[str, Any]) -> Any:
    """The smallest instance of a plain JSON Schema."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: smallest(properties.get(name, {})) for name in schema.get("required", properties)}
    if kind == "array":
        return [smallest(schema.get("items", {})) for _ in range(schema.get("minItems", 0))]
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return {"string": "x" * schema.get("minLength", 1), "boolean": True}.get(str(kind))


Maker = Callable[[str, Script, bool], bytes]
# Whole replies that differ from a good one in one respect.
REPLIES: dict[str, Maker] = {
    "429": lambda text, script, chat: error("429 Too Many Requests", "slow down", "Retry-After: 0\r\n"),
    "429_date": lambda text, script, chat: error(
        "429 Too Many Requests", "slow down", f"Retry-After: {formatdate(time() + 1, usegmt=True)}\r\n"
    ),
    "429_hour": lambda text, script, chat: error("429 Too Many Requests", "come back later", "Retry-After: 3600\r\n"),
    "500": lambda text, script, chat: error("500 Internal Server Error", "engine fell over"),
    "503": lambda text, script, chat: error("503 Service Unavailable", "loading"),
    "400": lambda text, script, chat: error("400 Bad Request", "unknown parameter"),
    "no_room": lambda text, script, chat: error(
        "400 Bad Request", "This model's maximum context length is 4096 tokens, the prompt has 5000"
    ),
    "401": lambda text, script, chat: error("401 Unauthorized", f"invalid API key {script.key}"),
    "404": lambda text, script, chat: error("404 Not Found", "no such model"),
    "redirect": lambda text, script, chat: http("302 Found", b"", headers="Location: http://127.0.0.1:9/v1\r\n"),
    "cut_json": lambda text, script, chat: http("200 OK", _half(completion(text, script, chat=chat))),
    "html": lambda text, script, chat: http("200 OK", b"<html>please sign in</html>", kind="text/html"),
    "garbage": lambda text, script, chat: http("200 OK", b'{"status": "fine"}'),
    "empty_choices": lambda text, script, chat: http("200 OK", completion(text, script, chat=chat, choices=[])),
    "null_content": lambda text, script, chat: http("200 OK", completion(None, script, chat=chat)),
    "length": lambda text, script, chat: http("200 OK", completion(text[:-1], script, chat=chat, finish="length")),
    "wrong_tags": lambda text, script, chat: http("200 OK", completion(f"<other>{text}</other>", script, chat=chat)),
    "prose": lambda text, script, chat: http(
        "200 OK", completion(f"Sure! Here it is:\n```json\n{text}\n```\nAnything else?", script, chat=chat)
    ),
    "not_json": lambda text, script, chat: http("200 OK", completion(f"{{{text}", script, chat=chat)),
    "surrogates": lambda text, script, chat: http(
        "200 OK", completion(f"{text}\ud800 \ude00", script, chat=chat, ensure_ascii=True)
    ),
    "big_numbers": lambda text, script, chat: http(
        "200 OK", completion('{"amount": 123456789012345678901234567890, "rate": NaN}', script, chat=chat)
    ),
    "not_utf8": lambda text, script, chat: http(
        "200 OK", completion(f"{text} caf@", script, chat=chat).replace(b"@", b"\xe9")
    ),
    "huge": lambda text, script, chat: http(
        "200 OK", completion(FILLER * (1_000_000 // len(FILLER)), script, chat=chat)
    ),
    "no_usage": lambda text, script, chat: http("200 OK", completion(text, script, chat=chat, usage={})),
    "bad_usage": lambda text, script, chat: http(
        "200 OK", completion(text, script, chat=chat, usage={"prompt_tokens": -1, "completion_tokens": "many"})
    ),
    "close": lambda text, script, chat: http(
        "200 OK", completion(text, script, chat=chat), headers="Connection: close\r\n"
    ),
    "parts": lambda text, script, chat: http(
        "200 OK",
        completion([{"type": "text", "text": text[:1]}, {"type": "text", "text": text[1:]}], script, chat=chat),
    ),
}


def chunked(body: bytes) -> bytes:
    """The same body in two chunks."""
    parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (_half(body), body[len(body) // 2 :]))
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        + parts
        + b"0\r\n\r\n"
    )


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]
