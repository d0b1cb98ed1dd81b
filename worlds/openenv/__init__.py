"""OpenEnv environments and TRL's environment classes as environments (docs/openenv.md), and ours as OpenEnv servers.

`description` is the file that `rods env add` writes, `sessions` how an environment is reached (behind an address, or an
object in this process), `world` the environment over them, `serving` the way out. Only classes that need OpenEnv's
package (`pip install 'rods-rl[openenv]'`) import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rods.errors import UserError

if TYPE_CHECKING:
    from rods.environments.replay import Replayed
    from rods.worlds.pinned import Pinned

__all__ = ["added", "described"]


def described(name: str) -> Replayed:
    """The environment whose description is the file `name`; nothing is reached yet. Raises UserError."""
    from rods.worlds.openenv.description import OpenEnvDescription  # the rest only on demand
    from rods.worlds.openenv.world import OpenEnvironment

    description = OpenEnvDescription.read(name)
    return description.replayed(OpenEnvironment(name, description))


def added(path: Path, kind: str, fields: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Pinned, str]:
    """The description of an environment for the file `path`, with its tools, and what a reset of it shows. `fields` are
    those of every description; of `own` only `command` is for it, the name of a class. Raises UserError."""
    for name in ("files", "env"):
        if own[name]:
            raise UserError("is for MCP servers", where=f"--{name}", remedy="leave it out")
    from rods.worlds.openenv.description import OpenEnvDescription
    from rods.worlds.openenv.world import introduced

    wanted = {**fields, "kind": kind, "factory": " ".join(own["command"])}
    return introduced(OpenEnvDescription.of(str(path), wanted))
