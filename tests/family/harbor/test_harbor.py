"""`rods data export --format harbor`: folders whose scripts give our verdict, in the form that
Harbor's loader takes (bench/harbor_tasks.py holds them to its package)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from bench.harbor_tasks import play, tasks_by_world
from rods.console.main import run as rods
from rods.conversations import Persona, Script
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.family.harbor import world
from rods.family.harbor.task_folders import write
from rods.tasks import AnyTask, OpenTask, Task, write_task_file
from rods.worlds import desk
from tests.environments import desk_tasks, load
from tests.parts import ROOT


def written(task: AnyTask, folder: Path) -> Path:
    write([task], folder)
    (one,) = folder.iterdir()
    return one


def of_type(kind: str) -> Task:
    return next(task for task in desk_tasks(7, 80, 0) if task.type == kind)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_solution_earns_one_and_nothing_earns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, tasks in tasks_by_world(8, tmp_path).items():
        monkeypatch.chdir(tmp_path / "library")
        write(tasks, tmp_path / "out" / name)
        for folder in (tmp_path / "out" / name).iterdir():
            solved = play(folder, tmp_path / f"solved-{folder.name}", solved=True)
            assert [step["progress"] for step in solved] == sorted(
                {step["progress"] for step in solved}
            )
            assert solved[-1] == {"reward": 1.0, "progress": 1.0}, folder
            assert play(folder, tmp_path / f"idle-{folder.name}", solved=False)[-1]["reward"] == 0.0


def test_a_turn_is_a_step_and_earns_what_training_has(tmp_path: Path) -> None:
    task = of_type("miss_func")
    folder = written(task, tmp_path / "out")
    steps = [f"turn-{number}" for number in range(1, len(task.script) + 1)]
    assert files(folder) == {
        "task.toml",
        "environment/Dockerfile",
        "environment/task.json",
        "tests/test.sh",
        "tests/task.json",
        *(f"steps/{step}/instruction.md" for step in steps),
        *(f"steps/{step}/solution/solve.sh" for step in steps),
    }
    about = tomllib.loads((folder / "task.toml").read_text())
    assert about.pop("metadata").keys() == {"rods", "split"}
    assert about == {
        "schema_version": "1.4",
        "multi_step_reward_strategy": "final",
        "task": {"name": f"rods/{task.id}", "keywords": ["desk", "miss_func"]},
        "artifacts": ["/world/calls.jsonl"],
        "verifier": {"environment_mode": "separate", "collect": [{"command": "world turn"}]},
        "environment": {
            "mcp_servers": [
                {"name": "world", "transport": "stdio", "command": "world", "args": ["mcp"]}
            ]
        },
        "steps": [{"name": step} for step in steps],
    }
    for step, text in zip(steps, task.script, strict=True):
        assert (folder / "steps" / step / "instruction.md").read_text().startswith(f"{text}\n\n")
    idle = play(folder, tmp_path / "idle", solved=False)
    quiet = sum(not calls for calls in task.calls)
    assert quiet and idle[-1] == {"reward": 0.0, "progress": quiet / len(task.calls)}


def test_a_task_of_one_turn_has_no_steps(tmp_path: Path) -> None:
    task = of_type("base")
    short = replace(task, script=task.script[:1], calls=task.calls[:1], provenance={}, id="")
    folder = written(short, tmp_path / "out")
    assert {"instruction.md", "solution/solve.sh"} <= files(folder)
    assert "steps" not in tomllib.loads((folder / "task.toml").read_text())
    assert play(folder, tmp_path / "solved", solved=True) == [{"reward": 1.0, "progress": 1.0}]
    assert play(folder, tmp_path / "idle", solved=False) == [{"reward": 0.0, "progress": 0.0}]


def test_the_environment_says_nothing_of_the_goal(tmp_path: Path) -> None:
    folder = written(of_type("miss_param"), tmp_path / "out")
    shown = json.loads((folder / "environment" / "task.json").read_text())
    assert shown.keys() == {"environment", "tools", "state"}


def test_the_scripts_run_as_harbor_runs_them(tmp_path: Path) -> None:
    folder = written(of_type("base"), tmp_path / "out")
    program = tmp_path / "bin" / "world"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rods.family.harbor.world "$@"\n')
    program.chmod(0o755)
    (tmp_path / "logs" / "verifier").mkdir(parents=True)
    own = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "LOGS": str(tmp_path / "logs"),
        world.FOLDER: str(folder / "environment"),
    }

    def run(script: Path) -> str:
        done = subprocess.run(["sh", script], env={**os.environ, **own}, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    assert run(folder / "steps" / "turn-1" / "solution" / "solve.sh").count("\n") >= 1
    subprocess.run([program, "turn"], env={**os.environ, **own}, check=True)
    run(folder / "tests" / "test.sh")
    reward = json.loads((tmp_path / "logs" / "verifier" / "reward.json").read_text())
    assert reward["reward"] == 0.0 and 0 < reward["progress"] < 1


def command(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setenv(world.FOLDER, str(folder / "environment"))
    monkeypatch.chdir(folder)
    return world.main([*words])


def test_a_tool_that_comes_later_is_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = of_type("miss_func")
    folder = written(task, tmp_path / "out")
    turn, (later, *_) = next(iter(task.later_tools.items()))
    assert command(folder, monkeypatch, "call", later, "{}") == 0
    assert capsys.readouterr().out == f"no tool named {later}\n"
    for there in (False, True):
        assert command(folder, monkeypatch, "tools") == 0
        names = {json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()}
        assert (later in names) is there
        for _ in range(turn):
            command(folder, monkeypatch, "turn")


def test_without_a_verdict_there_is_no_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(of_type("base"), tmp_path / "out")
    path = folder / "environment" / "task.json"
    path.write_text(path.read_text().replace(load("desk").hash, "0" * 20))
    reward = tmp_path / "reward.json"
    score = ("score", str(folder / "tests" / "task.json"), str(reward))
    assert command(folder, monkeypatch, *score)
    assert not reward.exists() and "there is no log" in capsys.readouterr().err
    command(folder, monkeypatch, "turn")
    assert command(folder, monkeypatch, *score)
    assert not reward.exists() and "install the version" in capsys.readouterr().err


def test_a_log_that_was_tampered_with_is_judged_by_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(of_type("base"), tmp_path / "out")
    lines = [
        "{",
        "5",
        '"turn"',
        '{"name": 3}',
        '{"name": "no_such", "arguments": {}}',
        '{"arguments": {}}',
    ]
    (folder / "environment" / "calls.jsonl").write_text("\n".join(lines) + "\n")
    reward = tmp_path / "reward.json"
    task = str(folder / "tests" / "task.json")
    assert command(folder, monkeypatch, "score", task, str(reward)) == 0
    assert json.loads(reward.read_text())["reward"] == 0.0
    assert command(folder, monkeypatch, "call", "no_such", "[") == 0


@pytest.mark.slow
@pytest.mark.needs("mcp")
def test_the_tools_are_served_by_mcp(tmp_path: Path) -> None:
    """Read by our own client, and one world with the commands."""
    task = of_type("base")
    folder = written(task, tmp_path / "out")
    place = str(folder / "environment")
    words = [sys.executable, "-m", "rods.family.harbor.world", "mcp"]
    description = str(tmp_path / "served")
    command = ["env", "add", description, "--no-calls", "--env", f"{world.FOLDER}={place}"]
    command += ["--env", f"PYTHONPATH={ROOT}"]
    assert rods([*command, "--", *words]) == 0
    with Environments() as environments:
        served = environments.load(f"{description}.json")
        assert served.tools().keys() == set(task.tools)
        call = task.calls[0][0]
        answer = served.reset(None).call(call)
    assert answer.text == load("desk").reset(task.state).call(call).text
    assert json.loads((folder / "environment" / "calls.jsonl").read_text()) == call.as_json()


def test_what_cannot_be_played_so_is_refused_with_a_word(tmp_path: Path) -> None:
    persona = desk.generate_personas(1, 4, 0)[0]
    assert isinstance(persona, OpenTask) and isinstance(persona.user, Persona)
    with pytest.raises(UserError, match="its user is played"):
        write([persona], tmp_path / "out")
    written_user = replace(persona, user=Script(("Hello.",)), limits=None, id="")
    folder = written(written_user, tmp_path / "told")
    assert play(folder, tmp_path / "idle", solved=False)[-1]["reward"] == 0.0


def test_the_verb_writes_a_file_of_tasks_and_a_run(tmp_path: Path) -> None:
    write_task_file(desk_tasks(7, 80, 0)[:3], tmp_path / "tasks.jsonl")
    command = ["data", "export", str(tmp_path / "tasks.jsonl"), str(tmp_path / "out")]
    assert rods([*command, "--format", "harbor"]) == 0
    assert len([*(tmp_path / "out").iterdir()]) == 3
