"""BFCL's multi-turn tasks: the pinned wheel, its API classes as an environment, its tasks, and the parity replay."""

from worlds.bfcl.tasks import tasks
from worlds.bfcl.wheel import fetch
from worlds.bfcl.world import Bfcl, World, environment

__all__ = ["Bfcl", "World", "environment", "fetch", "tasks"]
