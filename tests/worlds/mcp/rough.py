"""A server as somebody might write it: tools that sleep, end the process, and print JSON over several lines."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("rough", version="1")
marks: list[str] = []


def mark(text: str) -> dict[str, int]:
    """Leaves a mark."""
    marks.append(text)
    return {"marks": len(marks)}


def open_basket() -> str:
    """Opens a basket."""
    return json.dumps({"id": f"b{uuid.uuid4().hex[:12]}"}, indent=2)


def nap() -> str:
    """Sleeps for longer than anybody waits."""
    time.sleep(600)
    return "awake"


def doze() -> str:
    """Takes its time."""
    time.sleep(4)
    return "awake"


def die() -> str:
    """Ends the process."""
    os._exit(1)


def leave() -> str:
    """Says farewell first."""
    threading.Timer(0.1, os._exit, (0,)).start()
    return "farewell"


def read_marks() -> dict[str, list[str]]:
    """Shows all marks."""
    return {"marks": marks}


if __name__ == "__main__":
    for change in (mark, nap, doze, die, leave):
        server.add_tool(change)
    server.add_tool(open_basket, structured_output=False)
    server.add_tool(read_marks, annotations=ToolAnnotations(read_only_hint=True))
    server.run()
