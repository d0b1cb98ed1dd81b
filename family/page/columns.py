"""Rows of numbers in one growing array: what the page remembers of a run's history."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Columns:
    """A table whose rows are only appended. `columns["step"]` is a view."""

    def __init__(self, **types: str) -> None:
        """`types`: numpy's type of each column, such as i4."""
        self._rows = np.empty(256, np.dtype(list(types.items())))
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._rows[: self._length][name]

    def last(self, name: str) -> int:
        """The last value of a column of whole numbers; 0 where there is none."""
        return int(self[name][-1]) if self._length else 0

    def append(self, *row: float) -> None:
        self.extend([row])

    def extend(self, rows: list[tuple[float, ...]]) -> None:
        end = self._length + len(rows)
        if end > len(self._rows):  # twice as many; memory that nobody has written to takes no room
            grown = np.empty(max(end, 2 * len(self._rows)), self._rows.dtype)
            grown[: self._length] = self._rows[: self._length]
            self._rows = grown
        self._rows[self._length : end] = rows
        self._length = end

    def behind(self, name: str, value: float) -> int:
        """The first row whose `name` is greater than `value`; the column must not fall."""
        return bisect_right(self[name], value)  # numpy's own search would copy the column first


def thinned(start: int, end: int, most: int) -> NDArray[np.int64]:
    """Those of the rows from `start` up to `end`, at most `most` of them, the last of each
    stretch."""
    every = max(1, -(-(end - start) // most))
    return np.arange(start + (end - start - 1) % every, end, every)


class Latest:
    """A row for each of the tasks that `ids` numbers, which may grow; -1 where none was set."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self._rows = np.full(256, -1, np.int64)

    def set(self, numbers: list[int], rows: Sequence[int]) -> None:
        """The last of the rows counts for a number that stands there twice."""
        self.rows[numbers] = rows

    @property
    def rows(self) -> NDArray[np.int64]:
        while len(self._ids) > len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, -1)])
        return self._rows[: len(self._ids)]
