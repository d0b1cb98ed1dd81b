"""`rods status` over several runs: runs beside each other, and what processes have said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from structlog import get_logger

from rods.buffers.run.runfolder import LOGS
from rods.console.events import Events, event_line
from rods.console.main import run as rods
from rods.console.output import json_bytes
from rods.evaluation.heldout import compare
from rods.family.page.server import Registry
from rods.logs import configure
from tests.console.test_verbs import said_json


def test_runs_are_listed_with_the_figures_of_status(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        shutil.copytree(finished_run, tmp_path / name)
    (tmp_path / "second" / "manifest.json").write_text("{")
    (tmp_path / "no run").mkdir()
    told = said_json(capsys, "status", finished_run)
    listed = {one["name"]: one for one in said_json(capsys, "status", tmp_path)["runs"]}
    assert {"first", "second"} == set(listed)
    assert listed["first"]["condition"] == "finished"
    figures = {name: told[name] for name in ("step", "steps", "originals", "generated", "injected")}
    assert figures.items() <= listed["first"].items()
    assert listed["second"]["condition"].startswith("cannot be read")
    assert rods(["status", str(tmp_path)]) == 0
    assert "14/14" in capsys.readouterr().out
    assert rods(["status", str(tmp_path / "missing")]) == 2
    assert listed["first"]["heldout"] is None
    assert rods(["trainer", "score", str(tmp_path / "first")]) == 0
    capsys.readouterr()
    found = said_json(capsys, "status", tmp_path / "first", finished_run)["runs"]
    by_path = {one["run"]: one["heldout"] for one in found}
    assert by_path.pop(str(tmp_path / "first")) == compare(tmp_path / "first") and list(
        by_path.values()
    ) == [None]
    assert rods(["status", str(tmp_path / "first"), str(finished_run)]) == 0
    assert "held-out progress 0." in capsys.readouterr().out


def test_a_run_whose_name_is_no_utf8_is_listed(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (b"a\xff", b"a\xfe"):
        shutil.copytree(
            finished_run, Path(os.fsdecode(os.fsencode(tmp_path / "runs") + b"/" + name))
        )
    assert sorted(
        one["name"] for one in said_json(capsys, "status", tmp_path / "runs")["runs"]
    ) == ["a\ufffd", "a\ufffd~2"]
    assert len(json_bytes(Registry([tmp_path / "runs"]).listing())) > 0
    assert rods(["status", str(tmp_path / "runs")]) == 0


def test_events_are_read_in_order_and_shown_in_a_line(run_copy: Path) -> None:
    with (run_copy / "logs" / "daemon.jsonl").open("a") as file:
        odd = {"timestamp": "2999", "process": "daemon", "level": "error", "event": "oh"}
        file.write(json.dumps(odd | {"why": "Falcon"}) + "\nno json\n[]\n")
    events = Events(run_copy).poll()
    assert {event["process"] for event in events} == {"trainer", "daemon"}
    times = [event["timestamp"] for event in events]
    assert times == sorted(times)
    line = event_line(events[-1])
    assert line.startswith("2999") and 'why="Falcon"' in line


def test_what_is_of_one_run_is_not_asked_of_several(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished_run, tmp_path / "runs" / "one")
    assert rods(["status", str(tmp_path / "runs"), "--follow"]) == 2
    assert "is of one run" in capsys.readouterr().err


def test_a_follower_of_events_sees_each_once(run_copy: Path) -> None:
    events = Events(run_copy)
    file = run_copy / "logs" / "daemon.jsonl"
    assert events.poll()
    with file.open("a") as log:
        log.write('{"event": "one"}\n{"event": ')
    assert [event["event"] for event in events.poll()] == ["one"]
    with file.open("a") as log:
        log.write('"two"}\n')
    assert [event["event"] for event in events.poll()] == ["two"]
    file.write_text('{"event": "anew"}\n')  # another file
    assert [event["event"] for event in events.poll()] == ["anew"]
    assert events.poll() == []


def test_a_follower_of_events_sees_each_once_while_files_are_closed(tmp_path: Path) -> None:
    configure("daemon", folder=tmp_path / LOGS, most=8_000)
    events = Events(tmp_path)
    seen = []
    for number in range(300):
        get_logger().info("considered", number=number)
        if number % 5 == 0:
            seen += [event["number"] for event in events.poll()]
    seen += [event["number"] for event in events.poll()]
    assert seen == [*range(300)] and len([*(tmp_path / LOGS).iterdir()]) == 4
    anew = [event["number"] for event in Events(tmp_path).poll()]
    assert anew == [*range(300 - len(anew), 300)] and len(anew) > 20
