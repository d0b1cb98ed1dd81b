"""Tasks drawn into a file: originals like others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest

from rods.buffers.run.creation import open_or_create
from rods.console.main import run as rods
from rods.errors import EXIT_OK, EXIT_USER
from rods.family.simulation.difficulty import levels
from rods.family.simulation.generating import Wanted
from rods.family.simulation.settings import DifficultyRules
from rods.family.simulation.source import generator
from rods.gates.similarity import overlaps
from rods.tasks import OpenTask, read_tasks
from tests.trainer.runs import write_config


def test_drawn_files_hold_originals_that_a_run_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tasks.jsonl"
    asked = [
        "data",
        "draw",
        str(file),
        "--train",
        "30",
        "--held-out",
        "10",
        "--difficulty",
        "20-60",
    ]
    assert rods([*asked, "--json"]) == EXIT_OK
    assert orjson.loads(capsys.readouterr().out)["tasks"] == 40
    assert rods(["data", "check", str(file)]) == EXIT_OK
    tasks = list(read_tasks(file))
    assert Counter(task.split for task in tasks) == {"train": 30, "test": 8, "validation": 2}
    assert not overlaps(tasks) and all(isinstance(task, OpenTask) for task in tasks)
    difficulties = {task.provenance["difficulty"] for task in tasks}
    assert min(difficulties) >= 20 and max(difficulties) <= 60 and len(difficulties) > 20
    before = file.read_bytes()
    assert rods(asked) == EXIT_OK and file.read_bytes() == before
    assert rods([*asked, "--random-seed", "1"]) == EXIT_OK
    assert not {task.id for task in tasks} & {task.id for task in read_tasks(file)}
    file.write_bytes(before)
    values = {
        "data.tasks": str(file),
        "data.train": 0,
        "data.held_out": 0,
        "curriculum.stages": [{"reward": "rubric"}],
    }
    run = open_or_create(tmp_path / "run", write_config(tmp_path / "c.toml", values))
    assert len(run.training) == 30 and len(run.held_out) == 10
    # What a run draws with the same random seed is something else.
    own = [Wanted(step, 0, 40, levels(DifficultyRules(), 40, 0, step, 0)) for step in range(40)]
    drawn = {task.id for task in generator(run.config, run.players)(own)}
    assert not drawn & run.training.keys()


ONE = {
    "category": "lamps",
    "tools": [
        {
            "name": "switch_lamp",
            "description": "Switches a lamp on or off.",
            "parameters": {
                "type": "object",
                "properties": {
                    "to": {"type": "string", "enum": ["on", "off"], "description": "How."}
                },
                "required": ["to"],
            },
            "result": {
                "type": "object",
                "properties": {"done": {"type": "boolean"}},
                "required": ["done"],
            },
        }
    ],
}


def test_what_cannot_be_drawn_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "categories.json").write_bytes(orjson.dumps({"lamps": "Lamps of a house."}))
    (tmp_path / "lamps.json").write_bytes(orjson.dumps(ONE))
    two = [
        "data",
        "draw",
        str(tmp_path / "two.jsonl"),
        "--train",
        "2",
        "--held-out",
        "0",
        "--difficulty",
        "1",
    ]
    assert rods([*two, "--repository", f"{tmp_path}/"]) == EXIT_OK
    for options, told in (
        (
            ["--repository", f"{tmp_path}/", "--train", "9", "--difficulty", "1"],
            "nothing but near duplicates of 2 tasks",
        ),
        (["--repository", "desk"], "'desk' has no tool repository"),
        (["--difficulty", "60-20"], "'60-20' is no difficulty"),
        (["--difficulty", "0"], "'0' is no difficulty"),
        (["--train", "0", "--held-out", "0"], "0 training tasks and 0 held-out ones"),
    ):
        assert (
            rods(["data", "draw", str(tmp_path / "t.jsonl"), "--held-out", "0", *options])
            == EXIT_USER
        ), options
        assert told in capsys.readouterr().err
    assert not (tmp_path / "t.jsonl").exists()
