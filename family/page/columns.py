"""Rows of numbers in one growing array: what the page remembers of a run's history."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rods.errors import UserError


class Columns:
    """A table whose rows are only appended, each with the `seq` of its record in front.
    `columns["step"]` is a view."""

    def __init__(self, **types: str) -> None:
        """`types`: numpy's type of each further column, such as i4."""
        self._rows = np.empty(256, np.dtype([("seq", "u4"), *types.items()]))
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._rows[: self._length][name]

    @property
    def last(self) -> int:
        """The last `seq`; 0 where there is none."""
        return int(self["seq"][-1]) if self._length else 0

    def append(self, *row: float) -> None:
        self.extend([row])

    def extend(self, rows: list[tuple[float, ...]]) -> None:
        end = self._length + len(rows)
        if end > len(self._rows):  # twice as many; memory that nobody has written to takes no room
            grown = np.empty(max(end, 2 * len(self._rows)), self._rows.dtype)
            grown[: self._length] = self._rows[: self._length]
            self._rows = grown
        try:
            self._rows[self._length : end] = rows
        except OverflowError as error:  # a log may say more
            remedy = "restore the log"
            raise UserError(f"a number is beyond any run's: {error}", remedy=remedy) from error
        self._length = end

    def values(self, rows: NDArray[Any], *names: str) -> Iterator[Any]:
        """Of each of `rows` a tuple with the values of these columns, which are Python's own."""
        return zip(*(self[name][rows].tolist() for name in names), strict=True)

    def behind(self, name: str, value: float) -> int:
        """The first row whose `name` is greater than `value`; the column must not fall."""
        return bisect_right(self[name], value)  # numpy's own search would copy the column first


def thinned(start: int, end: int, most: int) -> NDArray[np.int64]:
    """Those of the rows from `start` up to `end`, at most `most` of them, the last of each
    stretch."""
    every = max(1, -(-(end - start) // most))
    return np.arange(start + (end - start - 1) % every, end, every)


class TaskColumns(Columns):
    """A table whose rows are of tasks, which `ids` numbers; these may grow."""

    def __init__(self, ids: Sequence[str], **types: str) -> None:
        super().__init__(step="i4", task="i4", **types)
        self._ids = ids
        self._newest = np.full(256, -1, np.int64)

    def extend(self, rows: list[tuple[float, ...]]) -> None:
        first = len(self)
        super().extend(rows)
        # of a number that stands there twice the last row counts
        self.newest[self["task"][first:]] = np.arange(first, len(self))

    @property
    def newest(self) -> NDArray[np.int64]:
        """The last row of each task, by its number; -1 where it has none."""
        while len(self._ids) > len(self._newest):
            self._newest = np.concatenate([self._newest, np.full_like(self._newest, -1)])
        return self._newest[: len(self._ids)]
