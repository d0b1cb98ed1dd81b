"""What is read ahead is what the tail would have read itself, whatever the writer does meanwhile."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from buffers.log.records import record
from buffers.log.tail import Tail, read
from buffers.log.writer import LogWriter
from buffers.run.runfolder import EXPANDED, expanded_segment
from daemon import watching
from daemon.watching import Fetcher
from tests.buffers.log.test_writer import step


async def follow(fetcher: Fetcher, tail: Tail) -> list[int]:
    """All that there is now."""
    seen, more = [], True
    while more:
        more = await fetcher.fetch(tail)
        seen += [found["seq"] for found in tail.poll()]
    return seen


@pytest.mark.parametrize("block", [100, 700, 5000, 4 << 20])
async def test_a_tail_sees_what_was_fetched_through_cuts_and_torn_lines(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "BLOCK", block)
    path, chance = tmp_path / "x.jsonl", random.Random(block)
    writer, tail, fetcher = LogWriter(path), Tail(path), Fetcher()
    seen: list[int] = []
    for number in range(1, 60):
        action = chance.choice(["step", "step", "void", "long", "rotate", "reopen", "follow", "torn"])
        if action in ("step", "long"):
            writer.append_group(*step(number, groups=40 if action == "long" else 2))
        elif action == "void":
            writer.append(step(number)[0])
        elif action == "rotate":
            writer.rotate()
        elif action == "reopen":
            writer.close()
            writer = LogWriter(path)
        elif action == "torn":
            writer.close()
            with path.open("ab") as file:
                file.write(b'{"seq":')
            seen += await follow(fetcher, tail)
            writer = LogWriter(path)
        else:
            seen += await follow(fetcher, tail)
    seen += await follow(fetcher, tail)
    assert seen == [found["seq"] for found in read(path)] and len(seen) > 60


async def test_nothing_is_read_from_the_disk_behind_the_readers_back(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    writer, tail, fetcher = LogWriter(path), Tail(path), Fetcher()
    writer.append_group(*step(1))
    assert not await fetcher.fetch(tail)
    writer.append_group(*step(2))
    assert [found["seq"] for found in tail.poll()] == [1, 2, 3]
    assert tail.poll() == []
    assert await follow(fetcher, tail) == [4, 5, 6]


async def test_parts_named_by_epoch_are_one_log(tmp_path: Path) -> None:
    tail, fetcher, seen = Tail(tmp_path / EXPANDED), Fetcher(), []
    for seq, epoch in enumerate((0, 3, 4, 11), start=1):
        writer = LogWriter(tmp_path / expanded_segment(epoch), log=tmp_path / EXPANDED)
        if epoch != 4:  # opened and left empty: the daemon was killed
            writer.append([record("expanded", pick=f"p{seq}", index=0)])
        seen += await follow(fetcher, tail)
    assert seen == [1, 2, 3]
