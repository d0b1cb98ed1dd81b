"""A tail sees what counts, once, whatever the writer does meanwhile."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from rods.buffers.log import tail as tail_module
from rods.buffers.log.parts import PROBED, first_seq, segments
from rods.buffers.log.record_bytes import line, record
from rods.buffers.log.tail import Tail, read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.runfolder import EXPANDED, expanded_segment
from rods.errors import CorruptLogError, UserError
from tests.buffers.log.test_writer import step, write_steps
from tests.records import filled


def test_a_tail_sees_a_group_only_once_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    tail = Tail(path)
    assert tail.poll() == []
    members, closing = step(1, groups=3)
    data = b"".join(
        line(seq, content)
        for seq, content in enumerate([*members, {**closing, "first": 1}], start=1)
    )
    seen = 0
    for end in range(len(data)):
        path.write_bytes(data[:end])
        assert tail.poll() == []
    path.write_bytes(data)
    seen = len(tail.poll())
    assert seen == 4
    assert tail.poll() == []


def test_the_only_record_with_a_damaged_newline_is_damage_and_not_an_empty_log(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    LogWriter(path).append([record("start", attempt=1, from_step=0)])
    path.write_bytes(path.read_bytes()[:-1])
    assert Tail(path).poll() == []  # its newline has not arrived
    path.write_bytes(path.read_bytes() + b"\x08")
    with pytest.raises(CorruptLogError, match="newline"):
        list(read(path))


def test_bytes_that_have_not_arrived_mean_not_yet(tmp_path: Path) -> None:
    """A network file system may show the new length before the new bytes."""
    path = tmp_path / "x.jsonl"
    write_steps(path, 1).close()
    whole = path.read_bytes()
    tail = Tail(path)
    write_steps(path, 2).close()
    full = path.read_bytes()
    path.write_bytes(whole + bytes(40) + full[len(whole) + 40 :])
    assert len(tail.poll()) == 3
    path.write_bytes(full)
    assert [found["seq"] for found in tail.poll()] == [4, 5, 6]


def test_a_tail_follows_through_cuts(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    tail = Tail(path)
    writer = LogWriter(path)
    seen = []
    for number in range(1, 12):
        writer.append_group(*step(number))
        if number % 3 == 0:
            writer.rotate()
        if number % 2:
            seen += tail.poll()
    assert [found["seq"] for found in seen] == list(range(1, 34))


def test_a_kill_in_the_middle_of_a_cut_is_followed_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    tail = Tail(path)
    writer = write_steps(path, 1)
    assert len(tail.poll()) == 3
    writer.append_group(*step(2))
    writer.close()
    path.rename(tmp_path / "x.000000000001.jsonl")
    assert [found["seq"] for found in tail.poll()] == [4, 5, 6]
    write_steps(path, 3).close()
    assert [found["seq"] for found in tail.poll()] == [7, 8, 9]


def test_a_group_longer_than_a_block_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    writer = LogWriter(path)
    members, closing = step(1, groups=3000)
    writer.append_group(members, closing)
    assert len(Tail(path).poll()) == 3001


def test_parts_of_one_log_named_by_epoch_are_read_as_one(tmp_path: Path) -> None:
    tail = Tail(tmp_path / EXPANDED)
    seen: list[int] = []
    seq = 0
    for epoch in (0, 3, 4, 11, 10_000):
        writer = LogWriter(tmp_path / expanded_segment(epoch), log=tmp_path / EXPANDED)
        if epoch == 4:
            continue  # opened and left empty: the daemon was killed
        for _ in range(2):
            seq += 1
            writer.append([filled("expanded", pick=f"p{seq}", index=0)])
        seen += [found["seq"] for found in tail.poll()]
    assert seen == list(range(1, 9))
    assert [found["seq"] for found in read(tmp_path / EXPANDED)] == seen


def test_what_a_tail_has_left_behind_is_not_looked_at_again(tmp_path: Path) -> None:
    """The daemon looks twenty times a second, and a run of months has thousands of epochs."""
    tail = Tail(tmp_path / EXPANDED)
    for epoch in range(12):
        writer = LogWriter(tmp_path / expanded_segment(epoch), log=tmp_path / EXPANDED)
        writer.append([filled("expanded", pick=f"{epoch}-a", index=0)])
        writer.close()
        assert [part.name for part in tail._remaining()][-1:] == [expanded_segment(epoch)]
        assert len(tail._remaining()) <= 2  # the part at the position, and the new one
        assert len(tail.poll()) == 1
    assert len(segments(tmp_path / EXPANDED)) == 12
    assert [part.name for part in segments(tmp_path / EXPANDED, expanded_segment(9))] == [
        expanded_segment(epoch) for epoch in (9, 10, 11)
    ]


def listings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Grows by the path of each log whose parts are looked for in its folder."""
    found: list[Path] = []

    def listed(path: Path, since: str = "") -> list[Path]:
        found.append(path)
        return segments(path, since)

    monkeypatch.setattr(tail_module, "segments", listed)
    return found


def test_who_knows_the_epoch_finds_the_next_part_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = 0
    tail = Tail(tmp_path / EXPANDED, newest=lambda: newest)
    listed = listings(monkeypatch)
    for epoch in (0, 3, 4, 20):
        with closing(
            LogWriter(tmp_path / expanded_segment(epoch), log=tmp_path / EXPANDED)
        ) as writer:
            writer.append([filled("expanded", pick=f"{epoch}-a", index=0)])
            newest = epoch
            assert len(tail.poll()) == 1
            listed.clear()
            writer.append([filled("expanded", pick=f"{epoch}-b", index=0)])
            newest = epoch + PROBED
            assert len(tail.poll()) == 1 and tail.poll() == []
            assert not listed
            writer.rotate()
            writer.append([filled("expanded", pick=f"{epoch}-c", index=0)])
            assert len(tail.poll()) == 1
    newest = 21 + PROBED  # too many to ask for each
    listed.clear()
    assert (tail.poll(), len(listed)) == ([], 1)


def test_a_log_that_is_not_there_is_looked_for_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = Tail(tmp_path / "x.jsonl")
    listed = listings(monkeypatch)
    for _ in range(3):
        assert tail.poll() == []
    assert len(listed) == 1
    writer = write_steps(tmp_path / "x.jsonl", 1)
    writer.rotate()
    writer.append_group(*step(2))
    assert [found["seq"] for found in tail.poll()] == [
        found["seq"] for found in read(tmp_path / "x.jsonl")
    ]


def test_a_missing_part_is_not_jumped_over(tmp_path: Path) -> None:
    paths = [tmp_path / expanded_segment(epoch) for epoch in (0, 1, 2)]
    for number, path in enumerate(paths):
        LogWriter(path, log=tmp_path / EXPANDED).append(
            [filled("expanded", pick=f"p{number}", index=0)]
        )
    hidden = paths[1].read_bytes()
    paths[1].unlink()
    tail = Tail(tmp_path / EXPANDED)
    assert [found["seq"] for found in tail.poll()] == [1]
    assert tail.seq == 1
    paths[1].write_bytes(hidden)
    assert [found["seq"] for found in tail.poll()] == [2, 3]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["step", "void", "start", "rotate", "reopen", "poll"]), max_size=25)
)
def test_whatever_a_writer_does_a_tail_and_a_reader_agree(
    tmp_path_factory, actions: list[str]
) -> None:
    path = tmp_path_factory.mktemp("log") / "x.jsonl"
    writer = LogWriter(path)
    tail = Tail(path)
    expected: list[int] = []
    seen: list[int] = []
    for number, action in enumerate(actions, start=1):
        before = writer.seq
        if action == "step":
            writer.append_group(*step(number))
            expected += range(before + 1, before + 4)
        elif action == "void":
            writer.append(step(number)[0])
        elif action == "start":
            writer.append([record("start", attempt=number, from_step=0)])
            expected.append(before + 1)
        elif action == "rotate":
            writer.rotate()
        elif action == "reopen":
            writer.close()
            writer = LogWriter(path)
        else:
            seen += [found["seq"] for found in tail.poll()]
    seen += [found["seq"] for found in tail.poll()]
    assert seen == expected
    assert [found["seq"] for found in read(path)] == expected


def test_a_tail_that_begins_before_a_record_passes_over_earlier_parts(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    writer = write_steps(path, 1)
    for number in (2, 3):
        writer.rotate()
        writer.append_group(*step(number))
    whole = read(path)
    starts = [first_seq(part) or 0 for part in segments(path)]
    assert len(starts) == 3
    for seq, first in ((10**6, starts[-1]), *((start, start) for start in starts)):
        tail = Tail(path)
        tail.begin_before(seq)
        assert [found["seq"] for found in tail.poll()] == [
            found["seq"] for found in read(path) if found["seq"] >= first
        ]
    damaged = segments(path)[0]
    damaged.write_bytes(b"?" * 100 + damaged.read_bytes()[100:])
    tail = Tail(path)
    tail.begin_before(starts[-1])
    assert tail.poll()
    with pytest.raises(CorruptLogError):
        list(whole)


def test_a_log_whose_folder_was_moved_away_is_not_said_to_be_damaged(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    write_steps(run / "x.jsonl", 1).close()
    tail = Tail(run / "x.jsonl", strict=True)
    assert tail.poll()
    run.rename(tmp_path / "moved")
    for look in (
        tail.poll,
        lambda: list(read(run / "x.jsonl")),
        lambda: list(read(run / "never.jsonl")),
    ):
        with pytest.raises(UserError, match=r"is not there.*was moved or removed") as raised:
            look()
        assert not isinstance(raised.value, CorruptLogError)
