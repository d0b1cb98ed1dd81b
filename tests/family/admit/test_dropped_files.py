"""A folder that a daemon watches: real files, a real daemon process, and a trainer that merges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, SEEDS
from rods.console.main import run as rods
from rods.errors import RefusedError
from rods.family.admit import dropped_files
from rods.tasks import task_lines
from tests.daemon.runs import Daemon, Trainer, make_run, until
from tests.environments import desk_tasks
from tests.family.admit.test_admit import no_such_thing, sound, with_last


def make(path: Path, **operation: Any) -> Run:
    folder = path.parent / "theirs"
    folder.mkdir()
    settings = {"admit": {"folder": str(folder)}, "compute_places": 1, **operation}
    return make_run(path, {"operation": settings}, desk_tasks(9, 24, 4))


def staged(run: Run) -> list[dict[str, Any]]:
    kinds = [record for record in read(run.path / EXPANDED) if "admitted" in record["pick"]]
    return [record["task"] for record in kinds]


def verdicts(file: Path) -> list[str]:
    """Of a file of verdicts; none while it is not there."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line)["verdict"] for line in lines]


@pytest.mark.slow
@pytest.mark.needs("processes")
def test_what_is_dropped_is_judged_once_it_is_whole_and_staged_once_whatever_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(tmp_path / "run")
    theirs = tmp_path / "theirs"
    one, two, three = sound(3)
    whole = task_lines([one, with_last(two, no_such_thing)])
    (theirs / "first.jsonl").write_bytes(whole)
    half = task_lines([three])
    (theirs / "second.jsonl").write_bytes(half[:-40])
    (theirs / ".hidden.jsonl").write_bytes(whole)
    with Daemon(run.path) as daemon:
        until(lambda: staged(run))
        daemon.kill()
    with Daemon(run.path) as daemon:
        first = theirs / "first.verdicts.jsonl"
        until(lambda: verdicts(first) == ["accepted", "refused"])
        assert not (theirs / "second.verdicts.jsonl").exists()
        (theirs / "second.jsonl").write_bytes(half)
        until(lambda: verdicts(theirs / "second.verdicts.jsonl") == ["accepted"])
        assert daemon.stop()[0] == 0
    before = first.stat()
    assert [(task["id"], task["provenance"]["whose"]) for task in staged(run)] == [
        (one.id, "first.jsonl"),
        (three.id, "second.jsonl"),
    ]
    (theirs / "third.jsonl").write_bytes(task_lines([two]))
    with Daemon(run.path), Trainer(run) as trainer:
        until(lambda: verdicts(theirs / "third.verdicts.jsonl"))
        trainer.play(8)
    assert first.stat() == before  # it was not judged again
    assert [task["id"] for task in staged(run)] == [one.id, three.id, two.id]
    assert sum(record["kind"] == "admitted" for record in read(run.path / SEEDS)) == 3
    assert {one.id, three.id, two.id} & set(trainer.log.state.pool.injected)
    assert verify(run.path, replay=True).problems == []
    kept = {file.name for file in (run.path / "eval" / "admit").glob("[!.]*")}
    assert kept == {f"{name}.verdicts.jsonl" for name in ("first", "second", "third")}


@pytest.mark.needs("page")
def test_verdicts_on_what_was_to_join_a_run_stand_on_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rods.family.page.task_history import findings

    run = make_run(tmp_path / "run", tasks=desk_tasks(9, 24, 4))
    one, two = sound(2)
    file = tmp_path / "theirs.jsonl"
    file.write_bytes(task_lines([one, with_last(two, no_such_thing)]))
    rods(["admit", "desk", str(file), "--into", str(run.path)])
    [table] = findings(run.path)
    assert table["source"] == "eval/admit/theirs.verdicts.jsonl"
    assert table["notes"][0] == "     1 accepted"
    assert table["notes"][1].startswith("     1 refused, replay")
    capsys.readouterr()
    rods(["inspect", str(run.path), one.id])
    assert f"theirs.verdicts.jsonl: {one.id} accepted" in capsys.readouterr().out
    (run.path / table["source"]).write_bytes(b"[1]\n\xff")
    [table] = findings(run.path)
    assert "cannot be read" in table["notes"][0]


class Idle:
    """A daemon that has only a run."""

    def __init__(self, run: Run) -> None:
        self.run = run


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sync": "lockstep"}, "lockstep"),
        ({"pool": {"static": True}}, "static"),
        ({}, "there is no folder .*/gone → make it"),
    ],
)
def test_a_run_that_can_take_nothing_says_so_at_once(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    folder = tmp_path if changes else tmp_path / "gone"
    changes = {**changes, "operation": {"admit": {"folder": str(folder)}}}
    daemon: Any = Idle(make_run(tmp_path / "run", changes))
    with pytest.raises(RefusedError, match=words):
        dropped_files.work(daemon)
