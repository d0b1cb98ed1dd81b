"""Where a run stands: the same for whoever reads, whenever they looked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from rods.buffers.folds.pool import windows_json
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL, SEEDS
from rods.buffers.state import RunState, read_state, starts_of
from rods.buffers.trainer_log import TrainerLog
from tests.buffers.histories import records, reopened


def said(state: RunState) -> dict[str, Any]:
    """All that anybody can ask."""
    pool = state.pool
    return {
        "attempt": state.attempt,
        "step": state.last_step,
        "epoch": state.epoch,
        "stage": state.stage,
        "epochs": pool.epochs,
        "active": list(state.active.values()),
        "revivable": list(pool.revivable.values()),
        "injected": pool.injected,
        "decided": pool.decided,
        "staged": [one.seq for one in state.staging.candidates(10**9, by_pick=True)],
        "fixed": state.fixed,
        "windows": windows_json(state.tracker, state.pool),
        "gauges": state.gauges(),
        "variants": [task.id for task in state.variants()],
    }


def test_it_is_what_the_trainer_knows(past: Run) -> None:
    state = read_state(past)
    with TrainerLog(past) as trainer:
        assert said(state) == said(trainer.state)
    assert said(state) == said(read_state(past, strict=False))


def test_readers_write_nothing(past: Run) -> None:
    before = {path: path.read_bytes() for path in past.path.rglob("*") if path.is_file()}
    state = RunState(past)
    list(state.steps())
    list(state.decisions())
    said(state)
    assert {path: path.read_bytes() for path in past.path.rglob("*") if path.is_file()} == before


@settings(
    max_examples=25, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_it_comes_to_the_same_in_whichever_order_the_logs_arrive(
    past: Run, tmp_path_factory: Any, data: st.DataObject
) -> None:
    """On another host, bytes of three logs become visible in any order and at any pace."""
    run = reopened(past, tmp_path_factory.mktemp("arriving") / "run")
    contents = {
        part.name: part.read_bytes()
        for log in (OBSERVATIONS, POOL, EXPANDED)
        for part in past.path.glob(log)
    }
    shown = dict.fromkeys(contents, 0)
    state = RunState(run)
    for _ in range(data.draw(st.integers(0, 8))):
        name = data.draw(st.sampled_from(sorted(contents)))
        shown[name] = data.draw(st.integers(shown[name], len(contents[name])))
        (run.path / name).write_bytes(contents[name][: shown[name]])
        if data.draw(st.booleans()):
            state.poll()
        else:
            list(state.steps())
    for name, content in contents.items():
        (run.path / name).write_bytes(content)
    state.poll()
    state.poll()  # what had been read of the pool before the start that drops it is read again
    assert said(state) == said(read_state(past))


def test_steps_are_yielded_with_the_tracker_as_it_stood_after_them(past: Run) -> None:
    state = RunState(past)
    for step in state.steps():
        assert state.last_step == step.step
        assert max(state.tracker.last_step(task) or 0 for task in state.tracker.tasks) == step.step
        assert state.epoch == -1  # pool and staging follow in the end
    assert state.epoch == read_state(past).epoch and state.merged == state.epoch + 1
    assert list(state.steps()) == [] and not state.merged and not state.rewound


def test_a_step_belongs_to_the_epoch_that_its_record_names(past: Run) -> None:
    state = RunState(past)
    steps = list(state.steps())
    assert [state.epoch_of(step.step) for step in steps] == [step.epoch for step in steps]
    assert state.epoch_of(state.last_step + 1) == state.epoch


def test_the_pool_of_every_epoch_and_the_live_decisions(past: Run) -> None:
    state = read_state(past)
    live = list(state.decisions())
    assert 0 < len(live) < len(records(past, POOL))
    for epoch in range(state.epoch + 1):
        pool = state.pool_at(epoch)
        assert pool.latest is not None and pool.latest["epoch"] == len(pool.epochs) - 1 == epoch
    assert list(state.pool_at(state.epoch).active) == list(state.active)
    with pytest.raises(KeyError):
        state.pool_at(state.epoch + 1)


def test_tasks_are_given_or_were_injected(past: Run) -> None:
    state = read_state(past)
    assert {state.task(task).id for task in (*past.training, *state.pool.injected)} == {
        *past.training,
        *state.pool.injected,
    }
    waiting = state.staging.candidates(10**9, by_pick=False)[0].content["id"]
    for stranger in ("", "nothing", waiting):
        with pytest.raises(KeyError):
            state.task(stranger)


def test_variants_are_found_without_a_table_of_the_given_tasks(past: Run) -> None:
    state = read_state(Run.open(past.path))
    variants = [*state.variants()]
    assert variants and [state.task(task.id) for task in variants] == variants
    assert "_places" not in vars(state.run.tasks.by_id)


def test_other_logs_are_read_and_followed(past: Run) -> None:
    state = read_state(past)
    assert list(state.records(SEEDS)) == records(past, SEEDS) == state.follow(SEEDS).poll()


def test_a_run_that_was_never_started_stands_at_its_beginning(past: Run, tmp_path: Path) -> None:
    state = read_state(reopened(past, tmp_path / "run"))
    assert (state.attempt, state.last_step, state.epoch, state.stage, len(state.staging)) == (
        0,
        0,
        -1,
        1,
        0,
    )
    assert list(state.active) == list(past.training) and state.live(0, 0) and not state.live(1, 1)
    assert starts_of(state.run.path).attempt == 0
