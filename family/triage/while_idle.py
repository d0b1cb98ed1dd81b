"""Triage in the daemon: while it is idle, a task that was retired as too hard is triaged, by `rods
triage` in a process of its own, which dies with the daemon; with `rung_seeds`, so is a given task
that earns nothing, and of what a rung teaches variants are written. What was played stands in the
run's folder, so another daemon goes on with it; a finding is on record once, under the task and the
epoch in which it was retired, or looked at."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
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
from rods.daemon.writers import Beside, DaemonWork
from rods.errors import InfrastructureError
from rods.family.triage import rung_seeds
from rods.family.triage.diagnoses import Played, conclusion
from rods.family.triage.executed import Executed
from rods.family.triage.extension import TRIAGE
from rods.family.triage.rung_seeds import RungSeeds
from rods.faults import Reason
from rods.rules.retirement import TOO_HARD


def work(daemon: Beside) -> "TriageWhileIdle | None":
    """What a daemon does. Raises RefusedError where it would never do it."""
    config = daemon.run.config
    settings = config.operation.triage
    if not settings.while_idle:
        return None
    if settings.rung_seeds and config.sync == "lockstep":
        what = "rung_seeds depends on how long triage takes, and in lockstep nothing does"
    elif config.pool.static or not (settings.rung_seeds or config.pool.retirement):
        what = "nothing leaves its pool (pool.static, pool.retirement)"
    else:
        return TriageWhileIdle(daemon)
    raise daemon.run.refused(what, "leave operation.triage out")


class TriageWhileIdle(DaemonWork):
    """One task at a time."""

    def __init__(self, daemon: Beside) -> None:
        self._daemon = daemon
        path = daemon.run.path / TRIAGE
        findings = [*read(path)]
        seeds = daemon.run.config.operation.triage.rung_seeds
        self._seeds = RungSeeds(daemon, findings) if seeds else None
        self._log = LogWriter(path)
        self._done = {(entry["task"], entry["epoch"]) for entry in findings}
        self._failed = Counter[tuple[str, int]]()  # triages since the start; they come last

    def close(self) -> None:
        self._log.close()

    def due(self, state: RunState) -> list[Callable[[], Awaitable[None]]]:
        if not self._daemon.idle:
            return []
        if self._seeds is not None and (jobs := self._seeds.due(state)):
            return jobs
        retired = ((one.member.task_id, one.epoch) for one in state.pool.too_hard)
        hopeless = {*retired, *self._given(state)} - self._done
        by_failures = sorted(hopeless, key=lambda key: (self._failed[key], key))
        return [partial(self._triage, *key) for key in by_failures[:1]]

    def _given(self, state: RunState) -> Iterator[tuple[str, int]]:
        """Where variants are written of what a rung teaches: the given tasks whose latest rollouts
        earned nothing, once each."""
        for name in self._daemon.run.training.keys() - dict(self._done) if self._seeds else ():
            window = state.tracker.window(name)
            if window is not None and window.latest_mean == 0.0:
                yield name, state.epoch

    async def _triage(self, task: str, epoch: int) -> None:
        run = self._daemon.run
        settings = run.config.operation.triage
        policy = settings.policy
        samples = str(settings.samples if policy else 0)
        # another policy plays in another folder
        folder = f"triage_{content_id([task, epoch, samples, *policy])}"
        command = ["-m", "rods.console", "triage", run.path, "--task", task, "--json"]
        command += ["--samples", samples, "--out", run.path / EVALUATION / folder]
        child = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, *command, "--", *policy],
            capture_output=True,
            text=True,
            preexec_fn=partial(LIBC.prctl, PR_SET_PDEATHSIG, signal.SIGKILL),
        )
        if child.returncode:
            self._failed[task, epoch] += 1
            raise InfrastructureError(f"no triage of {task}: {child.stderr}")
        self._done.add((task, epoch))
        await asyncio.to_thread(run.sync, run.pool_log)
        for finding in orjson.loads(child.stdout)["findings"]:  # none of an open task
            entry = record("triaged", epoch=epoch, policy=policy, **finding, time=now())
            await asyncio.to_thread(self._log.append, [entry])
            if self._seeds is not None:
                self._seeds.add(entry)


def audit(run: Run, findings: Findings, replay: bool) -> None:
    """Whether every task had been retired as too hard, and what is said of it follows from what
    stands beside it."""
    retired = {
        (entry["task"], entry["epoch"])
        for entry in read(run.path / POOL)
        if entry["kind"] == "retired" and entry["rule"] in TOO_HARD
    }
    triaged = [*read(run.path / TRIAGE)]
    rung_seeds.audit(run, findings, triaged, replay)
    for entry in triaged:
        findings.count("tasks triaged")
        where = f"{TRIAGE}, record {entry['seq']}"
        if (entry["task"], entry["epoch"]) not in retired and entry["task"] not in run.training:
            findings.problem(where, f"{entry['task']} was not retired as too hard then")
        try:
            shown = entry["executed"]
            ambiguous = tuple(Reason(**reason) for reason in shown["ambiguous"])
            executed = Executed(**shown | {"ambiguous": ambiguous})
            played = {int(rung): Played(**at) for rung, at in entry["played"].items()}
            follows = conclusion(executed, played)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            follows = {"diagnosis": error}
        for name, value in follows.items():
            if entry.get(name) != value:
                findings.problem(where, f"its {name} is not what follows: {value}")
