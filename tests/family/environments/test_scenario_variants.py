"""Scenarios of generated worlds in the closed loop of two real processes: picked, varied, injected,
retired, and derived again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import EXPANDED, POOL
from rods.console.main import run as rods
from rods.conversations import Persona
from rods.family.environments.verbs import generate_worlds
from rods.tasks import AnyTask, OpenTask, read_tasks
from tests.daemon.runs import rejected
from tests.test_loop import pools, run_to_end

pytestmark = pytest.mark.slow

Loop = tuple[Path, Path]  # the folder with the worlds, a finished run in it


def finished(folder: Path, name: str, kills: int = 0) -> Path:
    """A lockstep run of the simulated policy, and its daemon, to the end."""
    changes: dict[str, Any] = {
        "data.tasks": str(folder / "tasks.jsonl"),
        "data.train": 10,
        "data.held_out": 4,
        "policy.skill": 0.4,
        "policy.growth": 0.06,
        "training.batch_tasks": 5,
        "selection.groups": [["base"]],
        "curriculum.stages": [{"epochs": 6}],
        "pool.drift_groups": 1,
        "operation.sandbox": {"workers": 1, "seconds": 10.0},
    }
    return run_to_end(folder / name, kills=kills, sync="lockstep", **changes)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    folder = tmp_path_factory.mktemp("scenarios")
    assert (
        generate_worlds(folder, worlds=2, scenarios=12, held_out=1, mode="both", random_seed=5) == 0
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # the worlds are looked for from there
        yield folder, finished(folder, "first")


def test_variants_are_injected_and_retired_and_stay_in_their_world(loop: Loop) -> None:
    folder, run = loop
    given = {task.id: task for task in read_tasks(folder / "tasks.jsonl")}
    kinds = Counter(record["kind"] for record in read(run / POOL))
    assert kinds["injected"] >= 4 and kinds["retired"] >= 1
    variants = [AnyTask.from_json(record["task"]) for record in read(run / EXPANDED)]
    assert len(variants) >= 5
    for variant in variants:
        root = given[variant.provenance["root"]]
        assert isinstance(variant, OpenTask) and isinstance(root, OpenTask)
        assert variant.environment == root.environment and variant.split == root.split == "train"
        assert len(variant.goal_calls) == len(root.goal_calls) and variant.state != root.state
        assert variant.provenance["model"] == "procedural" and variant.provenance[
            "prompts"
        ].keys() == {"topics"}
        assert len(variant.provenance["results"][0]) == len(variant.provenance["witness"])
    assert {
        isinstance(variant.user, Persona) for variant in variants if isinstance(variant, OpenTask)
    } == {True, False}
    assert all(record["stage"] in ("plan", "judge", "admission") for record in rejected(run))


@pytest.mark.needs("page")
def test_every_decision_and_every_witness_is_derived_again(
    loop: Loop, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run = loop
    report = verify(run, replay=True)
    assert report.ok, report.problems
    assert report.counts["variants replayed"] >= 4
    variant = AnyTask.from_json(next(iter(read(run / EXPANDED)))["task"])
    assert rods(["inspect", str(run), variant.id]) == 0
    assert f"→ {variant.id}" in capsys.readouterr().out


@pytest.mark.sweep  # tests/daemon/test_kills.py: variants of tasks
def test_kills_change_no_pool(loop: Loop) -> None:
    folder, run = loop
    assert pools(finished(folder, "again", kills=1)) == pools(run)
