"""What became of each turn, as status, inspect and verify show it, of a policy that was
really played."""

from __future__ import annotations

import gzip
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

import rods
from rods.buffers.log.record_bytes import Record
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.dialects import Message
from rods.episode.engine import Trace
from rods.trainer.reporters import gauges
from rods.turn_statistics import dynamics, label_counts
from tests.console.conftest import rods as rods_verb
from tests.console.dash.test_views import ask
from tests.console.test_verbs import said, said_json

CONFIG = """
[data]
tasks = "desk"
train = 8
held_out = 4
[policy]
kind = "simulated"
dialect = "hermes"
[rollouts]
rollouts_per_task = 3
[training]
batch_tasks = 4
steps = 3
[selection]
seeds_per_step = 0
"""
REPLIES = (
    "No.",
    "<tool_call>[",
    '<tool_call>\n{"name": "get_money", "arguments": {}}\n</tool_call>',
    "No.",
    "No.",
)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A run of a policy that declines, writes nonsense or calls a tool that is not there; with
    traces."""
    run, gauges = _played(tmp_path, CONFIG)
    assert gauges["label/empty_turn_model_response"] > 0
    shares = [value for name, value in gauges.items() if name.startswith("label/")]
    assert sum(shares) == pytest.approx(1.0)
    return run


def _played(folder: Path, config: str) -> tuple[Path, dict[str, float]]:
    (folder / "run.toml").write_text(config)
    replies = itertools.cycle(REPLIES)

    def policy(messages: Sequence[Message]) -> str:
        return next(replies)

    with rods.open_training(folder / "run", policy, config=folder / "run.toml") as training:
        for batch in training:
            played = training.play(batch)
            training.record(batch, played)
            _keep(folder / "run", batch.step, played)
        return folder / "run", gauges(training.run.trainer_log)


def _keep(folder: Path, step: int, played: Sequence[Sequence[Trace]]) -> None:
    """What a trainer that keeps traces writes beside the step."""
    lines = [
        orjson.dumps({"slot": slot, "rollout": place, "spans": [], **trace.as_json()})
        for slot, traces in enumerate(played)
        for place, trace in enumerate(traces)
    ]
    file = Run.open(folder).trace_file(step, 1)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines)))


def groups(folder: Path) -> list[Record]:
    return [record for step in RunState(rods.open_run(folder)).steps() for record in step.records]


def test_shares_stand_in_status_and_inspect(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = groups(labelled)
    counts = dict(label_counts(recorded))
    assert {"empty_turn_model_response", "invalid_tool_call"} <= counts.keys()
    assert said_json(capsys, "status", labelled)["labels"] == counts
    assert f"; of {sum(counts.values())} over the last ten steps" in said(
        capsys, "status", labelled
    )
    went = dynamics(recorded)
    assert (
        went.turns == sum(one["expected"] for group in recorded for one in group["rollouts"])
        and went.calling > 0
    )
    status = said_json(capsys, "status", labelled)
    assert (status["calling"], status["replies"]) == (
        went.calling / went.turns,
        went.replies / went.turns,
    )
    assert f"  replies  {went.words()}; over the last ten steps" in said(capsys, "status", labelled)
    assert status["entropy"] is None and status["interface"] is None, "nobody has said"
    task = recorded[0]["task"]
    found = said_json(capsys, "inspect", labelled, task)["labels"]
    told: Counter[str] = Counter()
    for group in found:
        for turn in group["turns"]:
            told.update(turn)
    assert told == label_counts([group for group in recorded if group["task"] == task])
    text = said(capsys, "inspect", labelled, task)
    assert "rollouts in its last groups" in text
    went = dynamics([group for group in recorded if group["task"] == task])
    assert f"{went.words()} in its last groups" in text


def test_steps_that_a_start_drops_count_nowhere(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = dict(label_counts(groups(labelled)[:4]))
    done = rods_verb("trainer", "observe", labelled, "--from-step", "1")
    assert done.returncode == 0, done.stderr
    assert said_json(capsys, "status", labelled)["labels"] == first
    assert ask(labelled, "steps")["labels"]["step"] == [1]


def test_a_replay_derives_the_labels_again(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said_json(capsys, "verify", labelled, "--replay")
    assert found["ok"] and found["counts"]["rollouts diagnosed again"] == 3 * 4 * 3
    file = Run.open(labelled).trace_file(2, 1)
    kept = [orjson.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    verdict = next(
        turn
        for one in kept
        for turn in one["turns"]
        if turn["verdict"] and not turn["verdict"]["response"]
    )
    verdict["verdict"] = {"state": True, "response": True}
    file.write_bytes(gzip.compress(b"\n".join(map(orjson.dumps, kept))))
    earned, labels = said_json(capsys, "verify", labelled, "--replay", code=1)["problems"]
    assert earned["where"] == labels["where"]
    assert labels["where"].startswith("step 2 of attempt 1, group ")
    assert "it resolved" in earned["what"] and "its trace gives" in labels["what"]
    file.write_bytes(file.read_bytes()[:-20])  # cut short: it was never synced
    found = said_json(capsys, "verify", labelled, "--replay")
    assert found["ok"] and any(file.name in note for note in found["notes"])


def test_a_run_without_labels_shows_none(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_json(capsys, "status", finished_run)["labels"] == {}
    assert "turns " not in said(capsys, "status", finished_run)
    assert ask(finished_run, "steps")["labels"]["step"] == []


def test_episodes_are_found_whether_or_not_their_groups_count_for_a_zone(tmp_path: Path) -> None:
    """Those of a format reward count for none: no dot, but traces that say what they earned."""
    run, _ = _played(
        tmp_path, CONFIG + '[[curriculum.stages]]\nreward = "format"\nexpand = false\n'
    )
    recorded = groups(run)
    assert {one["reward"]["kind"] for one in recorded} == {"format"}
    one = recorded[-1]
    found = ask(run, "episodes", task=one["task"])
    assert found["steps"] == sorted(
        each["step"] for each in recorded if each["task"] == one["task"]
    )
    assert found["step"] == one["step"]
    for trace, rollout in zip(found["episodes"], one["rollouts"], strict=True):
        assert (trace["reward"], trace["labels"]) == (rollout["reward"], rollout["labels"])
    assert ask(run, "boundary")["dots"] == []
    assert ask(run, "episodes", task="nobody") == {"step": 0, "steps": [], "episodes": []}
