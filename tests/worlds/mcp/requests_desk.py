"""An MCP server as others write them: it flags no failure, and its thinking tool says that it
changes nothing, and counts."""

from __future__ import annotations

from typing import Any, Literal

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("requests", version="1", log_level="CRITICAL")
requests = {"REQ-1": "open", "REQ-2": "open"}
thoughts: list[str] = []


def list_requests() -> list[str]:
    """Lists all requests."""
    return [f"{number} {state}" for number, state in requests.items()]


def close_request(number: str) -> str:
    """Closes a request."""
    if number not in requests:
        return "Request not found"
    requests[number] = "closed"
    return f"closed {number}"


def assign_request(number: str, to: str) -> dict[str, Any]:
    """Gives a request to somebody."""
    if number not in requests:
        return {"status": "error", "message": f"there is no {number}"}
    return {"status": "ok", "to": to}


def think(thought: str, place: int | Literal["first", "last"]) -> dict[str, int]:
    """Thinks."""
    thoughts.append(thought)
    return {"thoughts": len(thoughts)}


READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
for reading in (list_requests, think):
    server.add_tool(reading, annotations=READS)
for writing in (close_request, assign_request):
    server.add_tool(writing)
if __name__ == "__main__":
    server.run()
