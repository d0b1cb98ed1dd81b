"""The environments that tests share, each made once a process, and data that only the tests that
use it wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TypeVar, overload

from rods.environments.loading import Environments
from rods.tasks import Task
from rods.worlds import desk

ENVIRONMENTS = Environments()
load = ENVIRONMENTS.load
Item = TypeVar("Item")


@cache
def desk_tasks(random_seed: int, train: int, held_out: int) -> tuple[Task, ...]:
    """As `desk.generate`, drawn once a process."""
    return tuple(desk.generate(random_seed, train, held_out))


class Late(Sequence[Item]):
    """A sequence that is made when it is first looked at. Every process of a run imports every file
    of tests, so what takes long must not be done there."""

    def __init__(self, make: Callable[[], Sequence[Item]]) -> None:
        self._make = make

    @cached_property
    def _items(self) -> Sequence[Item]:
        return tuple(self._make())

    @overload
    def __getitem__(self, place: int) -> Item: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...

    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        return self._items[place]

    def __len__(self) -> int:
        return len(self._items)
