"""Held-out scores of a finished run of the simulated policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import orjson
import pytest

from rods.buffers.log.tail import read
from rods.config import Config
from rods.errors import InfrastructureError, UserError
from rods.evaluation import heldout
from rods.evaluation.heldout import Scored, compare, per_task, score_run, scored, summary
from rods.evaluation.scoring import share
from rods.players import Players
from rods.tasks import AnyTask
from tests.trainer.runs import train, write_config

pytestmark = pytest.mark.slow

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
    gain = found["difference"]["progress"]
    start = found["start"]["progress"]
    end = found["end"]["progress"]
    assert gain["tasks"] == 40 and found["left_out"] == 0
    assert gain["mean"] == pytest.approx(end["mean"] - start["mean"])
    assert gain["interval"][0] > 0
    assert (
        gain["standard_error"] < (start["standard_error"] ** 2 + end["standard_error"] ** 2) ** 0.5
    )
    assert scored(run) == found


def test_a_score_is_one_line_a_rollout_and_made_once(run: Path) -> None:
    summary = score_run(run, "start")
    file = Path(summary["file"])
    written = file.stat().st_mtime_ns
    *lines, card = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert len(lines) == 40 * 4 and card == {"card": summary["card"]}
    assert {line["split"] for line in lines} <= {"validation", "test"}
    assert all(0 <= line["resolved"] <= line["expected"] and line["step"] == 0 for line in lines)
    assert score_run(run, 0) == summary
    assert file.stat().st_mtime_ns == written


def test_scores_have_intervals_between_0_and_1(run: Path, tmp_path: Path) -> None:
    *lines, _ = [
        orjson.loads(line)
        for line in Path(score_run(run, "start")["file"]).read_bytes().splitlines()
    ]
    file = tmp_path / "scores.jsonl"
    file.write_bytes(
        b"".join(orjson.dumps({**line, "binary": 0, "official": 0}) + b"\n" for line in lines)
    )
    means = per_task(file)
    found = summary(file)
    for measure in ("binary", "official"):
        assert found[measure] == share(list(means[measure].values())).as_json()
        assert found[measure]["interval"][1] > 0.05  # none of 40 tasks leaves room for some
    assert found["progress"] == share(list(means["progress"].values())).as_json()


class Breaking:
    """The run's own engine, of whose rollouts the machinery breaks some: `broken` says which
    (task's place, index)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken: Callable[[int, int], bool] = lambda place, index: False
        self.asked = 0
        self.played: list[int] = []
        self._roll_out = heldout.roll_out
        monkeypatch.setattr(heldout, "roll_out", self.roll_out)

    def roll_out(
        self, config: Config, policy: Path, players: Players, tasks: Sequence[AnyTask], count: int
    ) -> Iterator[tuple[AnyTask, list[Scored]]]:
        self.asked += 1
        for task, found in self._roll_out(config, policy, players, tasks, count):
            self.played.append(tasks.index(task))
            yield (
                task,
                [
                    self._of(one, self.broken(self.played[-1], index))
                    for index, one in enumerate(found)
                ],
            )

    def _of(self, one: Scored, broken: bool) -> Scored:
        return (
            Scored(replace(one.rollout, resolved=0, reward=None, end="infrastructure"))
            if broken
            else one
        )


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """A run of which nothing is scored."""
    folder = copytree(run, tmp_path / "run")
    rmtree(folder / "eval", ignore_errors=True)
    return folder


def test_rollouts_that_the_machinery_broke_are_counted_and_in_no_mean(
    run: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Path(score_run(run, "end")["file"]).read_bytes()
    engine = Breaking(monkeypatch)
    engine.broken = lambda place, index: place < 3 or (place, index) == (5, 1)
    first = score_run(copied, "end")
    assert (first["progress"]["tasks"], first["broken"]) == (37, 3 * 4 + 1)
    engine.broken = lambda place, index: False
    assert score_run(copied, "end") == first, "a checkpoint is scored once"
    Path(first["file"]).unlink()
    whole = score_run(copied, "end")
    assert (whole["progress"]["tasks"], whole["broken"]) == (40, 0)
    assert Path(whole["file"]).read_bytes() == expected, "with the same draws"
    assert engine.asked == 2


def test_ends_that_were_scored_under_different_cards_are_told(copied: Path) -> None:
    compare(copied)
    file = Path(score_run(copied, "start")["file"])
    *lines, last = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    other = {"card": {**last["card"], "prompts": "others"}}
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in [*lines, other]))
    assert compare(copied)["cards_differ"] == ["prompts"]


def test_a_score_of_which_every_rollout_broke_is_not_kept(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Breaking(monkeypatch)
    engine.broken = lambda place, index: True
    with pytest.raises(InfrastructureError, match="nothing was scored"):
        score_run(copied, "end")
    assert not list((copied / "eval").iterdir())
    engine.broken = lambda place, index: False
    assert score_run(copied, "end")["progress"]["tasks"] == 40


def test_tasks_that_either_end_or_both_lost_are_told(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Breaking(monkeypatch)
    engine.broken = lambda place, index: place in (0, 1)
    score_run(copied, "start")
    engine.broken = lambda place, index: place in (1, 2, 3)
    score_run(copied, "end")
    found = scored(copied)
    assert found is not None
    assert (found["left_out"], found["difference"]["progress"]["tasks"]) == (4, 36)
    assert (found["start"]["broken"], found["end"]["broken"]) == (8, 12)
    assert found["cards_differ"] == ["lost"]
    assert [found[end]["card"]["lost"] for end in ("start", "end")] == [
        "5.0% broken",
        "7.5% broken",
    ]


def test_ends_that_share_no_task_are_no_comparison(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Breaking(monkeypatch)
    engine.broken = lambda place, index: place < 20
    score_run(copied, "start")
    engine.broken = lambda place, index: place >= 20
    score_run(copied, "end")
    with pytest.raises(InfrastructureError, match="no task was scored at both ends"):
        scored(copied)


def test_held_out_tasks_never_enter_the_observations(run: Path) -> None:
    compare(run)
    held_out = {
        record["id"]
        for record in map(orjson.loads, (run / "tasks.jsonl").open("rb"))
        if record["split"] != "train"
    }
    seen = {
        record["task"] for record in read(run / "observations.jsonl") if record["kind"] == "group"
    }
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
    lines = [
        line
        for line in (run / "tasks.jsonl").read_bytes().splitlines()
        if orjson.loads(line)["split"] == "train"
    ]
    (tmp_path / "t.jsonl").write_bytes(b"\n".join(lines))
    changes = {"data.tasks": "t.jsonl", "data.train": 0, "data.held_out": 0, "training.steps": 1}
    assert train(tmp_path / "run", write_config(tmp_path / "c.toml", changes)).returncode == 0
    with pytest.raises(UserError, match="no held-out tasks"):
        score_run(tmp_path / "run", "end")
