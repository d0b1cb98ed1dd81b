"""Merges: each rule in its place, the same from the same logs, whatever was killed."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from rods.buffers.audit.verify import verify
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read, read_raw
from rods.buffers.merging.rules import share
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, OBSERVATIONS, POOL
from rods.buffers.state import RunState
from rods.buffers.trainer_log import TrainerLog
from rods.calls import Call
from rods.errors import DeadlineError, RefusedError
from rods.rules.order import EpochSlot
from rods.tasks import EnvironmentRef, Task
from tests.buffers.world import PICKED, Players, SyncDaemonLog, make_run, originals, variants


def play(path: Path, epochs: int, rewards: Any = None, **changes: Any) -> Players:
    run = make_run(path, **changes)
    players = Players(run, TrainerLog(run), SyncDaemonLog(run))
    players.trainer.start()
    if rewards is not None:
        players.rewards = rewards
    for number in range(epochs):
        players.epoch(number)
    return players


def close(players: Players) -> None:
    players.trainer.close()
    if players.daemon is not None:
        players.daemon.close()


def decisions(run: Run, kind: str | None = None) -> list[Record]:
    return [record for record in read(run.path / POOL) if kind is None or record["kind"] == kind]


def test_versions_of_one_lineage_give_the_pools_of_one_version(tmp_path: Path) -> None:
    """Each step shows another version, which burn-in, drift and capacity must not see."""

    class Versions(Players):
        def shown(self, step: int) -> dict[str, Any]:
            return {"interface": f"seal:{step}", "lineage": "identity"}

    pools = []
    for kind in (Players, Versions):
        run = make_run(tmp_path / kind.__name__, pool={"max_generated": 60})
        players = kind(run, TrainerLog(run), SyncDaemonLog(run))
        players.trainer.start()
        for number in range(7):
            players.epoch(number)
        close(players)
        pools.append([without(record) for record in decisions(run)])
        assert verify(run.path).ok
    assert pools[0] == pools[1]
    assert {"burn_in", "drift_mastered"} <= {one.get("rule") for one in pools[0]}


def half(step: int, slot: EpochSlot, expected: int) -> list[int]:
    return [0, expected, 0, expected]


def left_with_group(number: int, gone: list[Record], seen: dict[int, Counter[str]]) -> bool:
    """Each was retired by the first merge that knew its `number`th group. A batch that is filled up
    may have a task twice: which one depends on the ids, so groups are counted, not epochs."""
    return all(
        seen[one["epoch"] - 2][one["task"]] < number <= seen[one["epoch"] - 1][one["task"]]
        for one in gone
    )


def without(record: Record) -> Record:
    return {key: value for key, value in record.items() if key not in ("seq", "crc", "first")}


def test_epoch_0_opens_with_the_originals_and_a_record(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 0)
    opened = players.trainer.merge(0, 1)
    assert {slot.task_id for slot in opened.slots} == set(players.run.training)
    [record] = decisions(players.run)
    assert (record["epoch"], record["step"], record["expanded_seq"], record["first"]) == (
        0,
        0,
        0,
        1,
    )
    assert record["order"] == opened.order_hash


def test_injection_is_capped_by_the_share_of_the_active_pool_and_the_rest_waits_in_log_order(
    tmp_path: Path,
) -> None:
    players = play(tmp_path / "run", 1, half, pool={"inject_fraction": 0.17, "max_generated": 9})
    opened = players.trainer.merge(1, 1)
    staged = [
        record["expanded"]
        for record in decisions(players.run)
        if record["kind"] in ("injected", "refused")
    ]
    assert opened.counts["injected"] == 2  # of 12; three were written
    assert staged == [1, 2]
    assert decisions(players.run)[-1]["deferred"] == {"count": 1, "first": 3, "last": 3}
    players.epoch(1)
    players.trainer.merge(2, 1)
    assert [record["expanded"] for record in decisions(players.run) if "expanded" in record][
        2:4
    ] == [3, 4]


@pytest.mark.parametrize(("fraction", "injected"), [(0.02, 1), (0.0, 0)])
def test_a_share_of_a_small_pool_is_one_variant_at_least_unless_none_is_asked_for(
    tmp_path: Path, fraction: float, injected: int
) -> None:
    players = play(
        tmp_path / "run", 1, half, pool={"inject_fraction": fraction, "max_generated": 9}
    )
    assert players.trainer.merge(1, 1).counts["injected"] == injected  # of 12; three were written


def test_shares_are_exact_decimals() -> None:
    assert share(0.29, 100) == 29
    assert share(0.07, 100) == 7


def test_a_recorded_epoch_is_returned_and_nothing_is_written(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 3)
    size = (players.run.path / POOL).stat().st_size
    again = [players.trainer.merge(number, 1) for number in range(3)]
    assert all(epoch.recorded for epoch in again)
    assert (players.run.path / POOL).stat().st_size == size
    assert [epoch.order_hash for epoch in again] == [
        record["order"] for record in decisions(players.run, "epoch")
    ]
    with pytest.raises(RefusedError, match="epoch 5 does not follow epoch 2"):
        players.trainer.merge(5, 1)


def test_a_recorded_epoch_keeps_its_stage(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 1, curriculum={"stages": [{"epochs": 1}, {}]})
    with pytest.raises(RefusedError, match="opened in stage 1, not 2"):
        players.trainer.merge(0, 2)


def test_a_merge_cut_off_anywhere_is_derived_again_the_same(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 3)
    players.trainer.merge(3, 1)
    expected = [without(record) for record in decisions(players.run) if record["epoch"] == 3]
    assert len(expected) > 3
    close(players)
    path = players.run.path / POOL
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    start = len(b"".join(lines[: len(lines) - len(expected)]))
    for cut in [*range(start, len(whole), 211), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with TrainerLog(players.run) as log:
            log.start()
            assert not log.merge(3, 1).recorded
        again = [without(record) for record in decisions(players.run) if record["epoch"] == 3]
        attempts = [{**one, "attempt": 1, "id": ""} for one in again]
        assert attempts == [{**one, "id": ""} for one in expected]
    assert len(list(read_raw(path))) >= len(list(read(path)))


def test_the_first_closed_record_of_an_epoch_fixes_what_was_read(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 2)
    first = players.trainer.merge(2, 1)
    read = decisions(players.run, "epoch")[-1]["expanded_seq"]
    players.epoch(2)
    players.trainer.close()
    log = TrainerLog(players.run)
    log.start(from_step=first.step - 1)
    players.trainer = log
    opened = log.merge(1, 1)
    players.step(opened, (first.step - 1 - opened.step))
    again = log.merge(2, 1)
    assert decisions(players.run, "epoch")[-1]["expanded_seq"] == read < log.state.staging.seq
    assert not again.recorded
    close(players)
    assert verify(players.run.path).ok


def test_an_epoch_survives_a_rewind_to_its_own_step_and_not_to_one_before(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 2)
    step = players.trainer.merge(2, 1).step
    players.trainer.close()
    with TrainerLog(players.run) as log:
        log.start(from_step=step)
        assert log.merge(2, 1).recorded
    with TrainerLog(players.run) as log:
        log.start(from_step=step - 1)
        assert log.state.epoch == 1


def test_revive_burn_in_drift_truncated_unsampled_inject_capacity_happen_in_this_order(
    tmp_path: Path,
) -> None:
    def rewards(step: int, slot: EpochSlot, expected: int) -> list[int]:
        """A third of the tasks is hopeless until it is re-tested, a third mastered."""
        kind = int(slot.task_id[4:8], 16) % 3
        if kind == 0 and slot.role == "active":
            return [0, 0]
        return [expected, expected] if kind == 1 else [0, expected]

    players = play(
        tmp_path / "run", 10, rewards, pool={"max_generated": 8, "inject_fraction": 0.25}
    )
    order = {
        "retest": 0,
        "burn_in": 1,
        "drift_mastered": 2,
        "drift_too_hard": 2,
        "truncated": 3,
        "unsampled": 4,
        "capacity": 6,
    }
    seen: set[str] = set()
    last = 0
    epoch = -1
    for record in decisions(players.run):
        if record["epoch"] != epoch:
            last = 0
            epoch = record["epoch"]
        place = 7 if record["kind"] == "epoch" else order.get(record.get("rule", ""), 5)
        assert place >= last
        last = place
        seen.add(record.get("rule") or record["kind"])
    assert {"retest", "burn_in", "drift_mastered", "capacity", "injected", "epoch"} <= seen
    close(players)
    report = verify(players.run.path, replay=True)
    assert report.ok, report.problems


def test_a_too_hard_variant_is_re_tested_and_comes_back_with_a_boundary_result(
    tmp_path: Path,
) -> None:
    """Its old rewards no longer count once it is back."""
    run = make_run(tmp_path / "run", pool={"unsampled_epochs": 0, "max_generated": 50})
    players = Players(run, TrainerLog(run), SyncDaemonLog(run))
    players.trainer.start()
    hard: set[str] = set()

    def rewards(step: int, slot: EpochSlot, expected: int) -> list[int]:
        if slot.task_id in run.training:
            return [0, expected]
        if slot.role == "retest":
            return [0, expected]
        hard.add(slot.task_id)
        return [0, 0]

    players.rewards = rewards
    for number in range(3):
        players.epoch(number)
    burned = {record["task"] for record in decisions(run, "retired")}
    assert burned
    assert burned <= hard
    opened = players.trainer.merge(3, 1)
    retested = {slot.task_id for slot in opened.slots if slot.role == "retest"}
    revived = {record["task"] for record in decisions(run, "revived")}
    assert len(retested) == 2  # ceil(0.1 × 12…18)
    assert revived
    assert revived <= burned
    assert revived <= set(players.trainer.state.active)


def test_originals_are_never_retired_and_nothing_is_injected_twice(tmp_path: Path) -> None:
    def hopeless(step: int, slot: EpochSlot, expected: int) -> list[int]:
        return [0, 0]

    players = play(tmp_path / "run", 5, hopeless)
    assert set(players.run.training) <= set(players.trainer.state.active)
    injected = [record["task"] for record in decisions(players.run, "injected")]
    assert len(injected) == len(set(injected)) > 3


def test_what_nobody_samples_is_pruned(tmp_path: Path) -> None:
    stages = [{"epochs": 2}, {"types": ["base"], "epochs": 0}]
    players = play(
        tmp_path / "run", 2, half, curriculum={"stages": stages}, training={"batch_tasks": 2}
    )
    for number in range(2, 7):
        players.epoch(number, stage=2)
    pruned = [
        record for record in decisions(players.run, "retired") if record["rule"] == "unsampled"
    ]
    assert pruned
    admitted = {record["task"]: record["epoch"] for record in decisions(players.run, "injected")}
    for record in pruned:
        assert players.trainer.state.task(record["task"]).type != "base"
        assert record["epoch"] - admitted[record["task"]] >= 3


@pytest.mark.parametrize(("groups", "merges"), [(2, 3), (3, 4), (8, 9)])
def test_a_variant_that_is_mastered_after_a_first_half_leaves_after_the_last_groups(
    tmp_path: Path, groups: int, merges: int
) -> None:
    """Seen once at 0.5, then at 1.0 in every epoch: `merges` after its own it has left."""

    def rewards(step: int, slot: EpochSlot, expected: int) -> list[int]:
        first = slot.task_id in given or slot.task_id not in seen
        seen[slot.task_id] += 1
        return [0, expected] * 2 if first else [expected] * 4

    given = {task.id for task in originals()}
    seen = Counter[str]()
    pool = {
        "drift_groups": groups,
        "unsampled_epochs": 0,
        "max_generated": 99,
        "inject_fraction": 1.0,
    }
    players = play(tmp_path / "run", 2, rewards, pool=pool)
    daemon = players.daemon
    players.daemon = None
    seen_by = {1: seen.copy()}
    for number in range(2, 13):
        players.epoch(number)
        seen_by[number] = seen.copy()
    admitted = {record["task"]: record["epoch"] for record in decisions(players.run, "injected")}
    gone = [record for record in decisions(players.run, "retired") if admitted[record["task"]] == 1]
    assert gone and {(one["rule"], one["groups"], one["mean"]) for one in gone} == {
        ("drift_mastered", groups, 1.0)
    }
    assert left_with_group(merges, gone, seen_by)
    assert daemon is not None
    daemon.close()


@pytest.mark.parametrize(
    ("layer", "groups", "shares", "leaves"),
    [
        ("burn_in", 8, [0.0] * 11, 8),
        ("burn_in", 9, [0.0] * 11, 9),
        # with the ninth group the mean of the window falls below 0.2
        ("burn_in", 8, [0.5] * 4 + [0.0] * 7, None),
        ("burn_in", 9, [0.5] * 4 + [0.0] * 7, 9),
        ("drift", 9, [1.0] * 11, 9),
    ],
)
def test_observations_are_counted_on_when_the_window_is_full(
    tmp_path: Path, layer: str, groups: int, shares: list[float], leaves: int | None
) -> None:
    def rewards(step: int, slot: EpochSlot, expected: int) -> list[int]:
        if slot.task_id in given:
            return [0, expected] * 2
        number = seen[slot.task_id]
        seen[slot.task_id] += 1
        # a batch that is filled up may have a task twice
        of_four = round(4 * shares[min(number, 10)])
        return [expected] * of_four + [0] * (4 - of_four)

    given = {task.id for task in originals()}
    seen = Counter[str]()
    pool = {
        "burn_in": layer == "burn_in",
        "drift": layer == "drift",
        f"{layer}_observations": groups,
        "unsampled_epochs": 0,
        "max_generated": 99,
        "inject_fraction": 1.0,
    }
    players = play(tmp_path / "run", 2, rewards, pool=pool, zones={"window": 8})
    daemon = players.daemon
    players.daemon = None
    seen_by = {1: seen.copy()}
    for number in range(2, 12):
        players.epoch(number)
        seen_by[number] = seen.copy()
    injected = {record["task"]: record["epoch"] for record in decisions(players.run, "injected")}
    assert 1 in injected.values()
    gone = [one for one in decisions(players.run, "retired") if injected[one["task"]] == 1]
    assert bool(gone) == (leaves is not None)
    assert left_with_group(leaves or 0, gone, seen_by)
    assert verify(players.run.path).ok
    assert daemon is not None
    daemon.close()


def test_a_stage_that_does_not_expand_changes_nothing(tmp_path: Path) -> None:
    stages = [{"expand": False, "epochs": 2}, {}]
    players = play(tmp_path / "run", 2, curriculum={"stages": stages})
    opened = players.trainer.merge(1, 1)
    assert (opened.counts["injected"], opened.counts["generated"]) == (0, 0)
    assert decisions(players.run)[-1]["deferred"]["count"] == 3
    assert players.trainer.merge(2, 2).counts["injected"] > 0


def test_a_static_pool_is_written_once_and_then_frozen(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 5, pool={"static": True})
    counts = [record["counts"] for record in decisions(players.run, "epoch")]
    assert [one["injected"] > 0 for one in counts] == [False, True, False, False, False]
    assert not any(one["retired"] for one in counts)


def test_a_static_pool_is_injected_whole_whatever_the_share_of_a_merge(tmp_path: Path) -> None:
    players = play(
        tmp_path / "run", 2, pool={"static": True, "inject_fraction": 0.05, "max_generated": 3}
    )
    assert decisions(players.run, "epoch")[1]["counts"]["injected"] == 3


@pytest.mark.parametrize("sync", ["lockstep", "free"])
def test_a_static_pool_is_waited_for_and_written_from_a_whole_epoch(
    tmp_path: Path, sync: str
) -> None:
    players = play(tmp_path / "run", 0, sync=sync, pool={"static": True})
    players.epoch(0, steps=1)
    with pytest.raises(
        RefusedError, match=r"has not visited 8 of its tasks.* → record their groups first"
    ):
        players.trainer.merge(1, 1)
    daemon = players.daemon
    players.daemon = None
    for index in (1, 2):
        players.step(players.trainer.merge(0, 1), index)
    with pytest.raises(DeadlineError, match=r"the static pool is not written, .*rods-daemon"):
        players.trainer.merge(1, 1)
    assert daemon is not None
    for step in (2, 3):
        daemon.picked(step, 0, [])
    assert players.trainer.merge(1, 1).counts["injected"] == 1
    daemon.close()


def test_every_layer_can_be_switched_off(tmp_path: Path) -> None:
    off = {
        "burn_in": False,
        "drift": False,
        "capacity": False,
        "truncated_groups": 0,
        "unsampled_epochs": 0,
    }
    players = play(tmp_path / "run", 6, pool=off)
    assert decisions(players.run, "retired") == []
    assert len([one for one in players.trainer.state.active.values() if one.generated]) == 6


def test_without_retirement_every_merge_injects_its_share_whatever_the_limit(
    tmp_path: Path,
) -> None:
    players = play(
        tmp_path / "run",
        5,
        half,
        pool={"retirement": False, "max_generated": 1, "inject_fraction": 0.2},
    )
    counts = [record["counts"] for record in decisions(players.run, "epoch")]
    assert [one["injected"] for one in counts] == [0, 2, 2, 3, 3]
    assert counts[-1]["generated"] == 10 and not any(one["retired"] for one in counts)


def refusals(tmp_path: Path, *tasks: Task, **changes: Any) -> list[tuple[str, str]]:
    players = play(tmp_path / "run", 0, half, **changes)
    players._fresh = iter(tasks)
    players.epoch(0, steps=len(tasks))
    players.trainer.merge(1, 1)
    return [
        (record["kind"], record.get("rule", ""))
        for record in decisions(players.run)
        if "expanded" in record
    ]


def test_refusals_are_recorded_with_their_reason(tmp_path: Path) -> None:
    fresh = variants()[0]
    held_out = next(task for task in originals() if task.split != "train")
    leaking = dataclasses.replace(fresh, state=held_out.state, id="")
    elsewhere = dataclasses.replace(fresh, environment=EnvironmentRef("desk", "0" * 20), id="")
    kinds = refusals(tmp_path, originals()[0], leaking, elsewhere)
    assert kinds == [
        ("refused", "duplicate"),
        ("refused", "contaminated"),
        ("refused", "unknown_environment"),
    ]


def test_near_duplicates_are_refused_among_candidates_too_unless_switched_off(
    tmp_path: Path,
) -> None:
    fresh = variants()[0]
    near = dataclasses.replace(
        fresh, calls=(*fresh.calls[:-1], (*fresh.calls[-1], Call("ls", {}))), id=""
    )
    assert refusals(tmp_path / "a", fresh, near, fresh) == [
        ("injected", ""),
        ("refused", "near_duplicate"),
        ("refused", "duplicate"),
    ]
    assert refusals(tmp_path / "b", fresh, near, gates={"duplicates": False}) == [
        ("injected", ""),
        ("injected", ""),
    ]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("skill", "verdict"), [(0, ("refused", "near_duplicate")), (1, ("injected", ""))]
)
def test_what_may_be_revived_stays_a_neighbour_and_what_left_for_good_does_not(
    tmp_path: Path, skill: int, verdict: tuple[str, str], restart: bool
) -> None:
    first = variants()[0]
    near = dataclasses.replace(
        first, calls=(*first.calls[:-1], (*first.calls[-1], Call("ls", {}))), id=""
    )

    def rewards(step: int, slot: EpochSlot, expected: int) -> list[int]:
        return [skill * expected] * 4 if slot.task_id == first.id else half(step, slot, expected)

    players = play(tmp_path / "run", 0, rewards)
    players._fresh = iter([first])
    players.epoch(0, steps=1)
    daemon = players.daemon
    players.daemon = None
    for epoch in (1, 2):
        players.epoch(epoch)
    opened = players.trainer.merge(3, 1)
    assert first.id not in players.trainer.state.active
    if restart:
        players.trainer.close()
        players.trainer = TrainerLog(players.run)
        players.trainer.start()
    players.daemon = daemon
    players._fresh = itertools.chain([near, first], variants()[5:])
    for index in range(3):
        players.step(opened, index)
    players.trainer.merge(4, 1)
    last = [one for one in decisions(players.run) if one["epoch"] == 4 and "expanded" in one]
    made = {one["task"]: (one["kind"], one.get("rule", "")) for one in last}
    assert made[near.id] == verdict and made[first.id] == ("refused", "duplicate")
    close(players)
    assert verify(players.run.path).problems == []


def test_a_part_that_is_closed_while_a_merge_looks_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    looks: list[list[Path]] = []

    def renamed(path: Path) -> list[Path]:
        if path.name != EXPANDED:
            return segments(path)
        looks.append(segments(path))
        return (
            [*looks[-1], run.path / "expanded_epoch_0000.000000000001.jsonl"]
            if len(looks) == 1
            else looks[-1]
        )

    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        players.epoch(0)
        monkeypatch.setattr("rods.buffers.folds.pool.segments", renamed)
        trainer.merge(1, 1)
        assert len(looks) == 2 and trainer.state.pool.generated


def test_lockstep_waits_for_the_daemon_and_gives_up_at_its_deadline(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 1, sync="lockstep")
    daemon = players.daemon
    players.daemon = None
    opened = players.trainer.merge(1, 1)
    players.step(opened, 0)
    waited: list[int] = []
    with pytest.raises(DeadlineError, match="has finished step 3, not step 4"):
        players.trainer.merge(2, 1, lambda: waited.append(1))
    assert waited
    assert daemon is not None
    daemon.picked(4, 1, [])
    assert players.trainer.merge(2, 1).number == 2


def test_lockstep_admits_in_the_order_of_picks(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sync="lockstep")
    trainer = TrainerLog(run)
    daemon = SyncDaemonLog(run)
    trainer.start()
    players = Players(run, trainer, None)
    players.epoch(0)
    tasks = list(run.training)
    for step in (1, 2, 3):
        daemon.picked(step, 0, [{"task": task} | PICKED for task in (tasks[step], tasks[0])])
    wanted = []
    fresh = iter(variants())
    for step, rank in [(3, 1), (1, 1), (2, 0), (1, 0), (3, 0), (2, 1)]:
        pick = f"{step}-{tasks[step] if rank == 0 else tasks[0]}"
        variant = next(fresh)
        daemon.expanded(pick, 0, variant, {"generation": 1})
        daemon.finished(pick, [variant.id], 0)
        wanted.append(((step, rank), variant.id))
    trainer.merge(1, 1)
    decided = [record["task"] for record in decisions(run) if "expanded" in record]
    assert decided == [task_id for _, task_id in sorted(wanted)][: len(decided)]
    assert len(decided) == 6


def test_a_view_that_has_not_seen_a_start_yet_waits_for_it(tmp_path: Path) -> None:
    players = play(tmp_path / "run", 2)
    step = players.trainer.merge(2, 1).step
    behind = RunState(players.run)
    behind.poll()
    players.trainer.close()
    log = TrainerLog(players.run)
    log.start(from_step=step - 1)
    players.trainer = log
    players.step(log.merge(1, 1), 2)
    log.merge(2, 1)
    behind.read_merges()
    assert behind.merged == 0 and behind.epoch == 2
    behind.poll()
    assert behind.epoch == 2
    assert behind.pool.epochs[2].attempt == 2
    assert list(behind.active) == list(log.state.active)


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.data())
def test_any_history_of_kills_and_rewinds_folds_to_what_verify_derives(
    tmp_path_factory: Any, data: st.DataObject
) -> None:
    """Views that followed along, views that start now, and `rods verify` agree; and the invariants
    hold."""
    run = make_run(tmp_path_factory.mktemp("any") / "run")
    levels = data.draw(st.lists(st.integers(0, 10), min_size=7, max_size=7))

    def rewards(step: int, slot: EpochSlot, expected: int) -> list[int]:
        level = levels[(int(slot.task_id[:6], 16) + step // 5) % 7]
        return [expected if (step * 7 + index * 3) % 10 < level else 0 for index in range(4)]

    players = Players(run, TrainerLog(run), SyncDaemonLog(run))
    players.rewards = rewards
    players.trainer.start()
    following = RunState(run)
    for _ in range(data.draw(st.integers(3, 9))):
        action = data.draw(
            st.sampled_from(["epoch", "epoch", "part", "rewind", "cut merge", "cut step", "poll"])
        )
        if action == "epoch":
            players.epoch(players.trainer.state.epoch + 1)
        elif action == "part":
            players.epoch(players.trainer.state.epoch + 1, steps=2)
        elif action == "poll":
            following.poll()
        else:
            if action != "rewind":
                players.epoch(players.trainer.state.epoch + 1, steps=int(action == "cut step"))
            players.trainer.close()
            if action != "rewind":
                log = POOL if action == "cut merge" else OBSERVATIONS
                cut_tail(run.path / log, data.draw(st.integers(1, 400)))
            players.trainer = TrainerLog(run)
            last = players.trainer.state.last_step
            players.trainer.start(data.draw(st.integers(0, last)) if action == "rewind" else None)
    following.poll()
    following.poll()
    assert list(following.active.values()) == list(players.trainer.state.active.values())
    assert following.pool.epochs == players.trainer.state.pool.epochs
    assert set(run.training) <= set(following.active)
    close(players)
    report = verify(run.path)
    assert report.ok, report.problems


def cut_tail(path: Path, count: int) -> None:
    """What a kill in the middle of the last write leaves: never more than the last group is
    missing."""
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    records = list(read_raw(path))
    if not records:
        return
    first = records[-1].get("first", records[-1]["seq"])
    size = len(b"".join(lines[len(lines) - (records[-1]["seq"] - first + 1) :]))
    path.write_bytes(data[: len(data) - min(count, size)])
