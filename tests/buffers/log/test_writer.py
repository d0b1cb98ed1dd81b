"""The log: what is acknowledged stays, what is damaged is refused, what is cut short is moved
aside."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import orjson
import pytest

from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import record
from rods.buffers.log.tail import read, read_raw
from rods.buffers.log.writer import LogWriter
from rods.errors import CorruptLogError, InfrastructureError, RefusedError, RodsError, UserError
from tests.records import filled


def step(number: int, groups: int = 2, attempt: int = 1) -> tuple[list[dict], dict]:
    members = [
        filled("group", attempt=attempt, step=number, index=index, task=f"t{index}")
        for index in range(groups)
    ]
    return members, filled("step", attempt=attempt, step=number, groups=groups)


def write_steps(path: Path, *numbers: int) -> LogWriter:
    writer = LogWriter(path)
    for number in numbers:
        writer.append_group(*step(number))
    return writer


def test_a_line_is_json_with_seq_id_kind_and_a_checksum_of_what_stands_before_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.jsonl"
    write_steps(path, 1)
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        content = orjson.loads(text)
        assert list(content)[:3] == ["seq", "id", "kind"]
        assert list(content)[-1] == "crc"
        assert content["seq"] == number
        before = text[: text.rindex(b',"crc"')]
        assert content["crc"] == f"{crc32(before):08x}"


def test_seq_runs_on_when_the_log_is_opened_again(tmp_path: Path) -> None:
    write_steps(tmp_path / "x.jsonl", 1).close()
    write_steps(tmp_path / "x.jsonl", 2).close()
    assert [found["seq"] for found in read(tmp_path / "x.jsonl")] == [1, 2, 3, 4, 5, 6]


def test_a_group_without_its_closing_record_is_invisible_and_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    writer = write_steps(path, 1)
    writer.append(step(2)[0])
    assert [found["seq"] for found in read(path)] == [1, 2, 3]
    writer.append([record("start", attempt=2, from_step=1)])
    writer.append_group(*step(2, attempt=2))
    assert [found["seq"] for found in read(path)] == [1, 2, 3, 6, 7, 8, 9]
    assert len(list(read_raw(path))) == 9


@pytest.mark.parametrize("zeros", ["none", "to the line's length", "to a block"])
def test_a_line_cut_at_any_byte_is_moved_aside_and_nothing_else_is_lost(
    tmp_path: Path, zeros: str
) -> None:
    """After a power cut there may be zeros where bytes that were never synced would be, up to the
    new length."""
    path = tmp_path / "x.jsonl"
    write_steps(path, 1).close()
    whole = path.read_bytes()
    LogWriter(path).append([record("start", attempt=2, from_step=1)])
    full = path.read_bytes()
    for cut in range(len(whole) + 1, len(full)):
        end = {"none": cut, "to the line's length": len(full), "to a block": 4096}[zeros]
        path.write_bytes(full[:cut].ljust(end, b"\0"))
        assert len(list(read(path))) == 3
        writer = LogWriter(path)
        assert path.read_bytes() == whole
        aside = path.with_name(f"x.jsonl.torn.{len(whole)}")
        assert aside.read_bytes() == full[len(whole) : cut].ljust(end - len(whole), b"\0")
        assert writer.append([record("start", attempt=2, from_step=1)]) == 4
        assert path.read_bytes() == full
        writer.close()


@pytest.mark.slow
def test_every_flipped_bit_is_refused_by_readers(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    write_steps(path, 1, 2).close()
    whole = bytearray(path.read_bytes())
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(CorruptLogError):
                list(read(path))


def test_damage_is_named_by_file_and_byte_and_never_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    write_steps(path, 1, 2).close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"t0"', b'"t9"')
    path.write_bytes(b"".join(lines))
    with pytest.raises(CorruptLogError, match=rf"x\.jsonl, byte {len(b''.join(lines[:3]))}"):
        list(read(path))


def test_a_damaged_last_line_is_refused_when_opened_for_append_and_copied(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    write_steps(path, 1).close()
    damaged = bytearray(path.read_bytes())
    damaged[-5] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptLogError):
        LogWriter(path)
    assert path.read_bytes() == damaged
    assert len(list(tmp_path.glob("x.jsonl.corrupt.*"))) == 1


def test_missing_records_between_parts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    writer = write_steps(path, 1)
    first = writer.rotate()
    writer.append_group(*step(2))
    second = writer.rotate()
    writer.append_group(*step(3))
    writer.close()
    assert [part.name for part in segments(path)] == [
        "x.000000000001.jsonl",
        "x.000000000004.jsonl",
        "x.jsonl",
    ]
    assert [found["seq"] for found in read(path)] == list(range(1, 10))
    assert first is not None and second is not None
    second.unlink()
    with pytest.raises(CorruptLogError, match="record 4 is missing"):
        list(read(path))


def test_a_cut_log_is_continued_even_when_its_live_part_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    writer = write_steps(path, 1)
    assert writer.rotate() is not None
    assert writer.rotate() is None
    writer.close()
    write_steps(path, 2).close()
    assert [found["seq"] for found in read(path)] == [1, 2, 3, 4, 5, 6]


def test_a_second_writer_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    one = write_steps(path, 1)
    other = LogWriter(path)
    one.append_group(*step(2))
    with pytest.raises(RefusedError, match="another process"):
        other.append_group(*step(3))


def test_a_full_disk_is_a_user_error_and_leaves_whole_lines_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENOSPC shows as a short write first. What was written whole stays, so that no reader sees a
    record vanish."""
    path = tmp_path / "x.jsonl"
    writer = write_steps(path, 1)
    real = os.write
    room = [400]

    def write(descriptor: int, data: bytes) -> int:
        count = min(len(data), room[0])
        if count == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        room[0] -= count
        return real(descriptor, bytes(data[:count]))

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(UserError, match="disk is full"):
        writer.append_group(*step(2, groups=9))
    monkeypatch.undo()
    assert path.read_bytes().endswith(b"\n")
    assert len(list(read(path))) == 3
    kept = len(list(read_raw(path))) - 3
    assert 0 < kept < 9
    writer.append_group(*step(2))
    assert [found["seq"] for found in read(path)] == [1, 2, 3, *range(4 + kept, 7 + kept)]


def test_a_write_beyond_the_size_limit_is_rolled_back_for_real(tmp_path: Path) -> None:
    """The same with the kernel's own short write (RLIMIT_FSIZE)."""
    code = (
        "import resource, signal, sys; from pathlib import Path; from rods.buffers.log.writer "
        "import LogWriter;"
        "from rods.buffers.log.record_bytes import record; from rods.errors import RodsError\n"
        "writer = LogWriter(Path(sys.argv[1])); writer.append([record('start', attempt=1, "
        "from_step=0)])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (writer.size + 100, resource.RLIM_INFINITY))\n"
        "try: writer.append([record('start', attempt=n, from_step=0) for n in range(2, 9)])\n"
        "except RodsError: pass\n"
        "else: sys.exit(3)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, "
        "resource.RLIM_INFINITY))\n"
        "writer.append([record('start', attempt=9, from_step=0)])\n"
    )
    path = tmp_path / "x.jsonl"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0
    assert [found["attempt"] for found in read(path)][-1] == 9


def test_a_failed_fsync_is_never_repeated_on_its_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    writer = write_steps(path, 1)
    real = os.fdatasync
    synced: list[tuple[int, int]] = []

    def failing(descriptor: int) -> None:
        synced.append((descriptor, os.fstat(descriptor).st_ino))
        if len(synced) == 1:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    rewritten: list[int] = []
    real_pwrite = os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        rewritten.append(len(data))
        return real_pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "fdatasync", failing)
    monkeypatch.setattr(os, "pwrite", pwrite)
    before = path.stat().st_size
    writer.append_group(*step(2))
    assert len(synced) == 2
    assert synced[0][0] != synced[1][0]
    assert sum(rewritten) == path.stat().st_size - before
    monkeypatch.undo()
    writer.append_group(*step(3))
    assert len(list(read(path))) == 9


def ends_with(
    writer: LogWriter, failing: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that fails like this is an error of the disk, and the writer stays unusable on a sound
    one."""
    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(InfrastructureError):
        writer.append_group(*step(2))
    monkeypatch.undo()
    with pytest.raises(InfrastructureError, match="unusable"):
        writer.append_group(*step(3))


def test_what_a_failed_fsync_has_lost_is_never_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes are read again, and are not what was written."""
    path = tmp_path / "x.jsonl"
    writer = write_steps(path, 1)
    kept = path.read_bytes()

    def failing(descriptor: int) -> None:
        path.write_bytes(kept + bytes(path.stat().st_size - len(kept)))
        raise OSError(errno.EIO, "Input/output error")

    ends_with(writer, failing, monkeypatch)
    assert path.read_bytes().startswith(kept)


def test_a_disk_that_keeps_failing_stops_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    writer = write_steps(path, 1)
    kept = path.read_bytes()

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    ends_with(writer, failing, monkeypatch)
    assert path.read_bytes().startswith(kept)


def test_an_interrupt_inside_a_write_does_not_let_the_writer_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = write_steps(tmp_path / "x.jsonl", 1)
    real = os.write

    def interrupted(descriptor: int, data: bytes) -> int:
        real(descriptor, bytes(data[:30]))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.append_group(*step(2))
    monkeypatch.undo()
    with pytest.raises(RodsError):
        writer.append_group(*step(2))
    assert len(list(read(tmp_path / "x.jsonl"))) == 3
    write_steps(tmp_path / "x.jsonl", 2)
    assert len(list(read(tmp_path / "x.jsonl"))) == 6


APPENDING = """
import sys
from collections.abc import Callable
from pathlib import Path
from rods.buffers.log.writer import LogWriter
from tests.buffers.log.test_writer import step
from tests.records import filled
writer = LogWriter(Path(sys.argv[1]))
for number in range(1, 10**6):
    writer.append_group(*step(number, groups=40))
    print(number, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9_in_the_middle_of_appending(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"{number}.jsonl"
        child = subprocess.Popen(
            [sys.executable, "-c", APPENDING, str(path)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        said = [child.stdout.readline()]
        time.sleep(0.01 + 0.007 * number)
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
        child.wait()
        acknowledged = sum(text.endswith(b"\n") for text in said)
        write_steps(path, acknowledged + 2).close()
        closed = [found["step"] for found in read(path) if found["kind"] == "step"]
        assert closed[:acknowledged] == list(range(1, acknowledged + 1))
        assert len(closed) - acknowledged in (1, 2)  # what was on its way may have arrived


def test_a_log_whose_folder_was_moved_says_so_and_makes_nothing_there(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    moved = tmp_path / "moved"
    folder.mkdir()
    writer = write_steps(folder / "log.jsonl", 1)
    folder.rename(moved)
    before = (moved / "log.jsonl").read_bytes()
    with pytest.raises(UserError, match="moved or removed"):
        writer.append_group(*step(2))
    assert not folder.exists() and (moved / "log.jsonl").read_bytes() == before
    writer.close()
