"""No variant holds a place in the pool for ever, whatever its groups look like (invariant 13)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.merging.merger import Epoch
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import POOL
from rods.buffers.trainer_log import TrainerLog
from rods.observations import Group
from rods.rules.order import batch
from tests.buffers.world import BATCH, Players, SyncDaemonLog, group, make_run

# What a variant's groups look like: how its four rollouts end, and how many of them are solved.
# Two of four cut make a group that counts and is truncated.
LOOKS: dict[str, tuple[list[Any], int]] = {
    "cut": (["length"] * 4, 0),
    "no room": (["context"] * 4, 0),
    "mostly cut": (["length", "context", "length", "finished"], 1),
    "half cut": (["length", "length", "finished", "finished"], 1),
    "broken": (["infrastructure"] * 4, 0),
    "broken and cut": (["infrastructure", "infrastructure", "length", "length"], 0),
    "mostly broken": (["infrastructure"] * 3 + ["finished"], 1),
    "never solved": (["finished"] * 4, 0),
    "half solved": (["finished"] * 4, 2),
    "solved": (["finished"] * 4, 4),
    "too old": (["finished"] * 4, 2),  # its weights lack more updates than count
}
NOTHING_COUNTS = ("cut", "no room", "mostly cut", "broken", "broken and cut", "mostly broken")
STALE = 20  # updates; more than zones.max_staleness


class Fates(Players):
    """Originals are half solved; the groups of the nth variant look as `fates` says, round and
    round. One variant is written a step, while `writes`."""

    def __init__(self, run: Run, fates: list[list[str]]) -> None:
        super().__init__(run, TrainerLog(run), SyncDaemonLog(run))
        self.fates = fates
        self.met: Counter[str] = Counter()
        self.numbers: dict[str, int] = {}
        self.trainer.start()

    def step(self, opened: Epoch, index: int) -> None:
        step = self.trainer.state.last_step + 1
        slots = batch(opened.slots, BATCH, index)
        groups: list[Group] = []
        old = False
        for slot in slots:
            look = "half solved"
            if slot.task_id not in self.run.training:
                fate = self.fates[self.number(slot.task_id) % len(self.fates)]
                look = fate[self.met[slot.task_id] % len(fate)]
                self.met[slot.task_id] += 1
            old = old or look == "too old"
            groups.append(self.looking(slot.task_id, look, slot.role))
        policy_step = max(0, step - STALE) if old else None
        self.trainer.write_step(step, opened.number, groups, policy_step=policy_step)
        if self.daemon is not None:
            self.synthesise(step, opened.number, slots[0])

    def number(self, task_id: str) -> int:
        return self.numbers.setdefault(task_id, len(self.numbers))

    def looking(self, task_id: str, look: str, role: Any) -> Group:
        task = self.trainer.task(task_id)
        ends, solved = LOOKS[look]
        played = group(task, [task.expected * (index >= 4 - solved) for index in range(4)], role)
        rollouts = tuple(
            replace(rollout, end=end) for rollout, end in zip(played.rollouts, ends, strict=True)
        )
        return replace(played, rollouts=rollouts)

    def close(self) -> None:
        self.trainer.close()
        if self.daemon is not None:
            self.daemon.close()


def played(path: Path, fates: list[list[str]], epochs: int, **pool: Any) -> list[Record]:
    """The pool's records of a run whose variants fare so."""
    players = Fates(make_run(path, pool=pool), fates)
    for number in range(epochs):
        players.epoch(number)
    players.trainer.merge(epochs, 1)
    players.close()
    report = verify(path)
    assert report.ok, report.problems
    return list(read(path / POOL))


def retired(records: list[Record]) -> Counter[str]:
    return Counter(record["rule"] for record in records if record["kind"] == "retired")


@pytest.mark.parametrize("look", ["cut", "no room", "mostly cut", "half cut"])
def test_what_is_cut_each_time_leaves_and_others_come(tmp_path: Path, look: str) -> None:
    records = played(tmp_path / "run", [[look]], 12, capacity=False)
    assert set(retired(records)) == {"truncated"}
    injected = [record["epoch"] for record in records if record["kind"] == "injected"]
    assert len(injected) > 6, "more than the pool holds"
    assert max(injected) > 6
    came = {record["task"]: record["epoch"] for record in records if record["kind"] == "injected"}
    ages = {
        record["epoch"] - came[record["task"]] for record in records if record["kind"] == "retired"
    }
    assert ages <= {2, 3}, "after three groups; a batch that is filled up has one more of some"


def test_a_switch_keeps_what_is_cut(tmp_path: Path) -> None:
    records = played(tmp_path / "run", [["cut"]], 6, capacity=False, truncated_groups=0)
    assert not retired(records)


@pytest.mark.parametrize("look", ["broken", "mostly broken"])
def test_what_the_machinery_breaks_each_time_makes_room_only_where_others_wait(
    tmp_path: Path, look: str
) -> None:
    wanted = played(tmp_path / "wanted", [[look]], 12)
    assert set(retired(wanted)) == {"capacity"}
    unwanted = played(tmp_path / "unwanted", [[look]], 6, max_generated=60, inject_fraction=0.2)
    assert not retired(unwanted)


@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    fates=st.lists(
        st.lists(st.sampled_from(sorted(LOOKS)), min_size=1, max_size=4), min_size=1, max_size=5
    ),
    most=st.integers(1, 5),
    patience=st.integers(1, 3),
    window=st.integers(1, 4),
)
def test_no_variant_holds_a_place_for_ever(
    tmp_path_factory: Any, fates: list[list[str]], most: int, patience: int, window: int
) -> None:
    """While others wait, the pool never goes `patience` + 1 merges without an injection; and one of
    which no group ever counts is gone after as many epochs, or has made nobody wait."""
    run = make_run(
        tmp_path_factory.mktemp("places") / "run",
        pool={"max_generated": most, "truncated_groups": patience, "unsampled_epochs": patience},
        zones={"window": window},
    )
    players = Fates(run, fates)
    for number in range(10):
        players.epoch(number)
    players.close()
    quiet = 0
    came: dict[str, int] = {}
    for record in read(run.path / POOL):
        if record["kind"] in ("injected", "revived"):
            came[record["task"]] = record["epoch"]
        elif record["kind"] == "retired":
            came.pop(record["task"])
        elif record["kind"] == "epoch":
            waiting = record["deferred"]["count"] > 0
            quiet = quiet + 1 if waiting and not record["counts"]["injected"] else 0
            assert quiet <= patience, f"epoch {record['epoch']}: nothing comes, {came} stay"
            for task, epoch in came.items():
                fate = fates[players.number(task) % len(fates)]
                if waiting and all(look in NOTHING_COUNTS for look in fate):
                    assert record["epoch"] - epoch <= patience
    report = verify(run.path)
    assert report.ok, report.problems
