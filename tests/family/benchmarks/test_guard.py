"""Items of benchmarks in use are held out of training: variants and drawn tasks that match one are refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rods.buffers.merging.rules import Admission, Refusal
from rods.buffers.run.run import Run
from rods.errors import RefusedError, UserError
from rods.family.benchmarks.bfcl_memory.benchmark import Memories
from rods.family.benchmarks.bfcl_single.benchmark import SingleTurns
from rods.family.benchmarks.guard import guarded, overlaps
from rods.family.simulation.source import generator, guarded_generator
from rods.gates.similarity import SimilarityIndex, contamination
from rods.worlds.bfcl.world import Bfcl
from tests.buffers.world import make_run, variants


@pytest.fixture(scope="module")
def run(bfcl: Bfcl, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("guard") / "run", benchmarks={"guard": ["bfcl_single", "bfcl_memory"]})


def variant(**changes: Any) -> dict[str, Any]:
    return dataclasses.replace(variants(5)[0], provenance={"generation": 1}, id="", **changes).as_json()


def test_a_variant_in_an_item_s_words_or_with_its_calls_is_refused(run: Run) -> None:
    admission = Admission(run)
    assert not isinstance(admission.refuse(variant()), Refusal)
    single = SingleTurns()
    item = next(task for task in single.tasks() if 12 < len(task.texts[0].split()) < 30)
    told = Memories()._tasks["memory_kv_prereq_0-customer-0"].script[1]
    script = variants(5)[0].script
    for text in (item.texts[0], item.texts[0].upper(), told):
        refused = admission.refuse(variant(script=(text, *script[1:])))
        assert isinstance(refused, Refusal) and refused.reason == "contaminated"
    calls = next(task for task in guarded(single) if any(task.goal_calls)).goal_calls
    made = dataclasses.replace(variants(5)[0], script=("Do it now.",), calls=(calls,), id="")
    assert contamination(made, SimilarityIndex(run.guarded))


def test_the_guard_is_the_run_s_for_good(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Run.open(run.path)
    assert len(again.guarded) == len(run.guarded) > 3_900 and again.manifest["guarded"]
    monkeypatch.setattr("rods.family.benchmarks.guard.guarded", lambda benchmark: [])
    with pytest.raises(RefusedError, match="guarded tasks"):
        _ = Run.open(run.path).guarded


def test_a_run_without_a_guard_has_its_own_held_out_tasks_alone(tmp_path: Path) -> None:
    plain = make_run(tmp_path / "run")
    assert plain.guarded == plain.held_out and "guarded" not in plain.manifest


def test_a_benchmark_that_is_not_there_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"guard.*no benchmark 'none'"):
        make_run(tmp_path / "run", benchmarks={"guard": ["none"]})


def test_a_drawn_task_that_matches_is_drawn_again(tmp_path: Path) -> None:
    from rods.family.simulation.difficulty import levels
    from rods.family.simulation.generating import Wanted

    plain: Any = make_run(tmp_path / "run")
    rules = plain.config.difficulty
    wanted = [Wanted(1, slot, 30, levels(rules, 30, 0, 1, slot)) for slot in range(3)]
    drawn = list(generator(plain.config, plain.players)(wanted))
    held: Any = SimpleNamespace(config=plain.config, players=plain.players, guarded=[drawn[1]])
    made = list(guarded_generator(held)(wanted))
    assert [made[0].id, made[2].id] == [drawn[0].id, drawn[2].id] and made[1].id != drawn[1].id
    assert not contamination(made[1], SimilarityIndex([drawn[1]]))
    assert [task.id for task in guarded_generator(held)(wanted)] == [task.id for task in made]


def test_a_suite_counts_items_that_the_run_trains_on(tmp_path: Path, bfcl: Bfcl) -> None:
    single = SingleTurns()
    assert overlaps(make_run(tmp_path / "run"), single) == 0
    item = next(task for task in single.tasks() if 12 < len(task.texts[0].split()) < 30)
    run = make_run(tmp_path / "other")
    taught: Any = dataclasses.replace(run.tasks[0], script=(item.texts[0], *run.tasks[0].texts[1:]), id="")
    assert overlaps(dataclasses.replace(run, tasks=[taught, *run.tasks[1:]]), single) >= 1
