"""`rods admit harbor`: verdicts on folders, with a program in Harbor's place that writes the files
that Harbor 0.26.0 was seen to write (`python -m bench.harbor_admit` has the real one)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rods.console.main import run as rods
from rods.errors import EXIT_OK, EXIT_USER
from rods.family.admit.harbor_folders import HarborLine, faults
from rods.tasks import write_task_file
from tests.daemon.runs import until
from tests.environments import desk_tasks
from tests.parts import ROOT

HARBOR = """#!{python}
import json, os, pathlib, sys, time

words = sys.argv[1:]
place, job = (words[words.index(name) + 1] for name in ("-o", "-c"))
if "no-docker" in words:
    sys.exit("Docker daemon is not running.")
job = json.loads(pathlib.Path(job).read_text())
if "-a" in words:
    job["agents"] = [{{"name": words[words.index("-a") + 1]}}]
folder = pathlib.Path(place, words[words.index("--job-name") + 1])
folder.mkdir()
for number, task in enumerate(job["tasks"]):
    plan = json.loads(pathlib.Path(task["path"], "plan.json").read_text())
    if plan.get("crash"):
        print("╭──────╮\\n│ {{}} │\\n╰──────╯\\nFileNotFoundError: Dockerfile")
        sys.exit(1)
    if plan.get("hangs"):
        pathlib.Path(task["path"], "started").write_text(str(os.getpid()))
        time.sleep(600)
    seen = dict.fromkeys(plan, 0)
    for trial, agent in enumerate(job["agents"]):
        name = agent["name"]
        earned = plan[name][seen[name]]
        seen[name] += 1
        error = {{"exception_type": earned, "exception_message": "why"}}
        broke = isinstance(earned, str)
        rewards = earned if isinstance(earned, dict) else {{"reward": earned}}
        result = {{
            "config": {{"task": {{"path": task["path"]}}}},
            "agent_info": {{"name": name}},
            "verifier_result": None if broke or earned is None else {{"rewards": rewards}},
            "exception_info": error if broke and not plan.get("steps") else None,
            "step_results": [{{"exception_info": error if broke else None}}]
            if plan.get("steps") else None,
        }}
        own = folder / f"{{number}}__{{trial}}"
        own.mkdir()
        (own / "result.json").write_text(json.dumps(result))
(folder / "result.json").write_text("{{}}")
"""
SAYS = "Write the numbers from one to a hundred into the file {}, a line each."


def program(folder: Path) -> str:
    path = folder / "stub"
    path.write_text(HARBOR.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)


def task(folder: Path, solution: str = "", says: str = "", **plan: Any) -> Path:
    """A task's folder, and what the agents earn at it."""
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(f'[task]\nname = "theirs/{folder.name}"\n')
    (folder / "instruction.md").write_text(says or SAYS.format(folder.name * 20))
    if solution != "none":
        (folder / "solution").mkdir()
        (folder / "solution" / "solve.sh").write_text(solution or f"make {folder.name}")
    (folder / "plan.json").write_text(json.dumps({"oracle": [1, 1], "nop": [0], **plan}))
    return folder


def verdicts(folder: Path, *more: str) -> dict[str, dict[str, Any]]:
    rods(["admit", "harbor", str(folder), "--harbor", program(folder.parent), *more])
    text = (folder.parent / f"{folder.name}.verdicts.jsonl").read_text()
    return {Path(line["path"]).name: line for line in map(json.loads, text.splitlines())}


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "sound": ({}, "accepted"),
    "metrics": ({"oracle": [{"reward": 1, "style": 0.5}, {"reward": 1, "style": 0.2}]}, "accepted"),
    "nothing": ({"nop": [1.0]}, "refused, idle"),
    "a-little": ({"nop": [0.25]}, "doubtful, idle"),
    "unsolved": ({"oracle": [0.0, 0.0]}, "refused, replay"),
    "half": ({"oracle": [0.5, 0.5]}, "doubtful, replay"),
    "by-all": ({"oracle": [0.5, 0.5], "nop": [0.5]}, "refused, replay, idle"),
    "tossed": ({"oracle": [1.0, 0.0]}, "refused, unrepeatable"),
    "hopeless": ({"solution": "none"}, "doubtful, witness"),
    "generous": ({"solution": "none", "nop": [1]}, "refused, idle"),
    "unrewarded": ({"oracle": [None, 1]}, "undecided, lost"),
    "late": ({"oracle": ["AgentTimeoutError", 0]}, "undecided, lost, replay"),
    "step": ({"nop": ["VerifierTimeoutError"], "steps": True}, "undecided, lost"),
    "blank": ({"says": " \n"}, "refused, record"),
}


def test_each_fault_has_its_kind(tmp_path: Path) -> None:
    for name, (plan, _) in FAULTS.items():
        task(tmp_path / "theirs" / name, **plan)
    found = verdicts(tmp_path / "theirs")
    assert {name: line["what"] for name, line in found.items()} == {
        name: what for name, (_, what) in FAULTS.items()
    }
    assert found["tossed"]["evidence"] == ["unrepeatable: its solution earns [1.0, 0.0]"]
    assert "AgentTimeoutError: why" in found["late"]["evidence"][0]


@pytest.mark.parametrize(
    ("file", "text"), [("task.toml", "x = ["), ("task.toml", "steps = 3"), ("instruction.md", None)]
)
def test_what_cannot_be_read_is_not_played(file: str, text: str | None, tmp_path: Path) -> None:
    folder = task(tmp_path / "theirs" / "torn", crash=True)
    (folder / file).unlink()
    if text is not None:
        (folder / file).write_text(text)
    else:
        (folder / file).mkdir()
    found = verdicts(tmp_path / "theirs")
    assert found["torn"]["what"] == "refused, record"


def test_steps_have_an_instruction_each(tmp_path: Path) -> None:
    folder = task(tmp_path / "theirs" / "steps", solution="none")
    (folder / "task.toml").write_text('[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n')
    for name in ("one", "two"):
        (folder / "steps" / name / "solution").mkdir(parents=True)
        (folder / "steps" / name / "solution" / "solve.sh").write_text(name)
        (folder / "steps" / name / "instruction.md").write_text(f"do {name}")
    assert verdicts(tmp_path / "theirs")["steps"]["what"] == "accepted"


def test_a_task_at_which_harbor_stops_costs_no_other_its_verdict(tmp_path: Path) -> None:
    task(tmp_path / "theirs" / "a")
    task(tmp_path / "theirs" / "b", crash=True)
    task(tmp_path / "theirs" / "c", oracle=[0, 0])
    found = verdicts(tmp_path / "theirs")
    whats = [line["what"] for line in found.values()]
    assert whats == ["accepted", "undecided, lost", "refused, replay"]
    (evidence,) = found["b"]["evidence"]
    assert evidence.startswith("lost: Harbor stopped") and evidence.endswith(
        "FileNotFoundError: Dockerfile "
    )


def test_copies_and_what_is_held_out_are_found_by_words_and_solutions(tmp_path: Path) -> None:
    text = SAYS.format("x")
    task(tmp_path / "theirs" / "a", "same", says=text)
    task(tmp_path / "theirs" / "b", "same", says=text)
    task(tmp_path / "theirs" / "c", "another", says=text)
    task(tmp_path / "theirs" / "d", "same")  # a solution alone makes no task the same
    task(tmp_path / "theirs" / "e")
    task(tmp_path / "kept" / "other", "other", says=SAYS.format("e" * 20))
    config = tmp_path / "run.toml"
    config.write_text('[data]\ntasks = "none"\n')
    found = verdicts(tmp_path / "theirs", "--against", str(tmp_path / "kept"))
    assert [line["what"] for line in found.values()] == [
        "accepted",
        "refused, duplicates",
        "doubtful, duplicates",
        "accepted",
        "refused, contamination",
    ]
    assert "kept/other" in found["e"]["evidence"][0]
    config.write_text('[data]\ntasks = "none"\n[gates]\nduplicates = false\ncontamination = false')
    more = ["--config", str(config), "--against", str(tmp_path / "kept")]
    assert {line["what"] for line in verdicts(tmp_path / "theirs", *more).values()} == {"accepted"}


def test_findings_and_accepted_rows_are_read_by_who_is_to_read_them(tmp_path: Path) -> None:
    task(tmp_path / "theirs" / "bad", oracle=[0, 0])
    good = task(tmp_path / "theirs" / "good")
    rows = tmp_path / "good.jsonl"
    found = verdicts(tmp_path / "theirs", "--accepted", str(rows))
    (row,) = map(json.loads, rows.read_text().splitlines())
    assert row == found["good"] and row["path"] == str(good)
    ours = tmp_path / "ours.jsonl"
    write_task_file(desk_tasks(5, 2, 0), ours)
    findings = str(tmp_path / "theirs.verdicts.jsonl")
    assert rods(["data", "check", str(ours), "--findings", findings]) == EXIT_OK


@pytest.mark.needs("schedule")
def test_a_schedule_takes_the_rows_that_are_accepted(tmp_path: Path) -> None:
    from rods.family.schedule.rows import tasks_of

    good = task(tmp_path / "theirs" / "good")
    task(tmp_path / "theirs" / "bad", oracle=[0, 0])
    verdicts(tmp_path / "theirs", "--accepted", str(tmp_path / "good.jsonl"))
    (row,) = tasks_of(tmp_path / "good.jsonl")
    assert row.row["path"] == str(good)


def test_strict_refuses_what_is_doubtful(tmp_path: Path) -> None:
    task(tmp_path / "theirs" / "half", oracle=[0.5, 0.5])
    assert verdicts(tmp_path / "theirs", "--strict")["half"]["what"] == "refused, replay"


def test_what_cannot_be_begun_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = task(tmp_path / "theirs" / "a")
    asked = ["admit", "harbor", str(own), "--harbor"]
    assert rods([*asked, "no-such-program"]) == EXIT_USER
    assert "uv tool install harbor" in capsys.readouterr().err
    assert rods([*asked, program(tmp_path), "--", "no-docker"]) == EXIT_USER
    assert "Docker daemon is not running." in capsys.readouterr().err
    assert rods(["admit", "harbor", str(tmp_path / "stub"), "--harbor", "true"]) == EXIT_USER
    assert "holds no task.toml" in capsys.readouterr().err
    assert rods(["admit", "desk", str(tmp_path / "stub"), "another"]) == EXIT_USER
    assert "not the only file" in capsys.readouterr().err
    assert rods([*asked, program(tmp_path)]) == EXIT_OK  # one task's own folder


def test_a_signal_ends_harbor_too(tmp_path: Path) -> None:
    folder = task(tmp_path / "theirs" / "a", hangs=True)
    words = ["-m", "rods.console", "admit", "harbor", str(folder), "--harbor", program(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen([sys.executable, *words], env=environment)
    until(lambda: (folder / "started").exists() and (folder / "started").read_text())
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "started").read_text()), 0)


def test_options_that_have_others_play_accept_nothing(tmp_path: Path) -> None:
    task(tmp_path / "theirs" / "a", mini=[1, 1])
    found = verdicts(tmp_path / "theirs", "--", "-a", "mini")
    assert found["a"]["what"] == "undecided, lost"


def test_a_task_that_was_never_rewarded_is_not_accepted() -> None:
    result = {
        "agent_info": {"name": "nop"},
        "verifier_result": None,
        "exception_info": None,
        "step_results": None,
    }
    line = HarborLine(1, results=[result])
    assert [kind for kind, _ in faults(line)] == ["lost", "witness"]
