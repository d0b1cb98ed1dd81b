"""BFCL's multi-turn tasks: the pinned wheel, its API classes as an environment, its tasks, recipes
for variants."""

from rods.worlds.bfcl.tasks import tasks
from rods.worlds.bfcl.wheel import fetch
from rods.worlds.bfcl.world import Bfcl, BfclWorld, environment

__all__ = ["Bfcl", "BfclWorld", "environment", "fetch", "tasks"]
