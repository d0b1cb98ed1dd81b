"""Events of both processes, whatever stands in them."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import orjson
import pytest
import structlog

from rods import logs
from rods.errors import MOST_SAID

ESCAPE = "\x1b[2J\x9b2J\x07\u202e"


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_in_an_event_steers_a_terminal_or_fills_a_disk(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    logs.configure("daemon", folder=tmp_path)
    log = structlog.get_logger()
    long = "x" * (1 << 20)
    log.warning(
        "endpoint down",
        why=ESCAPE,
        tasks=[ESCAPE, {"body": ESCAPE + long}],
        endpoint=long,
        **{ESCAPE: 1},
    )
    try:
        raise ValueError(long + ESCAPE + "the end")
    except ValueError:
        log.exception(ESCAPE)
    said = capsys.readouterr().err
    kept = (tmp_path / "daemon.jsonl").read_text()
    for text in (said, kept):
        assert len(text) < 8 * MOST_SAID
        assert (
            "\x9b" not in text
            and "\u202e" not in text
            and "[2J\x07" not in text
            and "\x1b[2J" not in text
        )
        assert "the end" in text
    events = [orjson.loads(line) for line in kept.splitlines()]
    assert [event["level"] for event in events] == ["warning", "error"]


def test_what_an_event_says_stays_what_it_is(tmp_path: Path) -> None:
    logs.configure("daemon", folder=tmp_path)
    structlog.get_logger().info(
        "considered", step=3, share=0.5, retried=False, servers=["a", "b"], why=None
    )
    event = orjson.loads((tmp_path / "daemon.jsonl").read_bytes())
    assert (event["step"], event["share"], event["retried"], event["servers"], event["why"]) == (
        *(3, 0.5, False),
        ["a", "b"],
        None,
    )


def said(folder: Path, process: str = "daemon") -> list[int]:
    """The numbers of the events that are kept, oldest first."""
    files = sorted(folder.glob(f"{process}.[0-9].jsonl"), reverse=True)
    lines = [
        line
        for file in [*files, folder / f"{process}.jsonl"]
        if file.exists()
        for line in file.read_bytes().splitlines()
    ]
    return [orjson.loads(line)["number"] for line in lines]


@pytest.mark.parametrize(("most", "files"), [(40_000, 4), (0, 1)])
def test_of_what_a_process_says_the_last_bytes_are_kept(
    tmp_path: Path, most: int, files: int
) -> None:
    logs.configure("daemon", folder=tmp_path, most=most)
    log = structlog.get_logger()
    for number in range(2_000):
        log.info("considered", number=number)
        taken = sum(file.stat().st_size for file in tmp_path.iterdir())
        assert not most or taken < most + 4 * 200
    kept = said(tmp_path)
    assert kept == [*range(2_000 - len(kept), 2_000)]
    assert len(kept) > 150 if most else len(kept) == 2_000
    assert len([*tmp_path.iterdir()]) in (files, files - 1)


def test_processes_of_one_name_lose_no_event_of_each_other(tmp_path: Path) -> None:
    writers = [logs._EventFiles(tmp_path, "trainer", 20_000) for _ in range(3)]
    for number in range(800):
        writers[number % 3].write(f'{{"number": {10_000 + number}}}\n')
    assert said(tmp_path, "trainer") == [*range(10_000, 10_800)]
    assert len([*tmp_path.iterdir()]) == 3


def test_a_disk_that_is_full_while_a_file_is_closed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure("daemon", folder=tmp_path, most=4_000)
    log = structlog.get_logger()

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(logs, "descriptor_of", full)
        for number in range(100):
            log.info("considered", number=number)
    log.info("considered", number=100)
    assert said(tmp_path)[-1] == 100
