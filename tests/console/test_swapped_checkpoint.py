"""`rods verify` finds a checkpoint that was swapped for another one of the same run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from rods.buffers.checkpoints import Checkpoints
from rods.buffers.log.record_bytes import line, record
from rods.console.verbs.verify import checked


def checkpoints(run: Path) -> list[Path]:
    """The folders, the newest last."""
    return [saved.folder for saved in Checkpoints(run).named(lambda attempt, step: True)]


def all_of_it(older: Path, newer: Path) -> None:
    shutil.rmtree(newer)
    shutil.copytree(older, newer)


def with_a_manifest_that_fits(older: Path, newer: Path) -> None:
    known = orjson.loads((newer / "manifest.json").read_bytes())
    all_of_it(older, newer)
    taken = orjson.loads((newer / "manifest.json").read_bytes())
    (newer / "manifest.json").write_bytes(orjson.dumps(known | {"files": taken["files"]}))


def its_files(older: Path, newer: Path) -> None:
    shutil.rmtree(newer / "policy")
    shutil.copytree(older / "policy", newer / "policy")


WHY: dict[Callable[[Path, Path], None], str] = {
    all_of_it: "its manifest is damaged, or that of another one",
    with_a_manifest_that_fits: "is not the one that the trainer recorded",
    its_files: "a file is not as it was written",
}
SWAPS = tuple(WHY)


@pytest.mark.parametrize("swap", SWAPS)
def test_a_swapped_checkpoint_is_found(run_copy: Path, swap: Callable[[Path, Path], None]) -> None:
    assert checked(run_copy).problems == []
    *_, older, newer = checkpoints(run_copy)
    swap(older, newer)
    (problem,) = checked(run_copy).problems
    assert problem["where"] == f"checkpoint {newer.name}"
    assert problem["what"] == WHY[swap]


def test_each_checkpoint_of_a_run_is_on_record(run_copy: Path) -> None:
    assert not [note for note in checked(run_copy).notes if "no record names it" in note]
    newest = checkpoints(run_copy)[-1]
    shutil.copytree(newest, newest.with_name("step_00000099.a1"))
    (note,) = (note for note in checked(run_copy).notes if "no record names it" in note)
    assert "step_00000099.a1" in note


def test_a_log_that_cannot_be_read_vouches_for_none(run_copy: Path) -> None:
    log = run_copy / "operation.trainer.jsonl"
    data = log.read_bytes()
    forged = line(len(data.splitlines()) + 1, record("checkpoint", folder=["x"], manifest=1))
    for content in (data[:40] + b"x" + data[41:], b"", data + forged):
        log.write_bytes(content)
        findings = checked(run_copy)
        assert findings.problems == []
        assert any("no record names it" in note for note in findings.notes)
