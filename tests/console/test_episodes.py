"""`rods inspect RUN TASK --episodes`, on the recorded run whose policy really played."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.console.dash.views import episodes
from rods.console.follower import Follower
from rods.console.main import run as rods
from rods.console.verbs.dash import unpacked
from rods.observations import Group
from tests.console.test_verbs import said, said_json

EARNED = ("reward", "labels", "advantage", "advantage_by")  # what the page says beside a trace


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return unpacked(tmp_path)


def latest(run: Path) -> Path:
    return max((run / "traces").glob("step_*.jsonl.gz"))


def written(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file) as lines:
        return [orjson.loads(line) for line in lines]


def test_episodes_are_those_of_the_page_with_what_is_on_record(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held: Counter[str] = Counter()
    for file in (run / "traces").glob("step_*.jsonl.gz"):
        held.update({one["task"] for one in written(file)})
    task = next(one["task"] for one in written(latest(run)) if held[one["task"]] > 1)
    found = said_json(capsys, "inspect", run, task[:12], "--episodes")
    told = episodes(Follower(run), {"task": task})
    assert (found["task"], found["step"], found["steps"]) == (task, told["step"], told["steps"])
    own = [
        {key: value for key, value in one.items() if key != "rollout_record"}
        for one in found["episodes"]
    ]
    assert own == [one for one in written(latest(run)) if one["task"] == task]
    shown = [
        {key: value for key, value in one.items() if key not in EARNED} for one in told["episodes"]
    ]
    assert shown == own
    records = [
        record
        for record in _groups(run)
        if record["task"] == task and record["step"] == found["step"]
    ]
    assert [one["rollout_record"] for one in found["episodes"]] == records[0]["rollouts"]
    assert [one["reward"] for one in told["episodes"]] == [
        one["reward"] for one in records[0]["rollouts"]
    ]
    text = said(capsys, "inspect", run, task, "--episodes")
    one = found["episodes"][0]
    group = Group.from_json(records[0])
    assert f"rollout 0  {one['resolved']} of {one['expected']} turns" in text
    labels = [label.replace("_", " ") for label in group.rollouts[0].labels]
    turns = [line for line in text.split("rollout 1")[0].splitlines() if line.startswith("  turn ")]
    assert labels and [line.rpartition(", ")[2] for line in turns] == labels
    spent = sum(end - start for start, end in one["spans"])
    assert spent and f"ended {one['end']}, {spent} tokens" in text
    earlier = said_json(capsys, "inspect", run, task, "--episodes", "--step", found["steps"][0])
    assert earlier["step"] == found["steps"][0] < found["step"]


def _groups(run: Path) -> list[dict[str, Any]]:
    lines = [
        line
        for part in sorted(run.glob("observations*.jsonl"))
        for line in part.read_bytes().splitlines()
    ]
    return [record for line in lines if (record := orjson.loads(line))["kind"] == "group"]


def test_hostile_text_stays_text_and_a_megabyte_is_folded(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = written(latest(run))
    step = traces[0]["turns"][0]["steps"][0]
    step["text"] = "\x1b[2J\u202egnp.exe\nrollout 9  made up\r" + "x" * 1_000_000
    step["calls"] = [{"name": "f", "arguments": {"\x1b]0;a": "\u2066"}}]
    step["results"] = [{"text": "\x9b31m", "error": "e"}]
    latest(run).write_bytes(gzip.compress(b"".join(orjson.dumps(one) + b"\n" for one in traces)))
    text = said(capsys, "inspect", run, traces[0]["task"], "--episodes")
    assert len(text) < 200_000 and "more characters (--json shows them)" in text
    assert not set(text) & set("\x1b\x9b\u202e\u2066\r")
    assert "\nrollout 9" not in text, "what a policy writes does not look like what we say"
    shown = said_json(capsys, "inspect", run, traces[0]["task"], "--episodes")["episodes"][0]
    assert shown["turns"][0]["steps"][0]["text"] == step["text"]


def test_of_a_file_that_was_cut_the_rest_is_shown(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = written(latest(run))[0]["task"]
    data = latest(run).read_bytes()
    whole = len(said_json(capsys, "inspect", run, task, "--episodes")["episodes"])
    latest(run).write_bytes(data[:400])
    assert len(said_json(capsys, "inspect", run, task, "--episodes")["episodes"]) < whole
    latest(run).write_bytes(b"no gzip")
    assert "cannot be read" in said(capsys, "inspect", run, task, "--episodes")


def test_what_there_is_none_of_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = written(latest(run))[0]["task"]
    for arguments, says in (
        ([task, "--episodes", "--step", "99999"], "there are some of steps"),
        (["--episodes"], "episodes are those of one task"),
        ([task, "--step", "3"], "episodes are those of one task"),
        (["variants", "--episodes"], "episodes are those of one task"),
    ):
        assert rods(["inspect", str(run), *arguments]) == 2
        assert says in capsys.readouterr().err
    for file in (run / "traces").iterdir():
        file.unlink()
    assert rods(["inspect", str(run), task, "--episodes"]) == 2
    assert "operation.trace_every" in capsys.readouterr().err
