"""Environments join a run by a record, and what a merge decided before and after it can be derived
again."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.run.creation import admit
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import SNAPSHOTS
from rods.buffers.state import read_state
from rods.buffers.trainer_log import TrainerLog
from rods.console.main import run as rods
from rods.environments.base import Environment, reference
from rods.environments.loading import Environments
from rods.errors import RefusedError
from rods.tasks import EnvironmentRef, Task
from tests.buffers.world import Players, SyncDaemonLog, make_run, variants
from tests.worlds.small_tasks import small_worlds

TOY = "tests.rods.toy_environment:environment"


def elsewhere(number: int) -> Task:
    """A variant in an environment that no given task is in."""
    named = reference(Environments().load(TOY))
    named = EnvironmentRef(TOY, named.hash)
    return dataclasses.replace(variants()[number], environment=named, id="")


def decided(run: Run) -> list[tuple[int, str, str]]:
    """(epoch, kind, rule) of every live decision about a variant."""
    found = read_state(run).decisions()
    return [(one["epoch"], one["kind"], one.get("rule", "")) for one in found if "expanded" in one]


def test_a_variant_is_refused_before_the_admission_and_taken_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Environments, "load", _under_its_path(Environments.load))
    run = make_run(tmp_path / "run")
    with SyncDaemonLog(run) as daemon:
        with TrainerLog(run) as trainer:
            trainer.start()
            players = Players(run, trainer, daemon)
            players._fresh = iter([elsewhere(0), elsewhere(1), elsewhere(2)])
            players.epoch(0, steps=1)
            players.epoch(1, steps=1)
            assert decided(run) == [(1, "refused", "unknown_environment")]
            made = admit(run, TOY, by="a test", why="it is needed")
            assert made["parameters"] == {"kind": "python"}
            with pytest.raises(RefusedError, match="known already"):
                admit(run, TOY, by="a test")
            players.epoch(2, steps=1)
            trainer.merge(3, 1)
        before = decided(run)
        assert before[0] == (1, "refused", "unknown_environment")
        assert [kind for _, kind, _ in before] == ["refused", "injected", "injected"]
        assert [one.get("admissions") for one in merged(run)] == [None, None, 1, 1]
        found = verify(run.path)
        assert found.ok, found.problems
        # goes back behind the admission: epoch 1 decides as it did
        with TrainerLog(run) as trainer:
            trainer.start(0)
            Players(run, trainer, daemon).epoch(0, steps=1)
            trainer.merge(1, 1)
        assert decided(run) == before[:1] and "admissions" not in merged(run)[-1]
    shutil.copytree(run.path, tmp_path / "lost")
    (tmp_path / "lost" / "admitted.jsonl").unlink()
    assert verify(run.path).ok and verify(tmp_path / "lost").ok  # the live merges have not read it


def test_an_epoch_dropped_before_an_admission_is_merged_again_without_it_also_behind_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Environments, "load", _under_its_path(Environments.load))
    # every merge in a part of its own
    run = make_run(tmp_path / "run", operation={"log_part_bytes": 1})
    with SyncDaemonLog(run) as daemon:
        with TrainerLog(run) as trainer:
            trainer.start()
            players = Players(run, trainer, daemon)
            for epoch in range(4):
                players.epoch(epoch, steps=1)
        admit(run, TOY, by="a test")
        with TrainerLog(run) as trainer:  # goes back behind epochs 2 and 3
            trainer.start(1)
            Players(run, trainer, daemon).epoch(2, steps=1)
        *_, snapshot = sorted((run.path / SNAPSHOTS).glob("pool.*.json"))
        state = orjson.loads(snapshot.read_bytes().splitlines()[1])
        assert len(state["pool"]["epochs"]) == 2 and [epoch for epoch, _ in state["fixed"]] == [
            0,
            1,
            2,
            3,
        ]
        with TrainerLog(run) as trainer:  # begins behind that snapshot
            trainer.start()
            Players(run, trainer, daemon).epoch(3, steps=1)
            trainer.merge(4, 1)
    assert [one.get("admissions") for one in merged(run)] == [None, None, None, None, 1]
    found = verify(run.path)
    assert found.ok, found.problems


def merged(run: Run) -> list[dict[str, object]]:
    return [one for one in read_state(run).decisions() if one["kind"] == "epoch"]


def _under_its_path(
    load: Callable[[Environments, str], Environment],
) -> Callable[[Environments, str], Environment]:
    """The toy calls itself otherwise than its path; here a task has to find it by its name."""

    def loaded(self: Environments, name: str) -> Environment:
        environment = load(self, name)
        if name == TOY:
            environment.name = TOY
        return environment

    return loaded


@pytest.mark.needs("sandbox")
def test_a_generated_world_is_in_the_run_before_its_admission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [name] = small_worlds(tmp_path, 1)
    make_run(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert rods(["env", "admit", "run", name, "--why", "more room", "--json"]) == 0
    told = orjson.loads(capsys.readouterr().out)
    assert (
        told["name"] == name
        and told["parameters"]["kind"] == "generated"
        and told["why"] == "more room"
    )
    run = Run.open(tmp_path / "run")
    assert run.named() == run.manifest["environments"] | {name: told["hash"]}
    assert rods(["status", "run", "--json"]) == 0
    *given, later = orjson.loads(capsys.readouterr().out)["environments"]
    assert given == [
        {"name": each, "hash": version, "parameters": {"kind": "python"}}
        for each, version in run.manifest["environments"].items()
    ]
    assert later == {key: told[key] for key in ("name", "hash", "parameters", "by", "why", "time")}
    assert rods(["status", "run"]) == 0
    assert f"{name} (generated); 1 of them admitted since the start" in capsys.readouterr().out
    task = run.tasks[0]
    assert rods(["inspect", "run", task.id, "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["environment"] == {
        **{"name": task.environment.name, "hash": task.environment.hash},
        "parameters": {"kind": "python"},
    }
    assert rods(["inspect", "run", task.id]) == 0
    assert f"world     kind python; hash {task.environment.hash}\n" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "environments")
    with run.environments:
        run.check_environments()
        assert run.environments.load(name).hash == told["hash"]
    assert verify(run.path).ok
    next((tmp_path / "run").glob("environments/*/world.py")).unlink()
    assert [each["what"] for each in verify(run.path).problems] == ["is missing"]
