"""Compact sets and maps say what Python's own would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffers.folds.compact import SeqOf, Seqs
from rods.canonical import keyed_random


@given(st.lists(st.integers(1, 40)))
def test_seqs_are_a_set(numbers: list[int]) -> None:
    seqs = Seqs()
    for number in numbers:
        seqs.add(number)
    copy = seqs.copy()
    copy.add(99)
    assert [number for number in range(45) if number in seqs] == sorted(set(numbers))
    assert len(seqs) == len(set(numbers)) == len(copy) - 1 and 99 not in seqs


def test_ids_find_their_seqs_however_many_there_are() -> None:
    rng = keyed_random(0, "ids")
    ids = [f"{rng.getrandbits(72):018x}{'00' if number % 9 == 0 else 'ab'}" for number in range(5_000)]
    known = SeqOf()
    for seq, task_id in enumerate(ids, start=1):
        known.add(task_id, seq)
    assert [known[task_id] for task_id in ids] == list(range(1, 5_001))
    assert len(known) == 5_000 and ids[0] in known
    for stranger in ("0" * 20, "f" * 20, "", "t1", ids[0][:18]):
        assert stranger not in known
        with pytest.raises(KeyError):
            known[stranger]
