"""`rods data audit`: pairs inside a file and between files, and what BFCL's own split shares."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call
from rods.console.main import run
from rods.tasks import Task, task_lines
from rods.worlds import desk
from rods.worlds.audit import Audit, Pair, audit
from rods.worlds.bfcl import fetch, tasks

ORIGINALS = desk.generate(3, 6, 2)
TRAIN = [task for task in ORIGINALS if task.split == "train"]
HELD_OUT = [task for task in ORIGINALS if task.split != "train"]


def near(task: Task, **changes: Any) -> Task:
    """Another task with the same queries."""
    changes = {"state": None, "calls": ((Call("list_day", {}),),) * len(task.calls)} | changes
    return replace(task, id="", **changes)


def test_a_file_of_its_own_kind_has_nothing_to_tell() -> None:
    found = audit(ORIGINALS, [], "mine")
    assert (found.tasks, found.held_out) == (8, 2)
    assert not (found.overlaps or found.duplicates or found.leaks or found.repeats)


def test_pairs_are_told_apart_by_side_and_file() -> None:
    leak = near(HELD_OUT[0], split="train")
    twin = near(TRAIN[0])
    inside = audit([*ORIGINALS, leak, twin], [], "mine")
    assert [(pair.task, pair.other) for pair in inside.overlaps] == [(leak.id, HELD_OUT[0].id)]
    assert [(pair.task, pair.other) for pair in inside.duplicates] == [(twin.id, TRAIN[0].id)]
    assert all(rule.startswith("query of turn") for pair in inside.overlaps for rule in pair.rules)
    between = audit([leak, twin], [("theirs", ORIGINALS)], "mine")
    assert [(pair.task, pair.other, pair.file) for pair in between.leaks] == [(leak.id, HELD_OUT[0].id, "theirs")]
    assert [(pair.task, pair.other, pair.file) for pair in between.repeats] == [(twin.id, TRAIN[0].id, "theirs")]


def test_the_same_task_in_another_file_is_found() -> None:
    stolen = replace(HELD_OUT[0], split="train")
    (pair,) = audit([stolen], [("theirs", HELD_OUT)], "mine").leaks
    assert pair == Pair(stolen.id, stolen.id, ("ground_truth",), "theirs")


def test_the_verb_exits_1_for_a_leak_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, theirs = tmp_path / "mine.jsonl", tmp_path / "theirs.jsonl"
    mine.write_bytes(task_lines([*TRAIN, near(HELD_OUT[1], split="train")]))
    theirs.write_bytes(task_lines(HELD_OUT))
    assert run(["data", "audit", str(mine)]) == 0
    capsys.readouterr()
    assert run(["data", "audit", str(mine), "--against", str(theirs), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["leaks"][0]["file"] == str(theirs)
    assert run(["data", "audit", str(mine), "--against", str(theirs)]) == 1
    assert "LEAKS: held-out tasks of other files that a training task matches: 1" in capsys.readouterr().out


def test_what_bfcls_split_shares_is_what_was_counted_before() -> None:
    fetch()
    base = [task for task in tasks() if task.type == "base"]
    found = audit(base, [], "bfcl")
    assert found.turns == {"base": (135, 21)}
    assert by_rule(found, "state") == {"multi_turn_base_70", "multi_turn_base_74"}
    assert by_rule(found, "query") == {"multi_turn_base_40"}


def by_rule(found: Audit, rule: str) -> set[str]:
    """The held-out tasks that a training task matches by `rule`."""
    return {found.names[pair.other] for pair in found.overlaps if any(each.startswith(rule) for each in pair.rules)}
