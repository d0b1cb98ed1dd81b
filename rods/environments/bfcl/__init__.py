"""BFCL's multi-turn tasks: the pinned wheel, its API classes as an environment, its tasks, and the parity replay."""

from rods.environments.bfcl.tasks import tasks
from rods.environments.bfcl.wheel import fetch
from rods.environments.bfcl.world import Bfcl, World, environment

__all__ = ["Bfcl", "World", "environment", "fetch", "tasks"]
