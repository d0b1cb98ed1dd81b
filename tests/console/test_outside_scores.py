"""Held-out scores of a policy that another program trains: played by options of `rods eval run`, or
reported to `rods trainer observe`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.run.run import Run
from rods.console import api
from rods.console.foreign_trainer import merge, observe
from rods.console.main import run as rods
from rods.dialects import load
from rods.errors import EXIT_OK, EXIT_REQUEUE, EXIT_USER, UserError
from rods.evaluation.heldout import score_run, scored
from rods.tasks import Task
from tests.console.conftest import CONFIG
from tests.json_server import json_server

HERMES = load("hermes")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of an external policy, one step on record."""
    config = tmp_path / "run.toml"
    text = CONFIG.replace('sync = "lockstep"', "")
    config.write_text(text.replace('kind = "simulated"', 'kind = "external"\nmodel = "lab/own"'))
    assert rods(["trainer", "new", str(tmp_path / "run"), "--config", str(config)]) == EXIT_OK
    opened = Run.open(tmp_path / "run")
    slot = merge(opened.path, epoch=0).tasks[0][1]
    rollouts = [{"resolved": 0, "expected": slot.expected}] * 4
    assert [*observe(opened.path, [{"task": slot.id, "rollouts": rollouts}, {"end_step": 1}])]
    return opened


def reported(run: Run, resolved: int) -> list[dict[str, Any]]:
    return [
        {
            "task": task.id,
            "rollouts": [{"resolved": min(resolved, task.expected), "expected": task.expected}],
        }
        for task in run.held_out
    ]


def test_a_trainer_reports_its_own_scores(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    answers = list(
        observe(run.path, [*reported(run, 0), {"held_out": 0}, *reported(run, 9), {"held_out": 1}])
    )
    assert [(answer["step"], answer["held_out"]) for answer in answers] == [(0, 0.0), (1, 1.0)]
    found = scored(run.path)
    assert found is not None and found["difference"]["progress"]["mean"] == 1.0
    assert found["end"]["progress"]["tasks"] == len(run.held_out)
    assert api.score(run.path) == found, "nothing is played for it"
    list(observe(run.path, [*reported(run, 1), {"held_out": 0}]))
    again = scored(run.path)
    assert again is not None and 0 < again["start"]["progress"]["mean"] < 1, "the last report"
    list(observe(run.path, [*reported(run, 0), {"held_out": 0}]))
    assert score_run(run.path, "end")["step"] == 1
    capsys.readouterr()
    assert rods(["trainer", "score", str(run.path), "--step", "0"]) == EXIT_OK
    assert "step 0: progress 0.000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("step", "split", "said"),
    [
        (2, "held out", "held_out is 2; the last step is 1"),
        (True, "held out", "held_out is True"),
        ("1", "held out", "held_out is '1'"),
        (1, "training", "not held-out tasks: [0-9a-f]"),
        (1, "none", "not held-out tasks: none was played"),
    ],
)
def test_scores_that_cannot_be_are_refused(run: Run, step: Any, split: str, said: str) -> None:
    groups = {"held out": reported(run, 1), "none": []}
    task = next(iter(run.training.values()))
    one = {"task": task.id, "rollouts": [{"resolved": 0, "expected": task.expected}]}
    with pytest.raises(UserError, match=said):
        list(observe(run.path, [*groups.get(split, [one]), {"held_out": step}]))
    assert scored(run.path) is None and not list(run.path.glob("eval/heldout*"))


@pytest.mark.needs("benchmarks")
def test_a_served_policy_is_scored_as_a_step(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """By its ground truth in each turn, or by nothing; a server that fails scores nobody."""
    solves = False
    fails = False
    tasks = [task for task in run.held_out if isinstance(task, Task)]

    def reply(path: str, body: Any) -> tuple[int, Any]:
        said = [one["content"] for one in body["messages"]]
        text = "Done."
        for task in tasks:
            if solves and said[-1] in task.script and said[1] == task.script[0]:
                text = HERMES.write(task.calls[task.script.index(said[-1])]) or text
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return 500 if fails else 200, {"choices": [choice], "model": body["model"]}

    with json_server(reply) as address:
        options = ["--url", f"{address}/v1", "--model", "own", "--patience", "1"]
        assert rods(["trainer", "score", str(run.path), "--", *options]) == EXIT_USER
        assert "--protocol names another" in capsys.readouterr().err
        options += ["--protocol", "hermes"]
        fails = True
        command = ["trainer", "score", str(run.path), "--step", "1", "--", *options]
        assert rods(command) == EXIT_REQUEUE
        assert not list(run.path.glob("eval/heldout*"))
        fails = False
        assert rods(["trainer", "score", str(run.path), "--step", "0", "--", *options]) == EXIT_OK
        capsys.readouterr()
        assert rods(["trainer", "score", str(run.path)]) == EXIT_OK
        assert (said := capsys.readouterr().out).startswith("step 0: ")
        assert "difference" not in said, "one step is compared with none"
        solves = True
        assert rods(command) == EXIT_OK
    found = scored(run.path)
    assert found is not None and found["start"]["progress"]["mean"] < 1
    assert found["end"]["progress"]["mean"] > 0.9 and not found["cards_differ"]
    capsys.readouterr()
    assert rods(["trainer", "score", str(run.path)]) == EXIT_OK
    assert "at step 0, " in capsys.readouterr().out
    assert rods(["trainer", "score", str(run.path), "--step", "7", "--", *options]) == EXIT_USER
    assert "step 7 has not been trained → name one from 0 to 1" in capsys.readouterr().err


@pytest.mark.needs("benchmarks")
def test_whoever_stops_a_score_sees_no_traceback(run: Run) -> None:
    asked = threading.Event()

    def reply(path: str, body: Any) -> tuple[int, Any]:
        asked.set()
        return 500, {}

    with json_server(reply) as address:
        options = ["--url", f"{address}/v1", "--model", "own", "--protocol", "hermes"]
        code = "import sys; from rods.console.main import run; sys.exit(run(sys.argv[1:]))"
        command = [sys.executable, "-c", code, "trainer", "score", str(run.path), "--", *options]
        playing = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert asked.wait(300)
        playing.send_signal(signal.SIGINT)
        _, said = playing.communicate()
        assert playing.returncode not in (EXIT_OK, 1)
        assert "Traceback" not in said and "never retrieved" not in said
        # other options are refused, and the remedy is one that can be followed
        options[3] = "other"
        assert rods([*command[3:6], "--", *options]) != EXIT_OK
        (folder,) = (path for path in run.path.glob("eval/played*") if path.is_dir())
        assert f"{folder} is not played to its end, as said above → " in said
        assert "remove the folder" in said


@pytest.mark.parametrize(
    "wrong",
    [
        {"resolved": "1", "expected": "2"},
        {"binary": "x"},
        {"step": "0"},
        {"version": None},
        {"type": 3},
        {"end": None},
        {"official": "x"},
        {"card": 3},
    ],
)
def test_a_score_that_somebody_edited_is_named(
    wrong: dict[str, Any], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    list(observe(run.path, [*reported(run, 0), {"held_out": 0}]))
    (file,) = run.path.glob("eval/heldout*")
    lines = file.read_text().splitlines()
    line = -1 if "card" in wrong else 0
    lines[line] = json.dumps({**json.loads(lines[line]), **wrong})
    file.write_text("\n".join(lines))
    assert rods(["trainer", "score", str(run.path)]) == EXIT_USER
    assert "holds a line that is no rollout" in capsys.readouterr().err
    # and moved aside, as it says, it stands in nobody's way
    file.rename(file.with_suffix(".bad.jsonl"))
    assert scored(run.path) is None


def test_without_a_policy_an_external_run_says_how(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert rods(["trainer", "score", str(run.path)]) == EXIT_USER
    said = capsys.readouterr().err
    assert "-- --weights FOLDER" in said and "-- --url ADDRESS --model NAME" in said
    assert json.loads((run.path / "manifest.json").read_text())


@pytest.mark.slow
@pytest.mark.needs("benchmarks")
def test_a_folder_of_weights_is_scored(run: Run) -> None:
    from rods.trainer.nano import model
    from rods.worlds import desk

    folder = run.path.with_name("weights")
    words = model.build_tokenizer(
        " ".join((*task.script, *task.tools)) for task in desk.generate(5, 60, 0)
    )
    model.fresh(words, 0).save_pretrained(folder)
    words.save_pretrained(folder)
    found = api.score(run.path, 1, ["--weights", str(folder), "--max-tokens", "8"])
    assert (found["step"], found["progress"]["tasks"]) == (1, len(run.held_out))
    assert found["card"]["history"] == "tokens"
    assert api.score(run.path, 1) == found
