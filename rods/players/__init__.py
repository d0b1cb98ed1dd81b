"""Who plays a task's world, user and judge while its episodes run: procedures, or models (001 §2.2)."""

from rods.players.players import Players

__all__ = ["Players"]
