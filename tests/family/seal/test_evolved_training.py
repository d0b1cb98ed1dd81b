"""A run whose interface evolves: the labels on record say what was shown, whoever derives it,
whatever was killed."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.folds.observations import digest
from rods.buffers.log.record_bytes import Record
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import OBSERVATIONS
from rods.buffers.state import RunState
from rods.buffers.trainer_log import TrainerLog
from rods.config import parse_config
from rods.console.main import run as verb
from rods.console.progress import InterfaceVersion, Progress
from rods.family.page.follower import Follower
from rods.family.page.views import status
from rods.trainer import simulated
from rods.trainer.policy import TrainingStopped
from rods.trainer.training_run import TrainingRun
from rods.worlds.sources import load_tasks
from tests.buffers.audit.test_verify import rewrite
from tests.trainer.kills import sweep

pytestmark = pytest.mark.slow

CURRICULUM: dict[str, Any] = {
    "stages": [{"interface": "seal-full", "evolve": "all"}],
    "evolve_steps": 4,
    "evolve_above": 0.08,
}
KILLED = {f"curriculum.{key}": value for key, value in CURRICULUM.items()}
VALUES: dict[str, Any] = {
    "data": {"tasks": "desk-small", "train": 12, "held_out": 4},
    "rollouts": {"rollouts_per_task": 4},
    "training": {"batch_tasks": 6, "steps": 24, "checkpoint_steps": 5},
    "policy": {"kind": "simulated", "growth": 0.05},
    "curriculum": CURRICULUM,
}


def play(path: Path, *limits: int, **changes: Any) -> Run:
    """The simulated policy on a run, started once for each of `limits` (steps a start) and once
    more to its end."""
    config = parse_config(VALUES | changes, where="test")
    create_run(path, config, load_tasks(config.data, path.parent))
    for limit in (*limits, 0):
        operation = config.operation.model_copy(update={"step_limit": limit})
        run = Run.open(path, config.model_copy(update={"operation": operation}))
        with TrainingRun(run) as training:
            try:
                simulated.train(training)
            except TrainingStopped:
                assert limit
    return Run.open(path)


def versions(run: Run) -> list[tuple[str, str, Any]]:
    """Of every live step: version, lineage, and what it has changed."""
    steps = RunState(run).steps()
    return [
        (one.records[0]["interface"], one.records[0]["lineage"], one.record.get("evolved"))
        for one in steps
    ]


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return play(tmp_path_factory.mktemp("evolved") / "run")


def test_versions_follow_the_labels_and_windows_their_lineage(evolved: Run) -> None:
    found = versions(evolved)
    shown = [version for version, *_ in found]
    assert len({lineage for _, lineage, _ in found}) == 1 and len(set(shown)) > 3
    assert [one != other for one, other in itertools.pairwise(shown)] == [
        change is not None for *_, change in found[:-1]
    ], "a version changes where the step before says so, and nowhere else"
    state = RunState(evolved)
    state.poll()
    assert {window.lineage for window in state.tracker.windows()} == {found[0][1]}
    assert verify(evolved.path).ok and verify(evolved.path).counts["interface versions"] == 24


def test_a_run_that_was_stopped_shows_what_one_would_that_was_not(
    evolved: Run, tmp_path: Path
) -> None:
    again = play(tmp_path / "run", 3, 1, 7)
    assert versions(again) == versions(evolved)
    small = play(tmp_path / "parts", 7, 7, operation={"log_part_bytes": 16384})
    assert versions(small) == versions(evolved)
    assert list((small.path / "snapshots").glob("observations.*.json")) and verify(small.path).ok


def _group(**changes: Any) -> Callable[[Record], Record | None]:
    """Changes the first group of step 9, and makes the step's digest fit."""
    kept: list[dict[str, Any]] = []
    envelope = ("seq", "id", "kind", "attempt", "step", "index", "crc")

    def change(record: Record) -> Record | None:
        if record["kind"] == "group" and record["step"] == 9:
            record = record | changes if record["index"] == 0 else record
            kept.append({key: value for key, value in record.items() if key not in envelope})
        if record["kind"] == "step" and record["step"] == 9:
            return {**record, "digest": digest(record["epoch"], record["policy_step"], kept)}
        return record

    return change


def _labels(record: Record) -> Record:
    """Every failure of step 2 is called a pass."""
    if record["kind"] == "group" and record["step"] == 2:
        for rollout in record["rollouts"]:
            rollout["labels"] = ["pass"] * len(rollout["labels"])
    return record


def _reason(**changes: Any) -> Callable[[Record], Record | None]:
    done: list[int] = []

    def change(record: Record) -> Record | None:
        if record.get("evolved") and not done:
            done.append(1)
            return {**record, "evolved": {**record["evolved"], **changes}}
        return record

    return change


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            _group(interface="seal-full-2-evolving_all:scope+state_aware+note"),
            "and the labels give seal-full-2",
        ),
        (_group(interface="anything"), "says that anything"),
        (_group(lineage="another"), "(lineage another) was shown"),
        (_labels, "and the labels give"),
        (_reason(share=0.5), "and the labels give"),
        (_reason(component="bravery"), "and the labels give"),
        (
            lambda record: {key: value for key, value in record.items() if key != "evolved"},
            "says evolved null",
        ),
    ],
)
def test_an_edited_record_of_what_was_shown_is_found(
    evolved: Run, tmp_path: Path, change: Any, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(evolved.path, tmp_path / "run")
    rewrite(tmp_path / "run" / OBSERVATIONS, change)
    assert verb(["verify", str(tmp_path / "run")]) == 1
    assert found in capsys.readouterr().out


def test_a_run_says_which_versions_were_shown_when_and_why(evolved: Run) -> None:
    told = [asdict(version) for version in _shown(evolved.path)]
    shown = [version for version, *_ in versions(evolved)]
    changes = [
        place for place, version in enumerate(shown) if place == 0 or version != shown[place - 1]
    ]
    assert [(one["step"] - 1, one["version"]) for one in told] == [
        (place, shown[place]) for place in changes
    ]
    there: set[str] = set()
    for one in told:
        there = (there | set(one["added"])) - set(one["removed"])
        assert "+".join(sorted(there)) == "+".join(
            sorted(one["version"].partition(":")[2].replace("none", "").split("+"))
        )
        assert (one["why"] is None) == (one["step"] == 1)
    assert any("appears: its labels made up" in one.reason for one in _shown(evolved.path))


def test_status_and_report_say_what_is_shown_and_why(
    evolved: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [asdict(version) for version in _shown(evolved.path)]
    assert verb(["status", str(evolved.path), "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["interface"] == told[-1]
    assert verb(["status", str(evolved.path)]) == 0
    line = next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("  shown ")
    )
    assert (
        f"{told[-1]['version']} since step {told[-1]['step']}; {told[-1]['why']['component']} "
        in line
    )
    follower = Follower(evolved.path)
    follower.look()
    shown = status(follower, {})["versions"]
    assert [one["version"] for one in shown] == [one["version"] for one in told][-len(shown) :]
    assert shown[-1]["reason"] == follower.versions.entries[-1].reason


def _shown(path: Path) -> list[InterfaceVersion]:
    follower = Follower(path)
    follower.look()
    return follower.versions.entries


def test_versions_of_steps_that_a_start_drops_are_forgotten(evolved: Run, tmp_path: Path) -> None:
    shutil.copytree(evolved.path, tmp_path / "run")
    progress = Progress(tmp_path / "run")
    whole = _shown(tmp_path / "run")
    assert progress.poll().interface == whole[-1]
    back = whole[2].step
    with TrainerLog(Run.open(tmp_path / "run")) as log:
        log.start(back)
    left = _shown(tmp_path / "run")
    assert left == whole[:3] and progress.poll().interface == left[-1]


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_kills_in_lockstep_change_neither_versions_nor_pools(tmp_path: Path) -> None:
    """`python -m tests.family.seal.test_evolved_training` kills twenty times."""
    row = sweep(tmp_path, "lockstep", "simulated", 1, changes=KILLED)
    assert row.survived == row.tried == 1, "\n".join([str(row), *row.failures])
    found = [
        [version for version, *_ in versions(Run.open(tmp_path / name))]
        for name in ("whole", "killed0")
    ]
    assert found[0] == found[1] and len(set(found[0])) > 2


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        killed = sweep(Path(scratch), "lockstep", "simulated", 20, changes=KILLED)
        print(killed, *killed.failures, sep="\n")
