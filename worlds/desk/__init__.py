"""Desk: a small office world of our own, for demonstrations, tests and docs."""

from typing import TYPE_CHECKING, Any

from rods.worlds.desk.world import environment

if TYPE_CHECKING:
    from rods.worlds.desk.generator import fresh_tasks, generate, generate_personas

__all__ = ["environment", "fresh_tasks", "generate", "generate_personas"]


def __getattr__(name: str) -> Any:
    """The functions of `generator`, which has four times the imports of the world itself: only on
    demand."""
    if name not in __all__:
        raise AttributeError(name)
    from rods.worlds.desk import generator

    return getattr(generator, name)
