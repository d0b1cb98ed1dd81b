"""Words of somebody who had not seen the gates, for turns of tasks in four worlds. The good ones
ask for just what the ground truth does: no objection to them may be certain. The bad ones have a
fault each, and what the gates say of them is counted."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.faults import Reason
from rods.gates.ground_truth import replayed
from rods.gates.missing import missing
from rods.gates.texts import leaks, requests
from rods.gates.values import grounding, referents
from rods.tasks import Task
from rods.worlds import desk

LISTS = Path(__file__).parent / "paraphrases"
WORLDS = ("bfcl", "desk", "library", "airline")
# questions for the judge about good words, bad ones that gates alone stop, questions about bad ones
COUNTED = {"bfcl": (14, 15, 6), "desk": (24, 20, 6), "library": (17, 19, 9), "airline": (10, 14, 4)}

Found = tuple[Environment, dict[str, Task]]


@pytest.fixture
def found(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Found]:
    """A world, and the tasks that the rows are about."""

    def of(world: str) -> Found:
        if world == "bfcl":
            given: list[Task] = request.getfixturevalue("tasks")
            return request.getfixturevalue("bfcl"), {task.id: task for task in given}
        records = [record for record in lines("tasks") if record.pop("world") == world]
        if world == "library":
            monkeypatch.chdir(tmp_path)
            template = Path(pytest.importorskip("rods.family.new_world").__file__).parent
            shutil.copytree(template / "template", tmp_path, dirs_exist_ok=True)
        made = desk.generate(20261129, 60, 0) if world == "desk" else []
        tasks = [task for task in made if isinstance(task, Task)]  # in the words of today
        tasks += [Task.from_json(record) for record in records]
        return Environments().load(tasks[0].environment.name), {task.id: task for task in tasks}

    return of


def lines(name: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (LISTS / f"{name}.jsonl").read_bytes().splitlines()]


def objections(environment: Environment, task: Task) -> list[Reason]:
    results, unsound = replayed(environment, task)
    assert results is not None, unsound
    return [
        *leaks(environment, task),
        *grounding(environment, task, results),
        *requests(environment, task, results),
        *referents(environment, task, results),
        *missing(environment, task, results, fair=True),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_what_gates_say_of_other_people_s_words(found: Callable[[str], Found], world: str) -> None:
    environment, tasks = found(world)
    said: dict[str, Counter[str]] = {"good": Counter(), "bad": Counter()}
    refused: list[tuple[str, list[Reason]]] = []
    usual: dict[str, set[Reason]] = {}
    for kind, counted in said.items():
        for row in lines(kind):
            if row["world"] != world:
                continue
            task = replace(tasks[row["task"]], environment=reference(environment), id="")
            if task.id not in usual:
                usual[task.id] = set(objections(environment, task))
            script = list(task.script)
            script[row["turn"]] = row["words"]
            new = [
                reason
                for reason in objections(environment, replace(task, script=tuple(script), id=""))
                if reason not in usual[task.id]
            ]
            certain = any(not reason.doubt for reason in new)
            counted["refused" if certain else "doubt" if new else "passed"] += 1
            if kind == "good" and certain:
                refused.append((row["words"], new))
    assert not refused
    bad = said["bad"]
    assert (said["good"]["doubt"], bad["refused"], bad["doubt"]) == COUNTED[world]
