"""A record is found by its seq, in whichever part it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.buffers.log.parts import Lookup, segments
from rods.buffers.log.record_bytes import line
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.runfolder import EXPANDED, expanded_segment
from rods.errors import CorruptLogError
from tests.records import filled


def written(folder: Path, count: int) -> Path:
    """Segments of several epochs, one of them empty, some cut by size; records of a few bytes and
    of many."""
    log = folder / EXPANDED
    seq = 0
    for epoch in (0, 1, 4):
        writer = LogWriter(folder / expanded_segment(epoch), log=log, part_bytes=100_000)
        while seq < count * (epoch + 1) // 5:
            seq += 1
            writer.append(
                [filled("expanded", pick=f"p{seq}", index=0, text="x" * (seq * 37 % 900))]
            )
        writer.close()
        (folder / expanded_segment(epoch + 1)).touch()
    return log


def test_every_record_is_found_and_nothing_else(tmp_path: Path) -> None:
    log = written(tmp_path, 1_500)
    assert len(segments(log)) > 8
    with segments(log)[-1].open("ab") as file:
        file.write(b'{"seq":1501,"id"')  # on its way
    lookup = Lookup(log)
    assert [lookup[seq]["pick"] for seq in range(1, 1_501)] == [
        f"p{seq}" for seq in range(1, 1_501)
    ]
    for stranger in (0, 1_501, 10**9):
        with pytest.raises(KeyError):
            lookup[stranger]
    with pytest.raises(KeyError):
        Lookup(tmp_path / "nothing.jsonl")[1]


def test_a_lookup_follows_a_log_that_is_cut_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    writer = LogWriter(path)
    lookup = Lookup(path)
    for seq in range(1, 40):
        writer.append([filled("expanded", pick=f"p{seq}", index=0)])
        if seq % 7 == 0:
            writer.rotate()
        assert [lookup[one]["pick"] for one in (seq, 1, max(1, seq - 3))] == [
            f"p{seq}",
            "p1",
            f"p{max(1, seq - 3)}",
        ]
    writer.close()


def test_what_was_lost_is_not_found_and_damage_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [line(seq, filled("expanded", pick=f"p{seq}", index=0)) for seq in (1, 2, 3)]
    lines[1] = line(2, {"kind": "lost", "log": "log.jsonl", "number": 2})
    path.write_bytes(b"".join(lines))
    assert Lookup(path)[3]["pick"] == "p3"
    with pytest.raises(KeyError):
        Lookup(path)[2]
    path.write_bytes(b"".join(lines).replace(b"p1", b"p7").replace(b"p3", b"p8"))
    for seq in (1, 3):
        with pytest.raises(CorruptLogError):
            Lookup(path)[seq]
