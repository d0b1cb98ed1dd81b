"""Desk: a small office world of our own, for demonstrations, tests and docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rods.tasks import TASK_TYPES, OpenTask, Task, TaskType
from worlds.desk.world import environment

if TYPE_CHECKING:
    from rods.composing.records import Draft
    from worlds.desk.generator import Size

__all__ = ["environment", "fresh_tasks", "generate", "generate_personas"]


def generate(random_seed: int, train: int, held_out: int, size: Size | Literal["regions"] = "full") -> list[Task]:
    """See `generator.generate`: originals, then held-out tasks that match none of them."""
    from worlds.desk import generator  # four times the imports of the world itself: only on demand

    return generator.generate(random_seed, train, held_out, size)


def generate_personas(random_seed: int, train: int, held_out: int, *, mute: bool = False) -> list[OpenTask]:
    """See `generator.generate_personas`: the same with users who are played."""
    from worlds.desk import generator

    return generator.generate_personas(random_seed, train, held_out, mute=mute)


def fresh_tasks(
    random_seed: int, purpose: str, types: Sequence[TaskType] = TASK_TYPES, size: Size = "full"
) -> Iterator[tuple[Task, Draft]]:
    """See `generator.fresh_tasks`: endlessly many tasks with their drafts."""
    from worlds.desk import generator

    return generator.fresh_tasks(random_seed, purpose, types, size)
