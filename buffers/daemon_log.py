"""The daemon's side of the run folder: picks, variants, rejections.

One process holds these logs at a time. Whatever is written returns once it is on the disk, and the
order picked → expanded → finished of a pick is the caller's. The event loop never waits for a disk:
many picks are in flight, and those who write to a log at the same moment share one sync.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

from rods.buffers.checkpoints import check_daemons
from rods.buffers.folds.seeds import DaemonTotals, Seeds, Unfinished
from rods.buffers.log.record_bytes import Record, now, quarantine, record
from rods.buffers.log.writer import GroupCommit, LogWriter
from rods.buffers.run.run import OwnedLog, Run
from rods.canonical import JsonMapping
from rods.errors import RefusedError, RodsError
from rods.tasks import AnyTask

PROCESS = "daemon"


class DaemonLog:
    """Owns seeds.jsonl, the expanded log (expanded_epoch_*.jsonl: accepted variants, a part an
    epoch) and rejected.jsonl. Opening folds them; picks whose variants are all in the expanded log
    are finished at once, the others wait in `state.unfinished` for the caller.

    Raises RefusedError when another process owns them, or when one of them has lost its end:
    nothing is written then."""

    def __init__(self, run: Run) -> None:
        run.check_environments()
        self.run = run
        self._log = OwnedLog(run, run.seeds_log, PROCESS)
        self._seeds = self._log.writer
        self.heartbeat = self._log.heartbeat
        self.check = self._log.check
        try:
            with self._log.held():
                self._rejected = run.writer(run.rejected_log)
                # the epochs of the part that is due, and of the one that is open
                self._epoch = self._open_epoch = run.newest_expanded
                self._expanded = run.writer(run.expanded_log, self._epoch)
                with quarantine():
                    self.state = Seeds(run.path, strict=True)
                    self.state.poll()  # from here on it learns what is written by applying it
                self._totals: DaemonTotals | None = None
                self._counted = -1  # how many parts were closed at the last count
                check_daemons(run, self.state.last_considered)
                self._finish_complete()
            self._picks = GroupCommit(lambda: self._seeds)
            self._variants = GroupCommit(self._current_part)
            self._failures = GroupCommit(lambda: self._rejected)
        except BaseException:
            self._log.close()
            raise

    @property
    def written(self) -> int:
        """Records in these logs: a number that grows whenever work gets done."""
        return self._seeds.seq + self._expanded.seq + self._rejected.seq

    def note_epoch(self, epoch: int) -> None:
        """Notes the epoch of a step record that the daemon has read: the next variant goes into
        that part, or stays in a later one."""
        self._epoch = max(self._epoch, epoch)

    def keep_totals(self) -> None:
        """Counts what stands in the log of picks and in that of failures, and keeps it, so that
        nobody has to read their closed parts: at first, and once another part was closed. Meant for
        a thread."""
        if self._counted == (closed := self._seeds.parts + self._rejected.parts):
            return
        self._counted = closed
        with suppress(RodsError, OSError):  # damage is the concern of who reads what was damaged
            self._totals = self._totals or DaemonTotals(self.run.path, keep=True)
            self._totals.poll()

    async def picked(self, step: int, epoch: int, picks: Sequence[JsonMapping]) -> None:
        """Records that `step` was considered, and its picks in order (perhaps none). A pick needs
        `task`; `type`, `score` and `why` go with it. The logs that they were derived from are made
        durable first."""
        if step <= self.state.last_considered:
            raise RefusedError(
                f"step {step} was considered before, or a later one was", where=self._seeds.path
            )
        await asyncio.to_thread(self.run.sync, self.run.observations_log, self.run.pool_log)
        records = [
            record(
                "picked", pick=f"{step}-{pick['task']}", step=step, epoch=epoch, rank=rank, **pick
            )
            for rank, pick in enumerate(picks)
        ]
        closing = record("considered", step=step, epoch=epoch, picks=len(records), time=now())
        await self._picks.append_group(records, closing)
        for entry in (*records, closing):
            self.state.apply(entry)

    async def expanded(self, pick: str, index: int, task: AnyTask) -> bool:
        """Records an accepted variant, the `index`-th (from 0) of `pick`. False: it was there
        already."""
        unfinished = self._unfinished(pick)
        if index in unfinished.variants:
            return False
        entry = record(
            "expanded",
            pick=pick,
            index=index,
            step=unfinished.step,
            rank=unfinished.rank,
            task=task.as_json(),
            time=now(),
        )
        await self._variants.append(entry)
        self.state.apply(entry)
        return True

    async def admitted(self, whose: str, tasks: Sequence[AnyTask]) -> None:
        """Records accepted tasks that somebody else wrote, each as a pick of its own."""
        where = {"step": self.state.last_considered, "time": now()}
        for task in tasks:
            pick = f"admitted-{task.id}"
            by = record("admitted", pick=pick, task=task.id, whose=whose, **where)
            await self._picks.append(by)
            variant = {"index": 0, "rank": 0, "task": task.as_json(), **where}
            await self._variants.append(record("expanded", pick=pick, **variant))

    def rejected(
        self,
        pick: str,
        index: int,
        *,
        stage: str,
        error: str,
        evidence: Any,
        raw: str = "",
        attempt: int = 0,
    ) -> Awaitable[None]:
        """Records a candidate that failed: in which stage of the pipeline, why, and what it looked
        like. Taken at once, in the order of the calls; done once it is on the disk."""
        entry = record(
            "rejected",
            pick=pick,
            index=index,
            attempt=attempt,
            stage=stage,
            error=error,
            evidence=evidence,
            raw=raw,
            time=now(),
        )
        return self._failures.append(entry)

    async def finished(
        self,
        pick: str,
        accepted: Sequence[str],
        discarded: int,
        dropped_stale: str | None = None,
        why: str | None = None,
    ) -> None:
        """Closes a pick: its accepted variants, how many were discarded and why, or why it was
        dropped unstarted."""
        entry = _finished(self._unfinished(pick), accepted, discarded, dropped_stale, why)
        await self._picks.append(entry)
        self.state.apply(entry)

    def close(self) -> None:
        """Writes what waits; blocks for as long as the disk takes."""
        for commit in (self._picks, self._variants, self._failures):
            commit.close()
        self._expanded.close()
        self._rejected.close()
        self._log.close()

    def _unfinished(self, pick: str) -> Unfinished:
        unfinished = self.state.unfinished.get(pick)
        if unfinished is None:
            raise RefusedError(f"no unfinished pick {pick}", where=self._seeds.path)
        return unfinished

    def _current_part(self) -> LogWriter:
        """The part of the expanded log that is due: that of the highest epoch read."""
        if self._open_epoch != self._epoch:
            self._expanded.close()
            self._open_epoch = self._epoch
            self._expanded = self.run.writer(self.run.expanded_log, self._epoch)
        return self._expanded

    def _finish_complete(self) -> None:
        # how many a pick yields depends on the others (rods.daemon.static_pool)
        if self.run.config.pool.static:
            return
        wanted = self.run.config.pipeline.variants_per_seed
        complete = [pick for pick in self.state.unfinished.values() if len(pick.variants) >= wanted]
        records = [_finished(pick, pick.accepted, 0) for pick in complete]
        self._seeds.append(records)
        for finished in records:
            self.state.apply(finished)


def _finished(
    pick: Unfinished,
    accepted: Sequence[str],
    discarded: int,
    dropped_stale: str | None = None,
    why: str | None = None,
) -> Record:
    return record(
        "finished",
        pick=pick.pick,
        step=pick.step,
        task=pick.task,
        accepted=list(accepted),
        discarded=discarded,
        dropped_stale=dropped_stale,
        why=why,
        time=now(),
    )
