"""OpenEnv environments and TRL's environment classes as environments (docs/openenv.md), and ours as OpenEnv servers.

`description` is the file that `rods env add` writes, `sessions` how an environment is reached (behind an address, or an
object in this process), `world` the environment over them, `serving` the way out. Only classes that need OpenEnv's
package (`pip install '.[openenv]'` in the clone) import it.
"""
