"""Items of benchmarks in use are held out of training: variants and drawn tasks that match one are
refused."""

from __future__ import annotations

import dataclasses
import json
import re
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.fixtures.acebench_items import kept
from rods.buffers.merging.rules import Admission, Refusal
from rods.buffers.run.creation import create_run
from rods.buffers.run.run import Run
from rods.errors import RefusedError, UserError
from rods.family.benchmarks.benchmarks import declared_benchmarks, named
from rods.family.benchmarks.bfcl_memory.benchmark import Memories
from rods.family.benchmarks.bfcl_single.benchmark import SingleTurns
from rods.family.benchmarks.guard import guarded, overlaps
from rods.family.benchmarks.tau2 import package
from rods.family.simulation.source import generator, guarded_generator
from rods.gates.similarity import SimilarityIndex, contamination, held_out_index
from rods.worlds.bfcl.world import Bfcl
from tests.buffers.world import make_run, variants
from tests.daemon.runs import (
    Daemon,
    Trainer,
    idle,
    make_run as daemon_run,
    rejected,
    until,
    variants as daemon_variants,
)

NAMED = re.compile(r"its (?P<way>query|ground truth) [^\"]*, (?P<name>\w+) [^\" ]+\"")


@pytest.fixture(scope="module")
def run(bfcl: Bfcl, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(
        tmp_path_factory.mktemp("guard") / "run",
        benchmarks={"guard": ["bfcl_single", "bfcl_memory"]},
    )


def variant(**changes: Any) -> dict[str, Any]:
    return dataclasses.replace(
        variants(5)[0], provenance={"generation": 1}, id="", **changes
    ).as_json()


@pytest.mark.slow
def test_a_variant_in_an_item_s_words_or_with_its_calls_is_refused(run: Run) -> None:
    admission = Admission(run)
    assert not isinstance(admission.examine(variant()), Refusal)
    single = SingleTurns()
    item = next(task for task in single.tasks() if 12 < len(task.texts[0].split()) < 30)
    told = Memories().by_id["memory_kv_prereq_0-customer-0"].script[1]
    script = variants(5)[0].script
    for text in (item.texts[0], item.texts[0].upper(), told):
        refused = admission.examine(variant(script=(text, *script[1:])))
        assert isinstance(refused, Refusal) and refused.reason == "contaminated"
        assert re.search(", bfcl_(single|memory) ", refused.detail)
    calls = next(task for task in guarded(single) if any(task.goal_calls)).goal_calls
    made = dataclasses.replace(variants(5)[0], script=("Do it now.",), calls=(calls,), id="")
    assert contamination(made, SimilarityIndex(run.guarded))


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_daemon_refuses_copies_of_every_benchmark_s_items_and_names_them(
    bfcl: Bfcl, tmp_path: Path
) -> None:
    """By words and by calls; a memory's items have no calls that are right."""
    package.WHEEL.fetch()
    names = [*declared_benchmarks()]
    with ExitStack() as stack:
        stack.enter_context(kept(tmp_path))
        run = daemon_run(
            tmp_path / "run", {"benchmarks": {"guard": names}, "pool": {"staging_epochs": 0.0}}
        )
        trainer = stack.enter_context(Trainer(run))
        daemon = stack.enter_context(Daemon(run.path, program="tests.family.benchmarks.copying"))
        due = {(way, name) for way in ("query", "ground truth") for name in names}
        # whose answers are words
        due -= {("ground truth", name) for name in ("bfcl_memory", "bfcl_search")}
        for _ in range(32):  # which items are copied is a matter of chance
            trainer.play(1)
            until(lambda: idle(run.path, trainer.step), 1_000)
            if due <= _refused(run.path):
                break
        assert daemon.stop()[0] == 0
    assert _refused(run.path) == due and not daemon_variants(run.path)


def _refused(run: Path) -> set[tuple[str, str]]:
    """By what the daemon has told copies, and of which benchmark each was."""
    evidence = (json.dumps(record["evidence"]) for record in rejected(run))
    return {(match["way"], match["name"]) for line in evidence for match in NAMED.finditer(line)}


def test_calls_are_found_again_whatever_turns_they_stand_in() -> None:
    conversation = next(task for task in guarded(named("tau2")) if len(task.goal_calls) > 2)
    calls = conversation.goal_calls
    for turns in ((calls,), (calls[:1], (), calls[1:])):
        made: Any = dataclasses.replace(
            variants(1)[0], script=("Go on.",) * len(turns), calls=turns, later_tools={}, id=""
        )
        (reason,) = contamination(made, held_out_index([conversation]))
        assert str(reason).startswith("held out: its ground truth equals that of task")
        assert str(reason).endswith(f", tau2 {conversation.provenance['id']}")
        assert contamination(conversation, SimilarityIndex([made])) or len(turns) > 1
    fewer: Any = dataclasses.replace(
        variants(1)[0], script=("Go on.",), calls=(calls[:-1],), later_tools={}, id=""
    )
    assert not contamination(fewer, held_out_index([conversation]))


def test_the_guard_is_the_run_s_for_good(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Run.open(run.path)
    assert len(again.guarded) == len(run.guarded) > 3_900 and again.manifest["guarded"]
    monkeypatch.setattr("rods.family.benchmarks.guard.guarded", lambda benchmark: [])
    with pytest.raises(RefusedError, match="guarded tasks"):
        _ = Run.open(run.path).guarded


def test_a_run_without_a_guard_has_its_own_held_out_tasks_alone(tmp_path: Path) -> None:
    plain = make_run(tmp_path / "run")
    assert plain.guarded == [*plain.held_out] and "guarded" not in plain.manifest


def test_a_benchmark_that_is_not_there_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"guard.*no benchmark 'none'"):
        make_run(tmp_path / "run", benchmarks={"guard": ["none"]})


def test_a_drawn_task_that_matches_is_drawn_again(tmp_path: Path) -> None:
    from rods.family.simulation.difficulty import levels
    from rods.family.simulation.generating import Wanted

    plain: Any = make_run(tmp_path / "run")
    rules = plain.config.difficulty
    wanted = [Wanted(1, slot, 30, levels(rules, 30, 0, 1, slot)) for slot in range(3)]
    drawn = list(generator(plain)(wanted))
    held: Any = SimpleNamespace(
        config=plain.config,
        environments=plain.environments,
        players=plain.players,
        guarded=[drawn[1]],
    )
    made = list(guarded_generator(held)(wanted))
    assert [made[0].id, made[2].id] == [drawn[0].id, drawn[2].id] and made[1].id != drawn[1].id
    assert not contamination(made[1], SimilarityIndex([drawn[1]]))
    assert [task.id for task in guarded_generator(held)(wanted)] == [task.id for task in made]


@pytest.mark.slow
def test_a_suite_counts_items_that_the_run_trains_on(tmp_path: Path, bfcl: Bfcl) -> None:
    single = SingleTurns()
    assert overlaps(make_run(tmp_path / "run"), single) == 0
    item = next(task for task in single.tasks() if 12 < len(task.texts[0].split()) < 30)
    run = make_run(tmp_path / "other")
    taught: Any = dataclasses.replace(
        run.tasks[0], script=(item.texts[0], *run.tasks[0].texts[1:]), id=""
    )
    taken_up = create_run(tmp_path / "taught", run.config, [taught, *run.tasks[1:]])
    assert overlaps(taken_up, single) >= 1
