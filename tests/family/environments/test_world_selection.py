"""Selections of worlds differ in what they are named after."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rods.console.main import run as rods
from rods.conversations import Script
from rods.errors import UserError
from rods.family.environments.procedural.operations import documentation, operations
from rods.family.environments.procedural.skeletons import draw_skeleton
from rods.family.environments.world_selection import likeness, select_tasks
from rods.tasks import AnyTask, OpenTask, read_tasks, task_lines
from tests.environments import Late


def task(number: int, place: int, held_out: bool) -> OpenTask:
    """A task in a drawn world that is not run: its documentation and its tools' names are those of
    the world."""
    skeleton = draw_skeleton(7, number)
    record = {
        "schema": 2,
        "environment": {"name": f"world {number}", "hash": "0"},
        "type": "base",
        "user": {"script": [f"{place}"]}
        if place % 2
        else {"persona": {"intent": "x", "query": f"{place}"}},
        "goal": {"checks": [{"name": "done", "arguments": {}}]},
        "tools": {"names": [each.name for each in operations(skeleton)]},
        "system": documentation(skeleton),
        "split": "test" if held_out else "train",
        "provenance": {"topic": skeleton.topic},
    }
    found = AnyTask.from_json(record | {"id": ""})
    assert isinstance(found, OpenTask)
    return found


TASKS = Late(
    lambda: [task(number, place, number >= 36) for number in range(40) for place in range(4)]
)
HELD_OUT = Late(lambda: [one for one in TASKS if one.split == "test"])


def select(
    tasks: Sequence[AnyTask], *, without: Sequence[AnyTask] | None = None, **options: Any
) -> list[AnyTask]:
    """What `select_tasks` makes of these tasks."""
    with tempfile.TemporaryDirectory() as scratch:
        file, other, out = (Path(scratch) / name for name in ("tasks", "other", "out"))
        file.write_bytes(task_lines(tasks))
        if without is not None:
            other.write_bytes(task_lines(without))
            options["without"] = other
        select_tasks(file, out, **options)
        return read_tasks(out)


def names(tasks: Sequence[AnyTask]) -> set[str]:
    return {one.environment.name for one in tasks if one.split == "train"}


def test_fewer_worlds_are_among_more_and_what_is_held_out_stays() -> None:
    found = [select(TASKS, worlds=count) for count in (5, 10, 20)]
    assert [len(names(one)) for one in found] == [5, 10, 20]
    assert names(found[0]) < names(found[1]) < names(found[2]) < names(select(TASKS))
    for one in found:
        assert [each for each in one if each.split == "test"] == list(HELD_OUT)
        assert len(one) == 4 * len(names(one)) + len(HELD_OUT)  # each world with all of its tasks
    assert names(select(TASKS, worlds=5, random_seed=1)) != names(found[0])


def test_the_rest_of_a_split_shares_no_world_with_the_first_part() -> None:
    first = select(TASKS, worlds=26)
    second = select(TASKS, worlds=10, without=first)
    assert names(first) | names(second) == names(TASKS) and names(first).isdisjoint(names(second))
    with pytest.raises(UserError, match="10 worlds have such training tasks, 11 are asked for"):
        select(TASKS, worlds=11, without=first)


def test_the_most_and_the_least_like_the_held_out_worlds_are_told_apart() -> None:
    """Worlds of a held-out world's topic share its words."""
    found = likeness(TASKS)
    topics = {one.environment.name: one.provenance["topic"] for one in TASKS}
    most, least = (names(select(TASKS, worlds=18, alike=which)) for which in ("most", "least"))
    assert most.isdisjoint(least) and most | least == names(TASKS)
    assert min(found[name] for name in most) >= max(found[name] for name in least)
    apart = {one.provenance["topic"] for one in HELD_OUT}
    alike = {name for name in names(TASKS) if topics[name] in apart}
    assert alike <= most and not alike & least
    with pytest.raises(UserError, match="no world is held out"):
        select([one for one in TASKS if one.split == "train"], alike="most")


def test_a_mode_keeps_the_worlds_and_leaves_out_the_other_tasks() -> None:
    told, asked = (select(TASKS, mode=mode) for mode in ("told", "asked"))
    assert names(told) == names(asked) == names(TASKS)
    for found, kind in ((told, True), (asked, False)):
        users = [one.user for one in found if one.split == "train" and isinstance(one, OpenTask)]
        assert all(isinstance(user, Script) == kind for user in users)
        assert [one for one in found if one.split == "test"] == list(HELD_OUT)


def test_the_verb_writes_the_selection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, first, out = (tmp_path / name for name in ("tasks.jsonl", "first.jsonl", "out.jsonl"))
    file.write_bytes(task_lines(TASKS))
    assert rods(["data", "select", str(file), str(first), "--worlds", "30"]) == 0
    told = ["--worlds", "6", "--without", str(first), "--mode", "asked", "--alike", "least"]
    assert rods(["data", "select", str(file), str(out), *told]) == 0
    assert f"{6 * 2 + len(HELD_OUT)} tasks in" in capsys.readouterr().out
    given = select(TASKS, worlds=6, without=read_tasks(first), mode="asked", alike="least")
    assert read_tasks(out) == given
    assert rods(["data", "select", str(file), str(out), "--worlds", "99"]) == 2
