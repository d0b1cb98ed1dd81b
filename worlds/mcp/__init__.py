"""Any MCP server as an environment (docs/mcp.md): its description is a JSON file that `rods env add` writes.

`description` is that file, `sessions` the connections to servers, `world` the environment over them. The SDK is an
extra, `pip install 'rods-rl[mcp]'`; nothing else of the project imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rods.environments.replay import Replayed
    from rods.worlds.pinned import Pinned

__all__ = ["added", "described"]


def described(name: str) -> Replayed:
    """The environment whose description is the file `name`; no server is started yet. Raises UserError."""
    from rods.worlds.mcp.description import Description  # the rest only on demand
    from rods.worlds.mcp.world import McpEnvironment

    server = Description.read(name)
    return server.replayed(McpEnvironment(name, server))


def added(path: Path, kind: str, fields: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Pinned, str]:
    """The description of a server for the file `path`, with what it says when it is started, and nothing that it shows
    first: `fields` are those of every description, `own` its command and its process's. Raises UserError."""
    from rods.worlds.mcp.description import Description, asked
    from rods.worlds.mcp.sessions import Session

    found = Description.of(str(path), {**fields, **own})
    session = Session(found.beside(path)).wait()
    session.end()
    return asked(found, session.tools, session.about), ""
