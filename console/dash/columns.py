"""Rows of numbers in one growing array: what the page remembers of a run's history."""

from __future__ import annotations

from bisect import bisect_right
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

    def append(self, *row: float) -> None:
        if self._length == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._length] = row
        self._length += 1

    def behind(self, name: str, value: float) -> int:
        """The first row whose `name` is greater than `value`; the column must not fall."""
        return bisect_right(self[name], value)  # numpy's own search would copy the column first


class Latest:
    """A row for each number from 0 on; -1 where none was set."""

    def __init__(self) -> None:
        self._rows = np.full(256, -1, np.int64)

    def __setitem__(self, number: int, row: int) -> None:
        while number >= len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, -1)])
        self._rows[number] = row

    def rows(self, count: int) -> NDArray[np.int64]:
        """Those of the first `count` numbers."""
        if count > len(self._rows):
            self[count] = -1
        return self._rows[:count]
