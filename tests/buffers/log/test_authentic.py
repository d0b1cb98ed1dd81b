"""With a key, whatever somebody without it writes into a log is seen, whichever checksums, seqs and
ids it has."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from rods.buffers.audit.repair import carry_out, examine
from rods.buffers.audit.verify import logs, verify
from rods.buffers.log.authentic import VARIABLE
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import line
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS, POOL, SEEDS
from rods.buffers.trainer_log import TrainerLog
from rods.console.main import run as rods
from rods.errors import RefusedError, UserError
from tests.buffers.world import Players, SyncDaemonLog, make_run

WHY = "written without the key"


def played(path: Path) -> Run:
    """Three epochs in parts of a few kilobytes, by trainer and daemon."""
    run = make_run(path, operation={"log_part_bytes": 9_000})
    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        run.log_start("trainer")
        trainer.start()
        players = Players(run, trainer, daemon)
        for number in range(3):
            players.epoch(number)
    return run


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "key"
    file.touch(0o600)
    file.write_text("0123456789abcdef" * 4)
    return file


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Iterator[tuple[Path, Path]]:
    """Two runs of one key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(key))
        folder = tmp_path_factory.mktemp("authentic")
        yield played(folder / "one").path, played(folder / "other").path


@pytest.fixture
def run(
    made: tuple[Path, Path], key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setenv(VARIABLE, str(key))
    return Path(shutil.copytree(made[0], tmp_path / "run"))


def found(run: Path) -> list[str]:
    return [
        f"{each['where']}: {each['what']}" for each in verify(run).problems if WHY in each["what"]
    ]


def test_a_run_with_a_key_is_held_to_it_and_says_so(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = verify(run)
    assert report.ok, report.problems
    assert {log.name for log in logs(run)} >= {OBSERVATIONS, POOL, SEEDS, "operation.trainer.jsonl"}
    assert rods(["verify", str(run)]) == 0
    assert f"{len(logs(run))} logs held to the key" in capsys.readouterr().out


def forge(text: bytes, draw: random.Random) -> bytes:
    """The record with another number, or another text, and a checksum, an id and a seq that are
    right."""
    content = orjson.loads(text)
    seq = content.pop("seq")
    _ = content.pop("crc")
    name = draw.choice([name for name in content if name not in ("id", "kind", "mac")])
    content[name] = [content[name], "forged"]
    return line(seq, content)[:-1]


def strip(text: bytes, _: random.Random) -> bytes:
    content = orjson.loads(text)
    return line(
        content["seq"],
        {name: content[name] for name in content if name not in ("seq", "crc", "mac")},
    )[:-1]


@pytest.mark.parametrize("change", [forge, strip])
@pytest.mark.parametrize("number", range(12))
def test_a_record_that_is_written_without_the_key_is_found(
    run: Path, change: Callable[[bytes, random.Random], bytes], number: int
) -> None:
    draw = random.Random(number)
    part = draw.choice([part for log in logs(run) for part in segments(log) if part.stat().st_size])
    lines = part.read_bytes().split(b"\n")
    place = draw.randrange(len(lines) - 1)
    lines[place] = change(lines[place], draw)
    part.write_bytes(b"\n".join(lines))
    offset = sum(len(text) + 1 for text in lines[:place])
    assert found(run) == [f"{part.name}: the record at byte {offset}: {WHY}"]


def test_a_record_of_another_log_place_or_run_is_found(run: Path, made: tuple[Path, Path]) -> None:
    part = segments(run / SEEDS)[0]
    own = part.read_bytes()
    for lines in (
        segments(made[1] / SEEDS)[0].read_bytes(),  # another run's
        segments(run / POOL)[0].read_bytes(),  # another log's
    ):
        part.write_bytes(lines)
        assert found(run)
    first, second, *others = own.splitlines(keepends=True)
    bare = {
        name: value for name, value in orjson.loads(first).items() if name not in ("seq", "crc")
    }
    part.write_bytes(b"".join([line(1, orjson.loads(second) | {"seq": 1}), second, *others]))
    assert found(run)
    part.write_bytes(b"".join([first, line(2, bare), *others]))
    assert found(run)


def test_neither_half_of_a_log_goes_on_without_the_other(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(
        RefusedError,
        match=r"carry codes, and no key is given → name the key's file in RODS_LOG_KEY",
    ):
        TrainerLog(Run.open(run)).start()
    report = verify(run)
    assert report.ok and any(
        "not looked at: RODS_LOG_KEY names no key" in note for note in report.notes
    )
    bare = played(tmp_path / "bare")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"none: the key cannot be read .*openssl rand -hex 32"):
        verify(bare.path)
    (tmp_path / "none").touch(0o600)
    (tmp_path / "none").write_text("k" * 32)
    assert len(found(bare.path)) == sum(
        1 for log in logs(bare.path) if any(part.stat().st_size for part in segments(log))
    )
    with pytest.raises(RefusedError, match="carry no codes, and a key is given"):
        TrainerLog(bare).start()
    (tmp_path / "none").chmod(0o640)
    with pytest.raises(UserError, match="open to others"):
        verify(bare.path)
    (tmp_path / "none").chmod(0o600)
    (tmp_path / "none").write_text("short")
    with pytest.raises(UserError, match="5 bytes is too short"):
        verify(bare.path)


@pytest.mark.parametrize("log", [SEEDS, POOL])
def test_what_was_recovered_carries_codes_and_what_was_forged_before_stays_found(
    run: Path, log: str
) -> None:
    part = segments(run / log)[0]
    lines = part.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:40] + bytes([lines[3][40] ^ 1]) + lines[3][41:]
    part.write_bytes(b"".join(lines))
    carry_out(Run.open(run), examine(Run.open(run)))
    assert not found(run)
    lines = part.read_bytes().splitlines(keepends=True)
    lines[5] = strip(lines[5][:-1], random.Random(0)) + b"\n"
    lines[7] = lines[7][:40] + bytes([lines[7][40] ^ 1]) + lines[7][41:]
    part.write_bytes(b"".join(lines))
    carry_out(Run.open(run), examine(Run.open(run)))
    assert found(run)
