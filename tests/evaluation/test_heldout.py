"""Held-out scores of a finished run of the simulated policy."""

from pathlib import Path

import orjson
import pytest

from buffers.reading import read
from evaluation.heldout import compare, per_task, score_run, scored, summary
from evaluation.scoring import estimate, share
from rods.errors import UserError
from tests.trainer.runs import train, write_config

CHANGES = {
    "data.held_out": 40,
    "training.steps": 60,
    "training.heldout_rollouts": 4,
    "policy.growth": 0.02,
    "policy.skill": 0.2,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored")
    assert train(folder / "run", write_config(folder / "c.toml", CHANGES)).returncode == 0
    return folder / "run"


def test_start_and_end_are_paired_over_tasks_and_rollout_seeds(run: Path) -> None:
    assert scored(run) is None
    found = compare(run)
    assert (found["start"]["step"], found["end"]["step"]) == (0, 60)
    gain, start, end = found["difference"]["progress"], found["start"]["progress"], found["end"]["progress"]
    assert gain["tasks"] == 40 and found["left_out"] == 0
    assert gain["mean"] == pytest.approx(end["mean"] - start["mean"])
    assert gain["interval"][0] > 0
    assert gain["standard_error"] < (start["standard_error"] ** 2 + end["standard_error"] ** 2) ** 0.5
    assert scored(run) == found


def test_a_score_is_one_line_a_rollout_and_made_once(run: Path) -> None:
    summary = score_run(run, "start")
    file = Path(summary["file"])
    written = file.stat().st_mtime_ns
    lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert len(lines) == 40 * 4
    assert {line["split"] for line in lines} <= {"validation", "test"}
    assert all(0 <= line["resolved"] <= line["expected"] and line["step"] == 0 for line in lines)
    assert score_run(run, 0) == summary
    assert file.stat().st_mtime_ns == written


def test_verdicts_have_wilson_s_interval_and_progress_student_s(run: Path, tmp_path: Path) -> None:
    lines = [orjson.loads(line) for line in Path(score_run(run, "start")["file"]).read_bytes().splitlines()]
    file = tmp_path / "scores.jsonl"
    file.write_bytes(b"".join(orjson.dumps({**line, "binary": 0, "official": 0}) + b"\n" for line in lines))
    means, found = per_task(file), summary(file)
    for measure in ("binary", "official"):
        assert found[measure] == share(list(means[measure].values())).as_json()
        assert found[measure]["interval"][1] > 0.05  # none of 40 tasks leaves room for some
    assert found["progress"] == estimate(list(means["progress"].values())).as_json()


def test_held_out_tasks_never_enter_the_observations(run: Path) -> None:
    compare(run)
    held_out = {
        record["id"] for record in map(orjson.loads, (run / "tasks.jsonl").open("rb")) if record["split"] != "train"
    }
    seen = {record["task"] for record in read(run / "observations.jsonl") if record["kind"] == "group"}
    assert held_out and not held_out & seen


def test_scoring_draws_the_same_again_after_its_file_is_gone(run: Path) -> None:
    file = Path(score_run(run, "end")["file"])
    before = file.read_bytes()
    file.unlink()
    score_run(run, "end")
    assert file.read_bytes() == before


def test_a_step_without_a_checkpoint_is_a_message(run: Path) -> None:
    with pytest.raises(UserError, match=r"no checkpoint for 7 \(there are: 0, 40, 50, 60\)"):
        score_run(run, 7)


def test_a_run_without_held_out_tasks_is_a_message(tmp_path: Path, run: Path) -> None:
    lines = [line for line in (run / "tasks.jsonl").read_bytes().splitlines() if orjson.loads(line)["split"] == "train"]
    (tmp_path / "t.jsonl").write_bytes(b"\n".join(lines))
    changes = {"data.tasks": "t.jsonl", "data.train": 0, "data.held_out": 0, "training.steps": 1}
    assert train(tmp_path / "run", write_config(tmp_path / "c.toml", changes)).returncode == 0
    with pytest.raises(UserError, match="no held-out tasks"):
        score_run(tmp_path / "run", "end")
