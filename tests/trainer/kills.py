"""kill -9 of the trainer at random moments, again and again on the same run, until the run is
finished.

`python -m tests.trainer.kills` prints the rows of docs/durability.md: 20 kills in lockstep and 20
in free mode, of nano through TRL, of the simulated policy, and of the same where half of the tasks
are drawn for their step, each with the real daemon beside it. Moments are drawn over the whole run:
while a start comes up, while a checkpoint is written, right after a merge, and anywhere.

In lockstep the run must end as one that nobody killed did: the same groups in the same order, the
same pool in every epoch, the same picks and variants, the same tracker, the same drawn tasks at the
same difficulties, and the same bytes of weights and optimizer. At no kill may a step name a drawn
task that is not in its log. In free mode `rods verify` must agree, and no epoch that was once
committed may be decided otherwise later.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from rods.buffers.folds.seeds import Seeds
from rods.buffers.log.parts import segments
from rods.buffers.log.tail import read
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.canonical import canonical
from rods.errors import EXIT_OK
from rods.family.simulation.settings import DRAWN
from tests.faults.table import HEAD, Row
from tests.faults.workloads import LOGS, Verdict, judge
from tests.forked import Process
from tests.trainer.runs import start, write_config

KILLS = 20  # of each mode and policy
IN_A_RUN = 5  # a run is killed so often
LOOK = 0.003  # seconds between looks at what the trainer writes
PATIENCE = 900.0  # seconds that a start may take to come to its moment, on a very busy machine
CARRIED = ("seq", "id", "crc", "first", "attempt")  # what tells two records of one decision apart
Policy = Literal["nano", "simulated", "drawn"]
Sync = Literal["lockstep", "free"]
MODES: tuple[Sync, ...] = ("lockstep", "free")

COMMON: dict[str, Any] = {
    "data.tasks": "desk-small",
    "data.train": 12,
    "data.held_out": 4,
    "rollouts.rollouts_per_task": 4,
    "training.batch_tasks": 6,
    # epochs have two steps at first and more later: both fall together now and then
    "training.checkpoint_steps": 3,
    "zones.boundary_low": 0.0,  # a policy that has learnt little keeps the daemon busy all the same
    "zones.boundary_high": 1.0,
    "selection.seeds_per_step": 3,
    "selection.exclusion_steps": 0,
    "selection.skip_zero_variance": False,
    "selection.groups": [["base", "long_context", "miss_func", "miss_param"]],
    "pool.inject_fraction": 0.25,
    "pool.max_generated": 6,
    "pool.staging_epochs": 0.0,
    "operation.poll_seconds": 0.05,
}
# What makes a policy's tasks seeds that has learnt nothing, whose replies are all cut.
ANY_SEED: dict[str, Any] = {"selection.order": "random", "selection.candidates": "pool"}
POLICIES: dict[Policy, dict[str, Any]] = {
    "nano": {
        "policy.kind": "nano",  # with the weights that come with it
        "policy.dialect": "compact",
        "policy.carelessness": 0.5,
        "rollouts.max_steps": 3,
        "rollouts.max_reply_tokens": 32,
        "rollouts.max_context_tokens": 500,
        "training.steps": 10,
        "training.learning_rate": 0.01,
        "training.optimizer": "muon",
        "training.kl": 0.0,
        "training.deterministic": True,
    },
    "simulated": {
        "policy.kind": "simulated",
        "policy.skill": 0.5,
        "training.steps": 30,
        "operation.steps_per_second": 15.0,
    },
}
POLICIES["drawn"] = POLICIES["simulated"] | {"source.drawn": 0.5}


@dataclass
class Killed:
    """A run of which the trainer is killed. `moments` say where it was struck."""

    folder: Path
    config: Path
    chance: random.Random
    steps: int
    startup: float = 0.0  # seconds that the slowest start took to its first step
    moments: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: int = 0
    # whole lines of every log at the last kill
    seen: dict[str, bytes] = field(default_factory=dict)

    def until_finished(self, kills: int) -> None:
        """Kills the trainer `kills` times, each time from a random point of the run on, and lets
        the last one live."""
        for point in sorted(self.chance.uniform(0, self.steps) for _ in range(kills)):
            if not self._strike(int(point)):
                break  # it was finished
        with self._errors("ab") as errors:
            code = start(self.folder, self.config, errors).wait(PATIENCE)
        if code != EXIT_OK or "Traceback" in self._said():
            self.wrong.append(f"the last start ended with {code}: {self._said()[-1500:]}")
        self._compare()

    def written_out(self) -> None:
        """Waits until the daemon has considered the last step and written what it picked: no merge
        waits for that."""
        state = Seeds(self.folder)
        deadline = time.monotonic() + PATIENCE
        while state.watermark < self.steps:
            if time.monotonic() > deadline:
                self.wrong.append(f"the daemon was at step {state.watermark} in the end")
                return
            time.sleep(LOOK)
            state.poll()

    def _strike(self, step: int) -> bool:
        """One start, killed. False: it had ended by itself before its moment came, because the run
        was finished."""
        began = time.monotonic()
        with self._errors("ab") as errors:
            process = start(self.folder, self.config, errors)
        kind, moment = self._moment(process, step, began)
        while process.poll() is None and not moment():
            if time.monotonic() > began + PATIENCE:
                self.wrong.append(f"nothing came of {kind}")
                break
            time.sleep(LOOK)
        process.kill()
        code = process.wait()
        if code not in (-9, EXIT_OK):
            self.wrong.append(f"a start ended with {code}: {self._said()[-1500:]}")
        if code == -9:
            self.moments.append(
                f"{kind}, last step {(_closed(self.folder / runfolder.OBSERVATIONS) or [0])[-1]}"
            )
            self._compare()
        return code == -9

    def _moment(self, process: Process, step: int, began: float) -> tuple[str, Callable[[], bool]]:
        """Which moment is next, and whether it has come."""
        kind = self.chance.choice(("start", "checkpoint", "merge", "anywhere", "anywhere"))
        wait = self.chance.random()
        if kind == "start" and self.startup:
            return "while starting", lambda: time.monotonic() > began + wait * self.startup
        pool = self.folder / runfolder.POOL
        checkpoints = self.folder / "checkpoints"
        size = _size(pool)
        if kind == "checkpoint":
            return "writing a checkpoint", _delayed(
                lambda: any(checkpoints.glob("*.part")), wait * 0.1
            )
        if kind == "merge":
            return "at a merge", _delayed(lambda: _size(pool) > size, wait * 0.05)
        log = self.folder / runfolder.OBSERVATIONS
        before = _closed(log)

        def there() -> bool:
            closed = _closed(log)
            if len(closed) > len(before) and not self.startup:
                self.startup = time.monotonic() - began
            return len(closed) > len(before) and closed[-1] >= step

        return "anywhere", _delayed(there, wait * 2)

    def _compare(self) -> None:
        """What stood in a log at the last kill, whole lines, must stand there for good."""
        for log in LOGS:
            data = _content(self.folder, log)
            self.lost += not data.startswith(self.seen.get(log, b""))
            self.seen[log] = data[: data.rfind(b"\n") + 1]
        drawn = _named(self.folder, DRAWN, b'"kind":"drawn"', b'"task":{"id":"')
        unknown = (
            _named(self.folder, runfolder.OBSERVATIONS, b'"role":"drawn"', b'"task":"') - drawn
        )
        self.wrong += [
            f"task {one.decode()} was observed and is not on record" for one in sorted(unknown)
        ]

    def _said(self) -> str:
        return self.folder.with_suffix(".err").read_text(errors="replace")

    def _errors(self, mode: Literal["ab"]) -> Any:
        return self.folder.with_suffix(".err").open(mode)


def sweep(
    scratch: Path, sync: Sync, policy: Policy, kills: int, random_seed: int = 0, changes: Any = None
) -> Row:
    """`kills` kills of the trainer and the row of the table that comes of them. `changes` to the
    configuration."""
    scratch.mkdir(parents=True, exist_ok=True)
    values = {"sync": sync, **COMMON, **POLICIES[policy], **(changes or {})}
    config = write_config(scratch / "run.toml", values)
    row = Row(f"kill -9 at random moments: trainer of {policy}, {sync}")
    right = None
    if sync == "lockstep":
        whole = _killed(scratch / "whole", config, values, random.Random(0), 0)
        assert not whole.wrong, whole.wrong
        right = evidence(whole.folder)
        assert not right["problems"], right["problems"]
    number = 0
    while row.tried < kills:
        chance = random.Random(f"{random_seed} {sync} {policy} {number}")
        run = _killed(
            scratch / f"killed{number}", config, values, chance, min(IN_A_RUN, kills - row.tried)
        )
        verdict = Verdict(run.lost, 0, list(run.wrong))
        found = evidence(run.folder)
        verdict.twice = found["twice"]
        verdict.wrong += found["problems"] + recommitted(run.folder)
        if right is not None:
            verdict.wrong += [f"another {name}" for name in right if found[name] != right[name]]
        print(*run.moments, sep="\n", file=sys.stderr, flush=True)
        for moment in run.moments:
            row.add(f"{run.folder.name}: {moment}", verdict)
        number += 1
    return row


def _killed(
    folder: Path, config: Path, values: dict[str, Any], chance: random.Random, kills: int
) -> Killed:
    """A run with a daemon beside it, its trainer killed `kills` times and then left in peace."""
    run = Killed(folder, config, chance, values["training.steps"])
    with folder.with_suffix(".daemon").open("ab") as said:
        daemon = [sys.executable, "-m", "rods.daemon", str(folder), "--config", str(config)]
        beside = subprocess.Popen(daemon, stderr=said)
    try:
        run.until_finished(kills)
        if values["sync"] == "lockstep":
            run.written_out()
    finally:
        beside.terminate()
        if beside.wait() != EXIT_OK:
            run.wrong.append(f"the daemon ended with {beside.returncode}")
    return run


def evidence(folder: Path, step: int | None = None) -> dict[str, Any]:
    """What two runs that went alike have in common: see the module's docstring. The policy is the
    last, or that of `step`."""
    judged = judge(folder)
    run = Run.open(folder)
    state = RunState(run)
    epochs = sorted({step.epoch for step in state.steps()})
    last = state.last_step if step is None else step
    pools = []
    for epoch in epochs:
        pool = state.pool_at(epoch)
        assert pool.latest is not None
        members = sorted([one.task_id, one.epoch, one.since] for one in pool.active.values())
        pools.append([epoch, pool.latest["step"], pool.latest["order"], members])
    tracker = orjson.loads((folder / runfolder.TRACKER).read_bytes())
    del tracker["attempt"]  # counts the starts
    (checkpoint,) = (folder / "checkpoints").glob(f"step_{last:08d}.a*/manifest.json")
    return {
        "problems": judged["problems"],
        "twice": judged["twice"],
        "course of steps, picks or variants": canonical(judged["outcome"]),
        "pool of an epoch": canonical(pools),
        "tracker": canonical(tracker),
        "drawn task": sorted(
            [record["step"], record["slot"], record["difficulty"], record["task"]["id"]]
            for record in read(folder / DRAWN)
        ),
        "policy at the end": orjson.loads(checkpoint.read_bytes())["files"],  # hashes of its files
    }


def recommitted(folder: Path) -> list[str]:
    """Epochs that were committed more than once and not each time alike."""
    decided: dict[int, Any] = {}
    group: list[Any] = []
    wrong = []
    for record in read(folder / runfolder.POOL):
        group.append(
            {
                key: value
                for key, value in record.items()
                if key not in ("seq", "id", "crc", "first", "attempt")
            }
        )
        if record["kind"] == "epoch":
            if decided.setdefault(record["epoch"], group) != group:
                wrong.append(f"epoch {record['epoch']} was decided otherwise after a kill")
            group = []
    return wrong


def _delayed(come: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """Whether so many seconds have passed since `come` was first true."""
    since: list[float] = []

    def moment() -> bool:
        if not since and come():
            since.append(time.monotonic())
        return bool(since) and time.monotonic() >= since[0] + seconds

    return moment


def _closed(log: Path) -> list[int]:
    """The steps that were closed, of all attempts, as they stand in the log."""
    data = log.read_bytes() if log.exists() else b""
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return [
        int(line.split(b'"step":')[1].split(b",")[0]) for line in lines if b'"kind":"step"' in line
    ]


def _named(folder: Path, log: str, marked: bytes, before: bytes) -> set[bytes]:
    """The ids of tasks, which stand behind `before`, in the whole lines of a log that are
    `marked`."""
    data = _content(folder, log)
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return {line.split(before)[1].split(b'"')[0] for line in lines if marked in line}


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _content(folder: Path, log: str) -> bytes:
    return (
        b"".join(part.read_bytes() for part in segments(folder / log)) if folder.exists() else b""
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.trainer.kills", description="Kill the trainer, look."
    )
    parser.add_argument("--kills", type=int, default=KILLS, help="of each mode and policy")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--random-seed", type=int, default=0)
    asked = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        print(HEAD, "|---|---|---|---|---|---|", sep="\n", flush=True)
        for policy in asked.policies:
            for sync in MODES:
                row = sweep(
                    Path(scratch) / policy / sync, sync, policy, asked.kills, asked.random_seed
                )
                print(row, flush=True)
                print(*row.failures[:5], sep="\n", file=sys.stderr, flush=True)
                bad += row.survived < row.tried
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
