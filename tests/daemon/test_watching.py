"""What the daemon reads of the trainer: which step is due, who may be picked, what is staged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rods.buffers.audit.repair import carry_out, examine
from rods.buffers.run.runfolder import expanded_segment
from rods.daemon.watching import Watch
from rods.rules.selection import TaskFacts
from rods.rules.zones import TaskSignal
from rods.worlds import desk
from tests.buffers.world import SyncDaemonLog
from tests.daemon.runs import BATCH, Trainer, make_run


def due(watch: Watch, considered: int = 0) -> list[int]:
    """Looks once and takes every step that is due."""
    watch.look(considered)
    steps = []
    while (step := watch.due(considered)) is not None:
        steps.append(step.step)
        considered = step.step
    return steps


def test_only_the_newest_step_is_due_and_in_lockstep_every_one_in_order(tmp_path: Path) -> None:
    for sync, expected in (("free", [3]), ("lockstep", [1, 2, 3])):
        run = make_run(tmp_path / sync, {"sync": sync})
        with Trainer(run) as trainer:
            trainer.play(3)
        watch = Watch(run)
        assert due(watch) == expected and due(watch, 3) == []
    assert due(Watch(make_run(tmp_path / "fresh"))) == []


def test_steps_that_a_start_dropped_are_not_due(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    watch = Watch(run)
    with Trainer(run) as trainer:
        trainer.play(3)
    watch.look(0)
    with Trainer(run, from_step=1) as trainer:
        trainer.play(1)
        assert due(watch) == [2]
        assert watch.newest == 3  # what was once seen stays the measure of staleness


def test_a_step_waits_for_the_record_of_its_epoch(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with Trainer(run) as trainer:
        trainer.play(1)
    pool = run.path / "pool.jsonl"
    content = pool.read_bytes()
    pool.unlink()
    watch = Watch(run)
    assert due(watch) == []
    pool.write_bytes(content)
    assert due(watch) == [1]


def test_candidates_are_the_steps_own_groups_or_the_whole_pool(tmp_path: Path) -> None:
    for candidates, known in (("step", BATCH), ("pool", 24)):
        run = make_run(tmp_path / candidates, {"selection": {"candidates": candidates}})
        with Trainer(run) as trainer:
            trainer.play(2)
        watch = Watch(run)
        watch.look(0)
        step = watch.due(0)
        assert step is not None
        signals = watch.candidates(step)
        assert len(signals) == known
        assert sum(signal.moments is not None for signal in signals) == (
            BATCH if known == BATCH else 2 * BATCH
        )


@pytest.mark.parametrize(
    "changes", [{"zones": {"probe": "window"}}, {"selection": {"candidates": "pool"}}]
)
def test_in_lockstep_windows_are_read_as_they_stood_after_the_step(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """However many steps were waiting when the daemon looked."""

    def candidates(watch: Watch, known: int) -> list[dict[str, TaskSignal]]:
        found: list[dict[str, TaskSignal]] = []
        watch.look(known)
        while (step := watch.due(known + len(found))) is not None:
            found.append({one.task: one for one in watch.candidates(step) if one.moments})
        return found

    late, early = (
        make_run(tmp_path / name, {"sync": "lockstep", **changes}) for name in ("late", "early")
    )
    with Trainer(late) as trainer:
        trainer.play(3)
    waiting = candidates(Watch(late), 0)
    watch = Watch(early)
    following: list[dict[str, TaskSignal]] = []
    with Trainer(early) as trainer:
        for _ in range(3):
            trainer.play(1)
            following += candidates(watch, len(following))
    assert waiting == following
    assert [len(signals) for signals in waiting] in ([BATCH] * 3, [BATCH, 2 * BATCH, 3 * BATCH])


def test_a_window_of_another_interface_is_no_reason_to_pick(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"selection": {"candidates": "pool"}})
    watch = Watch(run)
    with Trainer(run) as trainer:
        trainer.play(2)
        trainer.interface = "hints-1"
        trainer.play(1)
    watch.look(0)
    step = watch.due(0)
    assert step is not None
    known = {one.task for one in watch.candidates(step) if one.moments is not None}
    assert known == {group.task for group in step.groups}


def test_windows_of_another_version_of_the_same_lineage_are(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"selection": {"candidates": "pool"}})
    watch = Watch(run)
    with Trainer(run) as trainer:
        trainer.lineage = "seal"
        tasks = set[str]()
        for version in ("seal:", "seal:scope"):
            trainer.interface = version
            trainer.play(1)
            watch.look(0)
            step = watch.due(trainer.step - 1)
            assert step is not None
            tasks |= {group.task for group in step.groups}
            known = {one.task for one in watch.candidates(step) if one.moments is not None}
    assert known == tasks


def test_staging_and_the_active_variants_follow_the_merges(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    fresh = desk.generate(8, 6, 0)
    watch = Watch(run)
    with Trainer(run) as trainer, SyncDaemonLog(run) as log:
        trainer.play(3)
        picks: list[dict[str, Any]] = [
            {"task": task, "type": "base", "score": 1.0, "why": {"generation": 0}}
            for task in list(run.training)[:6]
        ]
        log.picked(3, 0, picks)
        for pick, task in zip(picks, fresh, strict=True):
            provenance = {"seed": pick["task"], "root": pick["task"], "generation": 1}
            log.expanded(f"3-{pick['task']}", 0, task, provenance)
        watch.look(3)
        assert watch.staged() == 6 and len(watch.active) == 24
        trainer.play(1)  # the merge injects floor(0.2 × 24) = 4
        assert watch.look(3)
        assert {task.id for task in watch.generated()} == {task.id for task in fresh}
        assert watch.staged() == 2 and len(watch.active) == 28
        injected = [task for task in fresh if task.id in watch.active]
        assert len(injected) == 4 and watch.active[injected[0].id] == TaskFacts(injected[0].type, 1)
        assert not watch.look(4)  # nothing new


def test_variants_that_damage_took_do_not_wait(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with Trainer(run) as trainer, SyncDaemonLog(run) as log:
        trainer.play(3)
        tasks = list(run.training)[:3]
        log.picked(
            3,
            0,
            [
                {"task": task, "type": "base", "score": 1.0, "why": {"generation": 0}}
                for task in tasks
            ],
        )
        for task, variant in zip(tasks, desk.generate(8, 3, 0), strict=True):
            log.expanded(f"3-{task}", 0, variant, {"seed": task, "root": task, "generation": 1})
    part = run.path / expanded_segment(0)
    data = bytearray(part.read_bytes())
    data[data.index(b"\n") + 100] ^= 4
    part.write_bytes(data)
    carry_out(run, examine(run))
    watch = Watch(run)
    watch.look(3)
    assert watch.state.staging.seq == 3 and watch.staged() == 2
