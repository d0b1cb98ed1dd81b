"""Tasks that were drawn from a tool repository in the closed loop of two real processes: picked,
varied, injected, retired, and derived again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, POOL
from rods.buffers.usage import costs
from rods.console.follower import Follower
from rods.console.main import run as rods
from rods.console.report import figures, report
from rods.console.task_history import task_history
from rods.environments.base import reference
from rods.family.simulation.difficulty import levels
from rods.family.simulation.generating import draw_task, open_task
from rods.family.simulation.repository import shipped
from rods.family.simulation.settings import DifficultyRules
from rods.family.simulation.variants import shape_of
from rods.tasks import AnyTask, OpenTask, Split, task_lines
from tests.daemon.runs import VALUES, Daemon, Trainer, idle, make_run, rejected, seeds, until
from tests.environments import load
from tests.test_loop import pools, run_to_end

TRAINING = 16
HELD_OUT = 8
FULL = {"staging_epochs": 0.0}  # never pauses
ERRANDS = "bench.fixtures.llm_stub.roles:answer"
VERIFIER = "You judge how an assistant that calls tools"


def originals() -> list[OpenTask]:
    """Drawn tasks of all difficulties."""
    rules = DifficultyRules()
    found = list[OpenTask]()
    for slot in range(TRAINING + HELD_OUT):
        drawn = draw_task(shipped(), levels(rules, 1 + 4 * slot, 2, 1, slot), 2, 1, slot)
        split: Split = "train" if slot < TRAINING else "test"
        found.append(open_task(drawn, reference(load("repository")), split=split))
    return found


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("drawn"))


def finished(folder: Path, kills: int = 0) -> Path:
    """A lockstep run of the simulated policy, and its daemon, to the end."""
    folder.mkdir(exist_ok=True)
    file = folder / "tasks.jsonl"
    file.write_bytes(task_lines(originals()))
    learns = {"policy.skill": 0.4, "policy.growth": 0.06, "pool.drift_groups": 1}
    changes: dict[str, Any] = {"data.tasks": str(file), **learns}
    return run_to_end(folder, kills=kills, sync="lockstep", **changes)


@pytest.mark.slow
def test_variants_of_drawn_tasks_keep_what_their_roots_are(loop: Path) -> None:
    given = {task.id: task for task in originals()}
    tools = load("repository").tools()
    kinds = Counter(record["kind"] for record in read(loop / POOL))
    assert kinds["injected"] >= 4 and kinds["retired"] >= 1
    variants = [AnyTask.from_json(record["task"]) for record in read(loop / EXPANDED)]
    assert len(variants) >= 5
    moved = 0
    for variant in variants:
        root = given[variant.provenance["root"]]
        assert isinstance(variant, OpenTask) and shape_of(tools, variant) == shape_of(tools, root)
        assert root.split == variant.split == "train" and variant.system == root.system
        assert (
            not any(call in root.goal_calls for call in variant.goal_calls)
            and variant.texts != root.texts
        )
        assert len(variant.provenance["results"][0]) == len(variant.goal_calls)
        assert variant.provenance["model"] == "procedural" and variant.provenance["prompts"]
        moved += set(variant.tools) != set(root.tools)
    assert moved > len(variants) / 2
    assert all(record["stage"] in ("plan", "judge", "admission") for record in rejected(loop))


def test_people_see_them_like_other_variants(
    loop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(loop)
    assert not any("catalogue" in warning for warning in run.manifest["warnings"])
    follower = Follower(loop)
    follower.look()
    variant, *_ = expanded = list(read(loop / EXPANDED))
    assert figures(follower)["accepted"] == len(expanded)
    assert rods(["inspect", str(loop), variant["task"]["id"]]) == 0
    said = capsys.readouterr().out
    assert (
        f"lineage   {variant['pick'].partition('-')[2]} → {variant['task']['id']}" in said
        and "expects   " in said
    )
    example = task_history(follower, report(follower)["examples"][0]).task.as_json()
    assert example["user"]["persona"] and example == AnyTask.from_json(example).as_json()


def test_every_decision_and_every_witness_is_derived_again(loop: Path) -> None:
    report = verify(loop, replay=True)
    assert report.ok, report.problems
    assert report.counts["variants replayed"] >= 4


@pytest.mark.slow
def test_kills_change_no_pool_of_drawn_tasks(loop: Path, tmp_path: Path) -> None:
    assert pools(finished(tmp_path / "again", kills=2)) == pools(loop)


@pytest.mark.slow
def test_a_model_writes_them_within_the_limits_of_other_variants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Stub(Script(answer=ERRANDS)) as stub:
        operation = {
            "endpoints": [{"model": "stub", "urls": [stub.url]}],
            "budgets": {"requests": 9},
        }
        changes = {
            "pipeline": {"author": "llm"},
            "selection": {"groups": [["base"]], "seeds_per_step": 6},
        }
        run = make_run(
            tmp_path / "run",
            {**changes, "operation": {**VALUES["operation"], **operation}},
            originals(),
        )
        with Trainer(run) as trainer, Daemon(run.path) as daemon:
            for _ in range(3):
                trainer.play(1)
                until(lambda: idle(run.path, trainer.step) or "budget_spent" in reasons(run.path))
            code, _, _ = daemon.stop()
    staged = [record["task"] for record in read(run.path / EXPANDED)]
    assert code == 0 and staged and {one["provenance"]["model"] for one in staged} == {"stub"}
    assert "budget_spent" in reasons(run.path)
    assert rods(["inspect", "--cost", str(run.path), "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (
        list(found["stages"]) == ["simulated_task"]
        and found["accepted"] == len(staged)
        and found["calls"] == 9
    )
    assert verify(run.path, replay=True).ok


def reasons(path: Path) -> set[str]:
    return {record["why"] for record in seeds(path, "finished") if "why" in record}


@pytest.mark.slow
def test_models_play_the_witnesses_where_they_play_the_run(tmp_path: Path) -> None:
    """Their calls are on record as those of models that play; a verifier that only babbles is no
    task's fault."""
    with Stub(Script(answer=ERRANDS)) as stub:
        operation = {"endpoints": [{"model": "stub", "urls": [stub.url], "retry_seconds": 1.0}]}
        changes = {
            "simulation": dict.fromkeys(("tools", "user", "verifier"), "model"),
            "pipeline": {"attempts": 1},
            "pool": FULL,
        }
        run = make_run(
            tmp_path / "run",
            {**changes, "operation": {**VALUES["operation"], **operation}},
            originals(),
        )
        with Trainer(run) as trainer, Daemon(run.path) as daemon:
            for _ in range(5):
                trainer.play(1)
                until(lambda: idle(run.path, trainer.step))
            stub.use(Script(answer=ERRANDS, rules=[(VERIFIER, "not_json")]))
            for _ in range(4):
                trainer.play(1)
                until(lambda: idle(run.path, trainer.step))
            code, _, _ = daemon.stop()
    assert code == 0 and list(read(run.path / EXPANDED))
    played = costs(run.path).played
    assert set(played) == {"simulated_tool", "simulated_user", "simulated_verifier"}
    assert {record["error"] for record in rejected(run.path)} >= {"infrastructure"}
    report = verify(run.path, replay=True)
    assert report.ok and report.counts["variants that are not played again"] > 0
