"""The closed loop as two real processes: any order of start, kills, lockstep, a trainer that
outruns the daemon."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.log.record_bytes import Record
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, EXTENSIONS, OBSERVATIONS, POOL, REJECTED, SEEDS
from rods.buffers.state import read_state
from rods.console.main import run as rods
from rods.errors import EXIT_DEADLINE, EXIT_OK, EXIT_REFUSED, UserError
from tests import forked
from tests.trainer.runs import live_steps, write_config

IMPORTS = {
    "trainer": ("rods.trainer.main", "rods.trainer.simulated"),
    "daemon": ("rods.daemon.main",),
}
LOOP: dict[str, Any] = {
    "data.train": 16,
    "data.held_out": 8,
    "policy.skill": 0.5,
    "policy.growth": 0.01,
    "rollouts.rollouts_per_task": 8,
    "training.batch_tasks": 8,
    "training.steps": 1000,
    "training.checkpoint_steps": 3,
    "curriculum.stages": [{"epochs": 8}],
    "selection.seeds_per_step": 3,
    "selection.exclusion_steps": 3,
    "operation.poll_seconds": 0.05,
    "operation.deadline_seconds": 120.0,
}


@dataclass
class Pair:
    """Trainer and daemon of one run; either may be killed and started again."""

    run: Path
    config: Path
    processes: dict[str, forked.Process] = field(default_factory=dict)

    def start(self, name: str) -> None:
        arguments = (self.run, "--config", self.config)
        with (
            (self.run.parent / f"{name}.err").open("ab") as errors,
            Path(os.devnull).open("r+b") as nothing,
        ):
            self.processes[name] = forked.Process(
                f"rods.{name}", arguments, IMPORTS[name], (nothing, nothing, errors)
            )

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def pace_trainer(self) -> None:
        """Keeps the trainer from its next step until a variant is staged, or for some seconds where
        the last step brings none, however slow the daemon is."""
        trainer = self.processes["trainer"]
        for _ in range(4):
            if not self.moves("trainer", records=1) or self.staged():
                return
            trainer.send_signal(signal.SIGSTOP)
            held_until = time.monotonic() + 20.0
            while not self.staged() and time.monotonic() < held_until:
                time.sleep(0.02)
            trainer.send_signal(signal.SIGCONT)

    def staged(self) -> bool:
        return bool(list(read(self.run / EXPANDED)))

    def closed(self, name: str) -> int:
        """How many groups of records the process has closed."""
        log, mark = {
            "trainer": (OBSERVATIONS, b'"kind":"step"'),
            "daemon": (SEEDS, b'"kind":"considered"'),
        }[name]
        path = self.run / log
        return path.read_bytes().count(mark) if path.exists() else 0

    def moves(self, name: str, records: int, before: int | None = None) -> bool:
        """Waits until the process has closed so many groups more than `before` (now); False when
        the trainer has ended before."""
        before = self.closed(name) if before is None else before
        while self.closed(name) < before + records:
            if self.processes["trainer"].poll() is not None:
                return False
            time.sleep(0.005)
        return True

    def wait(self, timeout: float = 200.0) -> int:
        """Until the trainer ends; then the daemon is asked to stop. Returns the trainer's code."""
        try:
            return self.processes["trainer"].wait(timeout)
        finally:
            for process in self.processes.values():
                process.terminate()
            for process in self.processes.values():
                process.wait(60)

    def errors(self) -> str:
        return "".join((self.run.parent / f"{name}.err").read_text() for name in self.processes)


def pair(folder: Path, **changes: Any) -> Pair:
    folder.mkdir(exist_ok=True)
    return Pair(folder / "run", write_config(folder / "c.toml", LOOP | changes))


def run_to_end(
    folder: Path, first: str = "trainer", kills: int = 0, *, paced: bool = False, **changes: Any
) -> Path:
    """Both processes until the trainer is done; `kills` times one of them is killed with -9 and
    started again; `paced`: the trainer waits in the beginning until the daemon has a variant."""
    loop = pair(folder, **changes)
    names = ["trainer", "daemon"] if first == "trainer" else ["daemon", "trainer"]
    for name in names:
        loop.start(name)
    if paced:
        loop.pace_trainer()
    moments = random.Random(kills)
    for number in range(kills):
        name = ("trainer", "daemon")[number % 2]
        if not loop.moves(name, records=moments.randint(1, 3)):
            break
        time.sleep(moments.uniform(0, 0.05))
        loop.kill(name)
        loop.start(name)
    assert loop.wait() == EXIT_OK, loop.errors()
    assert "Traceback" not in loop.errors()
    return loop.run


def pools(path: Path) -> list[bytes]:
    """The pool of every live epoch, with its order, as bytes."""
    state = read_state(Run.open(path))
    found = []
    for epoch in range(1000):
        try:
            pool = state.pool_at(epoch)
        except KeyError:
            break
        members = sorted(
            (one.task_id, one.type, one.generation, one.epoch, one.since)
            for one in pool.active.values()
        )
        gone = sorted(
            (one.member.task_id, one.rule, one.epoch, one.step) for one in pool.revivable.values()
        )
        found.append(
            orjson.dumps(
                [members, gone, pool.retired, (pool.latest or {})["order"], pool.epochs[-1].step]
            )
        )
    return found


def attempts(path: Path) -> int:
    """How many starts of the trainer were recorded."""
    return sum(record["kind"] == "start" for record in read(path / OBSERVATIONS))


def injected(path: Path) -> int:
    return sum(
        record["counts"]["injected"] for record in read(path / POOL) if record["kind"] == "epoch"
    )


@pytest.fixture(scope="module")
def lockstep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lockstep run that nobody disturbed."""
    return run_to_end(tmp_path_factory.mktemp("lockstep"), sync="lockstep")


def test_the_pool_grows_at_epoch_boundaries_and_verify_agrees(lockstep: Path) -> None:
    assert len(pools(lockstep)) == 8
    assert len({step for step, *_ in live_steps(lockstep)}) >= 16
    assert injected(lockstep) >= 8
    report = verify(lockstep, replay=True)
    assert report.ok, report.problems


@pytest.mark.parametrize(
    ("first", "kills"),
    [
        pytest.param("daemon", 0, marks=pytest.mark.sweep),
        pytest.param("trainer", 4, marks=pytest.mark.slow),
        ("daemon", 5),
    ],
)
def test_in_lockstep_equal_seeds_give_equal_pools_killed_or_not(
    tmp_path: Path, lockstep: Path, first: str, kills: int
) -> None:
    again = run_to_end(tmp_path / "again", first, kills, sync="lockstep")
    assert attempts(again) > kills // 4, "no kill hit a trainer at work"
    assert pools(again) == pools(lockstep)
    assert live_steps(again) == live_steps(lockstep)
    assert verify(again, replay=True).ok


@pytest.mark.slow
def test_a_lockstep_run_that_is_extended_is_as_if_it_had_been_so_long_from_its_start(
    tmp_path: Path, lockstep: Path
) -> None:
    """Extended twice, when it was finished and in the middle, with kills before and after."""
    short: dict[str, Any] = {"sync": "lockstep", "curriculum.stages": [{"epochs": 3}]}
    loop = pair(tmp_path / "extended", **short)

    def go_on(kill: str) -> None:
        before = loop.closed(kill)
        for name in ("trainer", "daemon"):
            loop.start(name)
        assert loop.moves(kill, 2, before)
        loop.kill(kill)
        loop.start(kill)

    go_on("trainer")
    assert loop.wait() == EXIT_OK, loop.errors()
    assert len(pools(loop.run)) == 3
    for epochs in (6, 8):
        write_config(loop.config, LOOP | short | {"curriculum.stages": [{"epochs": epochs}]})
        assert rods(["trainer", "extend", str(loop.run), "--config", str(loop.config)]) == EXIT_OK
        go_on("daemon")
        if epochs == 6:
            assert rods(["trainer", "extend", str(loop.run), "--steps", "999"]) == EXIT_REFUSED
            for name in ("trainer", "daemon"):
                loop.kill(name)
    assert loop.wait() == EXIT_OK, loop.errors()
    assert pools(loop.run) == pools(lockstep)
    assert live_steps(loop.run) == live_steps(lockstep)
    checked = verify(loop.run, replay=True)
    assert checked.ok and sum("extended" in note for note in checked.notes) == 2
    (loop.run / EXTENSIONS).unlink()
    assert any("a checkpoint knows of 2" in str(problem) for problem in verify(loop.run).problems)


@pytest.mark.slow
def test_other_random_seeds_give_other_pools(tmp_path: Path, lockstep: Path) -> None:
    changes: dict[str, Any] = {"random_seeds.daemon": 1}
    other = run_to_end(tmp_path / "other", sync="lockstep", **changes)
    assert pools(other)[0] == pools(lockstep)[0]
    assert pools(other)[1] != pools(lockstep)[1]


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("first", ["trainer", "daemon"])
def test_in_free_mode_either_may_be_killed_and_the_run_goes_on(tmp_path: Path, first: str) -> None:
    pace = {"operation.steps_per_second": 8.0}
    run = run_to_end(tmp_path / "free", first, kills=4, paced=True, **pace)
    report = verify(run, replay=True)
    assert report.ok, report.problems
    assert len(pools(run)) == 8
    assert injected(run) >= 1


@pytest.mark.slow
def test_the_loop_runs_on_the_benchmarks_400_training_tasks(tmp_path: Path) -> None:
    try:
        pytest.importorskip("rods.worlds.bfcl").wheel.path()
    except UserError:
        pytest.skip("no BFCL data here: `rods data bfcl` fetches them")
    changes: dict[str, Any] = {"data.tasks": "bfcl", "data.train": 0, "data.held_out": 0}
    changes |= {
        "training.batch_tasks": 40,
        "rollouts.rollouts_per_task": 4,
        "curriculum.stages": [{"epochs": 2}],
    }
    run = run_to_end(tmp_path / "bfcl", "daemon", sync="lockstep", **changes)
    assert [len(orjson.loads(pool)[0]) >= 400 for pool in pools(run)] == [True] * 2
    assert injected(run) >= 4
    report = verify(run, replay=True)
    assert report.ok, report.problems


def test_without_a_daemon_the_trainer_trains(tmp_path: Path) -> None:
    loop = pair(tmp_path / "alone")
    loop.start("trainer")
    assert loop.wait() == EXIT_OK, loop.errors()
    assert injected(loop.run) == 0
    assert verify(loop.run).ok


@pytest.mark.slow
def test_without_a_daemon_lockstep_ends_with_a_code_of_its_own(tmp_path: Path) -> None:
    loop = pair(tmp_path / "alone", sync="lockstep", **{"operation.deadline_seconds": 0.3})
    loop.start("trainer")
    assert loop.wait() == EXIT_DEADLINE
    assert "Traceback" not in loop.errors()
    loop.config = write_config(tmp_path / "more.toml", LOOP | {"sync": "lockstep"})
    loop.start("daemon")
    loop.start("trainer")
    assert loop.wait() == EXIT_OK, loop.errors()
    assert verify(loop.run).ok


@pytest.mark.slow
def test_a_trainer_that_outruns_the_daemon_leaves_memory_flat_and_seeds_young(
    tmp_path: Path,
) -> None:
    """The trainer runs unpaced; one worker writes, and no candidate passes a gate, so that every
    pick costs ten attempts and nothing ever fills the staging (which would let the daemon
    pause)."""
    steps = 600
    loop = pair(
        tmp_path / "fast",
        **{
            "curriculum.stages": [{"epochs": 0}],
            "training.steps": steps,
            "training.checkpoint_steps": 200,
            "policy.growth": 0.0,
            "gates.max_string": 1,
            "pipeline.attempts": 10,
            "selection.exclusion_steps": 0,
            "operation.workers": 1,
        },
    )
    loop.start("daemon")
    loop.start("trainer")
    memory: list[tuple[float, float]] = []
    while loop.processes["trainer"].poll() is None:
        # both work, and have imported what they need
        log = loop.run / REJECTED
        if log.exists() and log.read_bytes().count(b"\n") > 20:
            memory.append(
                (resident(loop.processes["trainer"].pid), resident(loop.processes["daemon"].pid))
            )
        time.sleep(0.05)
    assert loop.wait() == EXIT_OK, loop.errors()
    assert len(memory) > 12
    for sizes in zip(*memory[:-2], strict=True):  # the last looks may meet a process that has ended
        settled = sizes[len(sizes) // 3 :]
        assert settled[-1] - settled[0] < 8, f"{settled[0]:.0f} → {settled[-1]:.0f} MiB"
    seeds = list(read(loop.run / SEEDS))
    considered = sum(record["kind"] == "considered" for record in seeds)
    assert 10 < considered < steps / 2, "the trainer did not outrun the daemon"
    waited = steps_waited(seeds)
    assert len(waited) >= 5  # of a quick trainer's few seconds
    assert max(waited) <= 2, "seeds grew old in the queue"  # operation.queue_steps
    stale = [record["dropped_stale"] for record in seeds if record.get("dropped_stale")]
    assert stale and all("before anyone was free" in why for why in stale)


def resident(pid: int) -> float:
    """MiB of resident memory; 0 once the process has ended."""
    try:
        return (
            int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            * os.sysconf("SC_PAGE_SIZE")
            / 2**20
        )
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def steps_waited(seeds: list[Record]) -> list[int]:
    """For every seed that the only worker worked on: how many later steps had been considered when
    it could begin, at the end of the seed before. (How many pass while it is worked on is a matter
    of the machine.)"""
    order = {
        record["step"]: place
        for place, record in enumerate(r for r in seeds if r["kind"] == "considered")
    }
    waited = []
    newest = 0
    begun = 0
    for record in seeds:
        if record["kind"] == "considered":
            newest = order[record["step"]]
        elif record["kind"] == "finished" and not record.get("dropped_stale"):
            waited.append(begun - order[int(record["pick"].split("-")[0])])
            begun = newest
    return waited


@pytest.mark.slow
def test_one_rollout_a_task_and_a_change_of_feedback_leave_the_loop_reproducible(
    tmp_path: Path,
) -> None:
    """The probe reads windows (004 Appendix K), hints end with the first stage, and both processes
    are killed."""
    stages = [{"feedback": "hints", "epochs": 4}, {"epochs": 4}]
    changes: dict[str, Any] = {
        "sync": "lockstep",
        "rollouts.rollouts_per_task": 1,
        "training.advantage_baseline": "batch",
        "training.advantage_scale": "batch",
        "zones.probe": "window",
        "zones.window": 6,
        "pool.burn_in_observations": 6,
        "pool.drift_observations": 6,
        "curriculum.stages": stages,
    }
    whole = run_to_end(tmp_path / "whole", **changes)
    killed = run_to_end(tmp_path / "killed", kills=3, **changes)
    assert pools(killed) == pools(whole)
    assert injected(whole) >= 1 and verify(whole).ok and verify(killed).ok
    shown = {(groups[0]["stage"], groups[0]["interface"]) for *_, groups in live_steps(whole)}
    assert shown == {(1, "hints-2-terse"), (2, "identity")}
