"""Triage in the daemon: while it is idle, a task that was retired as too hard is triaged, by `rods
triage` in a process of its own, which dies with the daemon. What was played stands in the run's
folder, so another daemon goes on with it; a finding is on record once, under the task and the epoch
in which it was retired."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial

import orjson

from rods.buffers.audit.rederivation import Findings
from rods.buffers.log.record_bytes import now, record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EVALUATION, POOL
from rods.buffers.state import RunState
from rods.canonical import content_id
from rods.console.verbs.up import LIBC, PR_SET_PDEATHSIG
from rods.daemon.writers import Beside, DaemonWork, Writers
from rods.family.triage.diagnoses import Played, conclusion
from rods.family.triage.executed import Executed
from rods.family.triage.extension import TRIAGE
from rods.faults import Reason
from rods.logs import log
from rods.rules.retirement import TOO_HARD

REST = 30.0  # seconds until anything is triaged again after a triage failed


def work(run: Run, writers: Writers, threads: Executor, daemon: Beside) -> "TriageWhileIdle | None":
    """What a daemon of this run does."""
    return TriageWhileIdle(run, daemon) if run.config.operation.triage.while_idle else None


class TriageWhileIdle(DaemonWork):
    """One task at a time, those first of which the fewest triages failed."""

    def __init__(self, run: Run, daemon: Beside) -> None:
        self._run = run
        self._daemon = daemon
        self._log = LogWriter(run.path / TRIAGE)
        self._done = {(entry["task"], entry["epoch"]) for entry in read(run.path / TRIAGE)}
        self._failed: list[tuple[str, int]] = []
        self._rest_until = 0.0

    @property
    def written(self) -> int:
        return self._log.seq

    def close(self) -> None:
        self._log.close()

    def due(self, state: RunState) -> list[Callable[[], Awaitable[None]]]:
        if not self._daemon.idle or time.monotonic() < self._rest_until:
            return []
        retired = {(one.member.task_id, one.epoch) for one in state.pool.too_hard} - self._done
        return [partial(self._triage, *key) for key in sorted(retired, key=self._failed.count)[:1]]

    async def _triage(self, task: str, epoch: int) -> None:
        settings = self._run.config.operation.triage
        policy = settings.policy
        samples = str(settings.samples if policy else 0)
        # another policy plays in another folder
        folder = f"triage_{content_id([task, epoch, samples, *policy])}"
        command = ["-m", "rods.console", "triage", self._run.path, "--task", task, "--json"]
        command += ["--samples", samples, "--out", self._run.path / EVALUATION / folder]
        triage = partial(
            subprocess.run,
            [sys.executable, *command, "--", *policy],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            preexec_fn=partial(LIBC.prctl, PR_SET_PDEATHSIG, signal.SIGKILL),
        )
        child: subprocess.CompletedProcess[str] = await asyncio.to_thread(triage)
        if child.returncode:
            self._failed.append((task, epoch))
            self._rest_until = time.monotonic() + REST
            log.warning("no triage for now", task=task, why=child.stderr)
            return
        self._done.add((task, epoch))
        await asyncio.to_thread(self._run.sync, self._run.pool_log)
        for finding in orjson.loads(child.stdout)["findings"]:  # none of an open task
            entry = record("triaged", epoch=epoch, policy=policy, **finding, time=now())
            await asyncio.to_thread(self._log.append, [entry])
            log.info("triaged", task=task, diagnosis=finding["diagnosis"])


def audit(run: Run, findings: Findings, replay: bool) -> None:
    """Whether every task had been retired as too hard, and what is said of it follows from what
    stands beside it."""
    retired = {
        (entry["task"], entry["epoch"])
        for entry in read(run.path / POOL)
        if entry["kind"] == "retired" and entry["rule"] in TOO_HARD
    }
    for entry in read(run.path / TRIAGE):
        findings.count("tasks triaged")
        where = f"{TRIAGE}, record {entry['seq']}"
        if (entry["task"], entry["epoch"]) not in retired:
            findings.problem(where, f"{entry['task']} was not retired as too hard then")
        try:
            shown = entry["executed"]
            ambiguous = tuple(Reason(**reason) for reason in shown["ambiguous"])
            executed = Executed(**{**shown, "ambiguous": ambiguous})
            played = {int(rung): Played(**at) for rung, at in entry["played"].items()}
            follows = conclusion(executed, played)
        except (TypeError, ValueError) as error:
            follows = {"diagnosis": error}
        for name, value in follows.items():
            if entry.get(name) != value:
                findings.problem(where, f"its {name} is not what follows: {value}")
