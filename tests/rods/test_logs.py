"""Events of both processes, whatever stands in them."""

from __future__ import annotations

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
