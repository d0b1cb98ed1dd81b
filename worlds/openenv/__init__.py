"""OpenEnv environments and TRL's environment classes as environments (docs/openenv.md), and ours as OpenEnv servers.

`description` is the file that `rods env add` writes, `sessions` how an environment is reached (behind an address, or an
object in this process), `world` the environment over them, `serving` the way out. Only classes that need OpenEnv's
package (`pip install 'rods-rl[openenv]'`) import it.
"""

from __future__ import annotations

from rods.environments.replay import Replayed

__all__ = ["described"]


def described(name: str) -> Replayed:
    """The environment whose description is the file `name`; nothing is reached yet. Raises UserError."""
    from worlds.openenv.description import OpenEnvDescription  # the rest only on demand
    from worlds.openenv.world import OpenEnvironment, replayed

    return replayed(OpenEnvironment(name, OpenEnvDescription.read(name)))
