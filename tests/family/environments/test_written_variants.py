"""Scenarios of a world that models wrote, in the closed loop of two real processes, each killed
once: models, over HTTP the stub's, write variants with checks of their own, whose worlds are
admitted before they are staged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.runfolder import ADMITTED, EXPANDED, POOL
from rods.environments import addressed
from rods.family.environments.checking.scenarios import scenario_of
from rods.family.environments.programs import WorldProgram, program_of
from rods.family.environments.verbs import write_worlds
from rods.tasks import AnyTask, OpenTask, read_tasks
from tests.test_loop import run_to_end

pytestmark = pytest.mark.slow

TOPIC = "The lending desk of a public library: books, members and loans, kept by its staff."


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The folder in which a world was written, and a lockstep run in it whose daemon was killed
    once."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "topics.txt").write_text(TOPIC)
    with (
        Stub(Script(answer="bench.fixtures.llm_stub.roles:answer")) as stub,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.chdir(folder)  # the world is looked for from there
        operation = {"endpoints": [{"model": "stub", "urls": [stub.url]}], "writing": {"rounds": 0}}
        (folder / "writers.toml").write_text(tomli_w.dumps({"operation": operation}))
        assert (
            write_worlds(
                folder, config=folder / "writers.toml", topics=folder / "topics.txt", scenarios=6
            )
            == 0
        )
        changes: dict[str, Any] = {
            "data.tasks": str(folder / "tasks.jsonl"),
            "data.train": 0,
            "data.held_out": 0,
            "policy.skill": 0.4,
            "policy.growth": 0.02,
            "training.batch_tasks": 3,
            "selection.groups": [["base"]],
            "selection.seeds_per_step": 1,
            "curriculum.stages": [{"epochs": 4}],
            "pipeline.author": "llm",
            "operation.endpoints": operation["endpoints"],
            "operation.sandbox": {"workers": 1, "seconds": 10.0},
        }
        yield folder, run_to_end(folder / "loop", kills=2, sync="lockstep", **changes)


def test_variants_are_written_admitted_staged_and_injected(finished: tuple[Path, Path]) -> None:
    folder, run = finished
    given = {task.id: task for task in read_tasks(folder / "tasks.jsonl")}
    variants = [AnyTask.from_json(record["task"]) for record in read(run / EXPANDED)]
    injected = [record for record in read(run / POOL) if record["kind"] == "injected"]
    assert len(variants) >= 2 and injected
    admitted = {record["name"]: record for record in read(run / ADMITTED)}
    for variant in variants:
        root = given[variant.provenance["root"]]
        assert isinstance(variant, OpenTask) and isinstance(root, OpenTask)
        assert admitted[variant.environment.name]["hash"] == variant.environment.hash
        assert variant.state != root.state and len(variant.goal_calls) == len(root.goal_calls)
        assert variant.provenance["model"] == "stub" and scenario_of(variant) is not None
        own, other = (_program(folder, run, task) for task in (variant, root))
        assert (own.state, own.tools) == (other.state, other.tools)  # the seed's own world
        assert set(own.checks) == {call.name for call in variant.goal_calls}


def test_every_witness_is_played_again(finished: tuple[Path, Path]) -> None:
    _, run = finished
    report = verify(run, replay=True)
    assert report.ok, report.problems
    assert report.counts["variants replayed"] >= 1


def _program(folder: Path, run: Path, task: OpenTask) -> WorldProgram:
    """The program of a task's world."""
    return program_of(addressed.source_of(task.environment.name, [run, folder]), task.system)
