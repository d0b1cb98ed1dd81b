"""Writers, readers, staging, pool and retirement against models that know nothing of files.

Hypothesis draws what happens: records, groups, kills in the middle of a write, cuts of a log,
rewinds, merges. After every move the real thing must be what plain lists say. `RODS_FULL=1` draws
200 histories of 30 moves each.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rods.buffers.audit.verify import verify
from rods.buffers.folds.pool import windows_json
from rods.buffers.log.record_bytes import line, record
from rods.buffers.log.tail import Tail, read, read_raw
from rods.buffers.log.writer import LogWriter
from rods.buffers.merging.merger import Epoch
from rods.buffers.run.runfolder import OBSERVATIONS, POOL, SEEDS
from rods.buffers.state import RunState
from rods.buffers.trainer_log import TrainerLog
from rods.rules.order import batch, steps_per_epoch
from rods.rules.retirement import TOO_HARD
from rods.tasks import Task
from tests.buffers.merging.test_merge_model import Model
from tests.buffers.world import (
    BATCH,
    SyncDaemonLog,
    generation_of,
    group,
    make_run,
    retired,
    variants,
)
from tests.records import filled

FULL = bool(os.environ.get("RODS_FULL"))
# a disk's fsyncs would take most of the time
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
COMMON: dict[str, Any] = {
    "phases": [Phase.generate],
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "stateful_step_count": 30,
}


class LogMachine(RuleBasedStateMachine):
    """One log with a writer that may be killed anywhere, and readers that came at different
    times."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.path = self.folder / "x.jsonl"
        self.counted: list[int] = []  # numbers of records that a fold may believe, in order
        self.whole = 0  # whole records in the file
        self.number = 0
        self.writer = LogWriter(self.path, part_bytes=700)
        self.readers: list[tuple[Tail, list[int]]] = []

    def next(self) -> int:
        self.number += 1
        return self.number

    def members(self, count: int) -> list[dict[str, Any]]:
        return [filled("group", attempt=1, step=1, index=self.next()) for _ in range(count)]

    @rule()
    def append(self) -> None:
        self.writer.append([record("start", attempt=self.next(), from_step=0)])
        self.counted.append(self.number)
        self.whole += 1

    @rule(count=st.integers(0, 4))
    def append_group(self, count: int) -> None:
        first = self.number + 1
        self.writer.append_group(self.members(count), filled("step", attempt=1, step=self.next()))
        self.counted += range(first, self.number + 1)
        self.whole += count + 1

    @rule(count=st.integers(1, 3), cut=st.integers(0, 10_000))
    def be_killed(self, count: int, cut: int) -> None:
        """In the middle of writing a group: any number of its bytes have arrived."""
        members = self.members(count)
        closing = {**filled("step", attempt=1, step=self.next()), "first": self.writer.seq + 1}
        data = b"".join(
            line(self.writer.seq + 1 + place, one) for place, one in enumerate([*members, closing])
        )
        data = data[: cut % len(data)]
        with self.path.open("ab") as file:
            file.write(data)
        self.whole += data.count(b"\n")
        self.writer.close()
        self.writer = LogWriter(self.path, part_bytes=700)

    @rule()
    def cut(self) -> None:
        self.writer.rotate()

    @rule()
    def reopen(self) -> None:
        self.writer.close()
        self.writer = LogWriter(self.path, part_bytes=700)

    @rule()
    def a_reader_comes(self) -> None:
        self.readers.append((Tail(self.path), []))

    @rule()
    def readers_look(self) -> None:
        for tail, seen in self.readers:
            seen += map(number, tail.poll())
            assert seen == self.counted

    @invariant()
    def what_counts_is_there_in_order(self) -> None:
        assert [number(found) for found in read(self.path)] == self.counted
        assert [found["seq"] for found in read_raw(self.path)] == list(range(1, self.whole + 1))
        assert self.writer.seq == self.whole

    def teardown(self) -> None:
        self.readers_look()
        self.writer.close()
        shutil.rmtree(self.folder)


def number(found: dict[str, Any]) -> int:
    """What tells the records of LogMachine apart."""
    return int(found[FIELD[found["kind"]]])


FIELD = {"start": "attempt", "group": "index", "step": "step"}


class RunMachine(RuleBasedStateMachine):
    """A run with a trainer and a daemon that may be killed and set back, against a model that
    replays all of history with exact fractions at every merge."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.fresh = list(variants())
        # live: step, task, resolved, expected turns
        self.history: list[tuple[int, str, list[int], int]] = []
        self.merges: list[tuple[int, list[tuple[str, str, str]]]] = []  # live: step, decisions
        self.fixed: list[int] = []  # how many variants a merge of this number has read, ever
        self.written: list[str] = []  # variants in the order of the log
        self.trainer: TrainerLog
        self.daemon: SyncDaemonLog

    @initialize(
        most=st.integers(1, 6),
        share=st.sampled_from([0.17, 0.29, 0.5]),
        burn_in=st.integers(1, 2),
        window=st.integers(2, 4),
        unsampled=st.integers(1, 3),
    )
    def create(self, most: int, share: float, burn_in: int, window: int, unsampled: int) -> None:
        pool = {
            "max_generated": most,
            "inject_fraction": share,
            "burn_in_observations": burn_in,
            "unsampled_epochs": unsampled,
        }
        self.run = make_run(
            self.folder / "run",
            pool=pool,
            zones={"window": window},
            operation={"log_part_bytes": 4_000},
        )
        self.daemon = SyncDaemonLog(self.run)
        self.start_trainer(0)

    def start_trainer(self, back: int) -> None:
        self.trainer = TrainerLog(self.run)
        from_step = max(0, self.trainer.state.last_step - back)
        self.trainer.start(from_step)
        self.history = [seen for seen in self.history if seen[0] <= from_step]
        self.merges = [merge for merge in self.merges if merge[0] <= from_step]
        if self.merges:
            self.replay([])
        self.open_epoch(max(0, len(self.merges) - 1))

    def open_epoch(self, epoch: int) -> None:
        made: Epoch = self.trainer.merge(epoch, 1)
        self.opened = made
        self.played = 0
        if made.recorded:
            return
        del self.merges[epoch:]
        self.fixed += [len(self.written)] if epoch == len(self.fixed) else []
        said = [found for found in read(self.run.path / POOL) if found["epoch"] == epoch][
            -1 - sum_of(made) : -1
        ]
        decisions = [(found["kind"], found["task"], found.get("rule", "")) for found in said]
        assert decisions == self.replay([self.trainer.state.last_step])
        self.merges.append((self.trainer.state.last_step, decisions))

    def replay(self, more: list[int]) -> list[tuple[str, str, str]]:
        """All live merges again, from nothing, and those after the steps `more`: what the last one
        decides."""
        model = Model(list(self.run.training), self.run.config.pool, self.run.config.zones)
        seen = read_so_far = 0
        steps = [step for step, _ in self.merges] + more
        for epoch, step in enumerate(steps):
            while seen < len(self.history) and self.history[seen][0] <= step:
                model.observe(*self.history[seen])
                seen += 1
            for place in range(read_so_far, self.fixed[epoch]):
                known = (
                    self.written[place] in self.written[:place]
                    or self.written[place] in self.run.training
                )
                model.waiting.append((self.written[place], "duplicate" if known else "injected"))
            read_so_far = max(read_so_far, self.fixed[epoch])
            decided = model.merge(step, expand=True)
            if epoch < len(self.merges):
                assert decided == self.merges[epoch][1]
        self.model = model
        return decided

    @rule(level=st.integers(0, 10))
    def step(self, level: int) -> None:
        """The next batch: how well the policy does depends on the task and on `level`."""
        step = self.trainer.state.last_step + 1
        slots = batch(
            self.opened.slots, BATCH, self.played % steps_per_epoch(len(self.opened.slots), BATCH)
        )
        self.played += 1
        groups = []
        for slot in slots:
            task = self.trainer.task(slot.task_id)
            able = (int(slot.task_id[:4], 16) + level) % 11
            done = [task.expected if 3 * index % 10 < able else 0 for index in range(4)]
            groups.append(group(task, done, slot.role))
            self.history.append((step, task.id, done, task.expected))
        assert self.trainer.write_step(step, self.opened.number, groups)
        # sent twice, taken once
        assert not self.trainer.write_step(step, self.opened.number, groups)
        self.last_slots = slots

    @precondition(
        lambda self: (
            self.history and self.trainer.state.last_step > self.daemon.state.last_considered
        )
    )
    @rule(again=st.booleans(), finish=st.booleans())
    def synthesise(self, again: bool, finish: bool) -> None:
        """The daemon picks one of the last step's tasks and writes a variant, perhaps one that it
        wrote before."""
        step = self.trainer.state.last_step
        seed = next(seen[1] for seen in self.history if seen[0] == step)
        generation = generation_of(self.trainer.state.pool, seed) + 1
        repeated = again and bool(self.written)
        if generation > self.run.config.selection.max_generation or not (repeated or self.fresh):
            self.daemon.picked(step, self.opened.number, [])
            return
        task: Task = (
            next(one for one in variants() if one.id == self.written[0])
            if repeated
            else self.fresh.pop()
        )
        self.daemon.note_epoch(self.opened.number)
        self.daemon.picked(
            step,
            self.opened.number,
            [{"task": seed, "type": "base", "score": 1.0, "why": {"generation": 0}}],
        )
        pick = f"{step}-{seed}"
        self.daemon.expanded(pick, 0, task, {"generation": generation, "seed": seed})
        self.written.append(task.id)
        if finish:
            self.daemon.finished(pick, [task.id], 0)

    @precondition(lambda self: self.played)
    @rule()
    def merge(self) -> None:
        self.open_epoch(self.opened.number + 1)

    @rule(
        back=st.integers(0, 6),
        torn=st.integers(0, 5_000),
        log=st.sampled_from([OBSERVATIONS, POOL]),
    )
    def kill_trainer(self, back: int, torn: int, log: str) -> None:
        """It was writing, and its last checkpoint is up to six steps old."""
        self.trainer.close()
        writes = log == OBSERVATIONS
        kind, key = ("group", "index") if writes else ("injected", "expanded")
        void = filled(
            kind,
            attempt=self.trainer.state.attempt,
            # a merge knows of steps that are durable
            step=self.trainer.state.last_step + writes,
            epoch=9_999,
            task="t",
            **{key: 9_999},
        )
        leave_torn(self.run.path / log, void, torn)
        self.start_trainer(back)

    @rule(torn=st.integers(0, 5_000))
    def kill_daemon(self, torn: int) -> None:
        self.daemon.close()
        leave_torn(self.run.path / SEEDS, filled("picked", step=9_999, task="t"), torn)
        self.daemon = SyncDaemonLog(self.run)
        # all variants were written: such picks are finished at a start
        assert not self.daemon.state.unfinished

    @invariant()
    def every_reader_sees_the_same(self) -> None:
        if not hasattr(self, "model"):
            return
        state = RunState(self.run, every_step=False)
        state.poll()
        assert set(state.active) == set(self.trainer.state.active) == set(self.model.active)
        gone = {task: rule for task, (rule, _, _) in retired(state).items()}
        assert gone == {task: rule for task, (rule, _) in self.model.retired.items()}
        assert state.pool.retired == len(gone)
        assert set(state.pool.revivable) == {
            task for task, rule in gone.items() if rule in TOO_HARD
        }
        assert windows_json(state.tracker, state.pool) == windows_json(
            self.trainer.state.tracker, self.trainer.state.pool
        )
        assert state.staging.seq == len(self.written)
        assert len(state.staging) == len(self.written) - len(state.pool.decided)

    def teardown(self) -> None:
        if hasattr(self, "trainer"):
            self.trainer.close()
            self.daemon.close()
            assert verify(self.run.path).problems == []
        shutil.rmtree(self.folder)


def sum_of(made: Epoch) -> int:
    """How many decisions a merge has recorded."""
    return sum(made.counts[kind] for kind in ("revived", "retired", "injected", "refused"))


def leave_torn(path: Path, content: dict[str, Any], cut: int) -> None:
    """What a kill in the middle of a write leaves: whole records that nothing closes, and a piece
    of one."""
    seq = LogWriter(path).seq
    data = b"".join(line(seq + 1 + place, content) for place in range(3))
    with path.open("ab") as file:
        file.write(data[: cut % len(data)])


@pytest.mark.slow
def test_a_log_is_what_its_model_says() -> None:
    run_state_machine_as_test(
        LogMachine, settings=settings(max_examples=200 if FULL else 30, **COMMON)
    )


@pytest.mark.sweep
def test_staging_pool_and_retirement_are_what_their_model_says() -> None:
    run_state_machine_as_test(
        RunMachine, settings=settings(max_examples=200 if FULL else 8, **COMMON)
    )
