"""Sets and maps for what a run has behind it: a few bytes an entry, so that years do not fill the memory."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from rods.canonical import ID_DIGITS

ID_BYTES = ID_DIGITS // 2
ID = f"S{ID_BYTES}"  # as NumPy sorts it
FEW = 1024  # entries that a map may hold in Python's own form


class Seqs:
    """A set of seqs, kept as stretches: those that come in order take nothing."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, seq: object) -> bool:
        assert isinstance(seq, int)
        place = bisect_right(self._firsts, seq)
        return place > 0 and seq <= self._lasts[place - 1]

    def add(self, seq: int) -> None:
        if seq in self:
            return
        firsts, lasts = self._firsts, self._lasts
        place = bisect_right(firsts, seq)  # of the first stretch behind it
        self._count += 1
        before = place > 0 and lasts[place - 1] == seq - 1
        behind = place < len(firsts) and firsts[place] == seq + 1
        if before and behind:
            lasts[place - 1] = lasts.pop(place)
            del firsts[place]
        elif before:
            lasts[place - 1] = seq
        elif behind:
            firsts[place] = seq
        else:
            firsts.insert(place, seq)
            lasts.insert(place, seq)

    def copy(self) -> Seqs:
        other = Seqs()
        other._firsts, other._lasts, other._count = self._firsts.copy(), self._lasts.copy(), self._count
        return other


class SeqOf:
    """Task id → seq, in fourteen bytes: sorted arrays, and an ordinary map of what has come since they were sorted."""

    def __init__(self) -> None:
        self._ids, self._seqs = np.empty(0, ID), np.empty(0, np.uint32)
        self._new: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._ids) + len(self._new)

    def __contains__(self, task_id: object) -> bool:
        assert isinstance(task_id, str)
        return self._find(task_id) is not None

    def __getitem__(self, task_id: str) -> int:
        """Raises KeyError."""
        if (seq := self._find(task_id)) is None:
            raise KeyError(task_id)
        return seq

    def add(self, task_id: str, seq: int) -> None:
        """Takes an id that is not known yet."""
        self._new[bytes.fromhex(task_id)] = seq
        if len(self._new) > max(FEW, len(self._ids) // 8):
            ids = np.concatenate([self._ids, np.array(list(self._new), ID)])
            seqs = np.concatenate([self._seqs, np.array(list(self._new.values()), np.uint32)])
            order = np.argsort(ids, kind="stable")
            self._ids, self._seqs, self._new = ids[order], seqs[order], {}

    def _find(self, task_id: str) -> int | None:
        try:
            key = bytes.fromhex(task_id)
        except ValueError:
            return None
        if len(key) != ID_BYTES:  # no id that a task can have
            return None
        if (seq := self._new.get(key)) is not None:
            return seq
        wanted = np.array(key, ID)
        place = int(self._ids.searchsorted(wanted))
        return int(self._seqs[place]) if place < len(self._ids) and self._ids[place] == wanted[()] else None
