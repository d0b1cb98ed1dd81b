"""Any MCP server as an environment (docs/mcp.md): its description is a JSON file that `rods env add` writes.

`description` is that file, `sessions` the connections to servers, `world` the environment over them. The SDK is an
extra, `pip install 'rods-rl[mcp]'`; nothing else of the project imports it.
"""

from __future__ import annotations

from rods.environments.replay import Replayed

__all__ = ["described"]


def described(name: str) -> Replayed:
    """The environment whose description is the file `name`; no server is started yet. Raises UserError."""
    from worlds.mcp.description import Description  # the rest only on demand
    from worlds.mcp.world import McpEnvironment, replayed

    return replayed(McpEnvironment(name, Description.read(name)))
