"""Training tasks that match held-out ones: of other files (`rods data check --against`), and in
BFCL's own split."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call
from rods.console.main import run
from rods.gates.similarity import overlaps
from rods.tasks import Task, task_lines
from rods.worlds import desk
from rods.worlds.bfcl import fetch, tasks

ORIGINALS = desk.generate(3, 6, 2)
TRAIN = [task for task in ORIGINALS if task.split == "train"]
HELD_OUT = [task for task in ORIGINALS if task.split != "train"]


def near(task: Task, **changes: Any) -> Task:
    """Another task with the same queries."""
    changes = {"state": None, "calls": ((Call("list_day", {}),),) * len(task.calls)} | changes
    return replace(task, id="", **changes)


@pytest.mark.parametrize(
    "leak", [replace(HELD_OUT[0], split="train"), near(HELD_OUT[1], split="train")]
)
def test_a_leak_into_another_file_is_a_fault(
    leak: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.jsonl"
    theirs = tmp_path / "theirs.jsonl"
    mine.write_bytes(task_lines([*TRAIN, leak]))
    theirs.write_bytes(task_lines(HELD_OUT))
    run(["data", "check", str(mine), "--json"])
    alone = json.loads(capsys.readouterr().out)["faults"]
    assert not any("leaks into" in fault["what"] for fault in alone)
    assert run(["data", "check", str(mine), "--against", str(theirs), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["faults"]
    (fault,) = [fault for fault in told if "leaks into" in fault["what"]]
    assert fault["where"] == f"{mine}:{len(TRAIN) + 1}" and str(theirs) in fault["what"]
    mine.write_bytes(task_lines(TRAIN))
    assert run(["data", "check", str(mine), "--against", str(theirs)]) == 0


def test_what_bfcls_split_shares_is_what_was_counted_before() -> None:
    fetch()
    base = {task.id: task for task in tasks() if task.type == "base"}
    shared = overlaps([*base.values()])
    by_rule = {
        rule: {base[match.other].provenance["id"] for _, match in shared if match.rule == rule}
        for rule in ("state", "query")
    }
    assert by_rule == {
        "state": {"multi_turn_base_70", "multi_turn_base_74"},
        "query": {"multi_turn_base_40"},
    }
    several = {
        split: [str(turn) for task in base.values() if (task.split == "train") is (split == "train")
                for turn in task.calls if len(turn) > 1]
        for split in ("train", "held out")
    }  # fmt: skip
    twins = [turn in several["train"] for turn in several["held out"]]
    assert (len(twins), sum(twins)) == (135, 21)
