"""An MCP server of ours for the tests: baskets with made-up handles, notes in its folder, and everything that is hard
about servers. `python -m tests.worlds.mcp.shop` (stdio), with `--http PORT`, with `--more` for one more tool."""

from __future__ import annotations

import datetime
import os
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("shop", version="1")
baskets: dict[str, list[str]] = {}
marks: list[str] = []


def open_basket(owner: str) -> dict[str, str]:
    """Opens a basket."""
    handle = f"b{os.urandom(6).hex()}"  # frozen by state in a process of ours
    baskets[handle] = []
    return {"id": handle, "owner": owner}


def put(basket: str, item: str) -> dict[str, Any]:
    """Puts an item into a basket."""
    if basket not in baskets:
        raise ToolError(f"no basket {basket}")
    baskets[basket].append(item)
    return {"basket": basket, "items": baskets[basket]}


def show(basket: str) -> dict[str, Any]:
    """Shows a basket."""
    if basket not in baskets:
        raise ToolError(f"no basket {basket}")
    return {"basket": basket, "items": baskets[basket]}


def mark(text: str) -> str:
    """Leaves a mark."""
    marks.append(text)
    return f"{len(marks)} marks"


def read_marks() -> dict[str, list[str]]:
    """Shows all marks."""
    return {"marks": marks}


def write_note(path: str, text: str) -> str:
    """Writes a file."""
    Path(path).write_text(text)
    return f"wrote {path} in {Path.cwd()}"


def read_note(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text()


def chance() -> dict[str, Any]:
    """What clocks and chance say."""
    return {
        "time": time.time(),
        "now": datetime.datetime.now(datetime.UTC).isoformat(),
        "today": datetime.date.today().isoformat(),
        "dates": isinstance(datetime.datetime(2020, 1, 1), datetime.datetime),
        "uuid": [str(uuid.uuid4()), str(uuid.uuid1())],
        "random": [random.random(), random.Random().random(), random.SystemRandom().random()],
        "bytes": os.urandom(3).hex(),
        "set": str(set("abcdef")),
    }


def pid() -> dict[str, int]:
    """The number of its process."""
    return {"pid": os.getpid()}


def wait(seconds: float) -> str:
    """Waits."""
    time.sleep(seconds)
    return "done"


def picture() -> Image:
    """A picture."""
    return Image(data=b"12345", format="png")


if __name__ == "__main__":
    for change in (open_basket, put, mark, write_note, chance, wait):
        server.add_tool(change)
    for read in (show, read_marks, read_note, pid, picture):
        server.add_tool(read, annotations=ToolAnnotations(read_only_hint=True))
    if "--more" in sys.argv:
        server.add_tool(lambda: "new", name="more")
    if "--http" in sys.argv:
        server.run("streamable-http", port=int(sys.argv[sys.argv.index("--http") + 1]))
    else:
        server.run()
