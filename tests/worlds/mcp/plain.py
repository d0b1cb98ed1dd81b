"""A server without the SDK: what a test hands it is on the wire byte for byte."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Answer = Callable[[str, Mapping[str, Any]], Any]


def said(text: str, **more: Any) -> dict[str, Any]:
    """The result of a call whose text is `text`."""
    return {"content": [{"type": "text", "text": text}], **more}


def put(line: str | bytes) -> None:
    """A line on the wire, whatever it is."""
    sys.stdout.buffer.write((line.encode() if isinstance(line, str) else line) + b"\n")
    sys.stdout.buffer.flush()


def tool(name: str, schema: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", **(schema or {})}, **more}


def serve(
    tools: Sequence[Mapping[str, Any]] | Callable[[Any], Any],
    answer: Answer,
    capabilities: Mapping[str, Any] | None = None,
) -> None:
    """Answers until its input ends. `tools`: these, or what `tools/list` answers to a cursor.
    `answer`: the result of a call."""
    for line in sys.stdin:
        asked = json.loads(line)
        method = asked.get("method")
        if "id" not in asked or method is None:
            continue
        parameters = asked.get("params") or {}
        reply: dict[str, Any] = {}
        if method == "initialize":
            version = parameters["protocolVersion"]
            reply["result"] = {
                "protocolVersion": version,
                "capabilities": {"tools": {}, **(capabilities or {})},
                "serverInfo": {"name": "plain", "version": "1"},
            }
        elif method == "tools/list":
            listed = tools(parameters.get("cursor")) if callable(tools) else {"tools": tools}
            reply["result"] = listed
        elif method == "tools/call":
            reply["result"] = answer(parameters["name"], parameters.get("arguments") or {})
        else:
            reply["error"] = {"code": -32601, "message": f"no method {method}"}
        put(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}))
