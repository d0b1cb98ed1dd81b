"""The daemon's side of the run folder: picks, variants, rejections.

One process holds these logs at a time. Whatever is written returns once it is on the disk, and the order picked →
expanded → finished of a pick is the caller's. The event loop never waits for a disk: many picks are in flight, and
those who write to a log at the same moment share one sync.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Mapping, Sequence
from types import TracebackType
from typing import Any

from buffers.ends import check_daemons
from buffers.folds.feedback import FeedbackFold
from buffers.folds.seeds import Seeds, Unfinished
from buffers.log.commit import GroupCommit
from buffers.log.disk import sync_file
from buffers.log.parts import segments
from buffers.log.records import Record, quarantine, record
from buffers.log.writer import LogWriter
from buffers.run.locks import Ownership
from buffers.run.run import Run
from buffers.run.runfolder import EXPANDED, FEEDBACK, OBSERVATIONS, POOL, REJECTED, SEEDS, expanded_segment
from rods.errors import RefusedError
from rods.tasks import AnyTask

PROCESS = "daemon"


class DaemonLog:
    """Owns seeds.jsonl, the expanded log, rejected.jsonl and feedback.jsonl. Opening folds them; picks whose variants
    are all in the expanded log are finished at once, the others wait in `state.unfinished` for the caller.

    Raises RefusedError when another process owns them, or when one has lost its end: nothing is written then.
    """

    def __init__(self, run: Run) -> None:
        run.check_environments()
        self.run = run
        self._ownership = Ownership(run.path, SEEDS, PROCESS)
        self.heartbeat, self.check = self._ownership.heartbeat, self._ownership.check
        self._part_bytes = run.config.operation.log_part_bytes
        try:
            with self._ownership.held():  # a folder that is moved meanwhile looks like logs that have lost their end
                run.check_extensions()
                self._seeds = LogWriter(run.path / SEEDS, part_bytes=self._part_bytes)
                self._rejected = LogWriter(run.path / REJECTED, part_bytes=self._part_bytes)
                self._feedback: LogWriter | None = None
                if run.config.by_agents:
                    self._feedback = LogWriter(run.path / FEEDBACK, part_bytes=self._part_bytes)
                self._epoch = self._part = 0
                self._expanded = self._open_expanded()
                with quarantine():
                    self.state = Seeds(run.path, strict=True)
                    self.state.poll()  # from here on it learns what is written by applying it
                    self.feedback = FeedbackFold(run.path, strict=True)
                    self.feedback.poll()  # as here
                check_daemons(run, self.state.last_considered)
                self._finish_complete()
            self._picks = GroupCommit(lambda: self._seeds)
            self._variants = GroupCommit(self._current_part)
            self._failures = GroupCommit(lambda: self._rejected)
        except BaseException:
            self._ownership.release()
            raise

    @property
    def written(self) -> int:
        """Records in these logs: a number that grows whenever work gets done."""
        corrected = self._feedback.seq if self._feedback else 0
        return self._seeds.seq + self._expanded.seq + self._rejected.seq + corrected

    def read_epoch(self, epoch: int) -> None:
        """Notes the epoch of a step record that the daemon has read: the next variant goes into that part, or stays in
        a later one."""
        self._epoch = max(self._epoch, epoch)

    async def picked(self, step: int, epoch: int, picks: Sequence[Mapping[str, Any]]) -> None:
        """Records that `step` was considered, and its picks in order (perhaps none). A pick needs `task`; `type`,
        `score` and `why` go with it. What led to them is made durable first."""
        if step <= self.state.last_considered:
            raise RefusedError(f"step {step} was considered before, or a later one was", where=str(self._seeds.path))
        for name in (OBSERVATIONS, POOL):
            await asyncio.to_thread(sync_file, self.run.path / name)
        records = [
            record(
                "picked",
                **{"pick": f"{step}-{pick['task']}", "step": step, "epoch": epoch, "rank": rank, **pick},
            )
            for rank, pick in enumerate(picks)
        ]
        closing = record("considered", step=step, epoch=epoch, picks=len(records), time=round(time.time(), 3))
        await self._picks.append_group(records, closing)
        for made in (*records, closing):
            self.state.apply(made)

    async def expanded(self, pick: str, index: int, task: AnyTask, provenance: Mapping[str, Any]) -> bool:
        """Records an accepted variant, the `index`-th (from 0) of `pick`. False: it was there already."""
        seed = self._unfinished(pick)
        if index in seed.variants:
            return False
        made = record(
            "expanded",
            pick=pick,
            index=index,
            step=seed.step,
            rank=seed.rank,
            task=dataclasses.replace(task, provenance=provenance).as_json(),
            time=round(time.time(), 3),
        )
        await self._variants.append(made)
        self.state.apply(made)
        return True

    def rejected(
        self, pick: str, index: int, *, stage: str, error: str, evidence: Any, raw: str = "", attempt: int = 0
    ) -> Awaitable[None]:
        """Records a candidate that failed: in which stage of the pipeline, why, and what it looked like. Taken at once,
        in the order of the calls; done once it is on the disk."""
        return self._failures.append(
            record(
                "rejected",
                pick=pick,
                index=index,
                attempt=attempt,
                stage=stage,
                error=error,
                evidence=evidence,
                raw=raw,
                time=round(time.time(), 3),
            )
        )

    async def finished(
        self,
        pick: str,
        accepted: Sequence[str],
        discarded: int,
        dropped_stale: str | None = None,
        why: str | None = None,
    ) -> None:
        """Closes a pick: its accepted variants, how many were discarded and why, or why it was dropped unstarted."""
        made = _finished(self._unfinished(pick), accepted, discarded, dropped_stale, why)
        await self._picks.append(made)
        self.state.apply(made)

    async def corrected(self, kind: str, failure: str, **fields: Any) -> None:
        """Records what came of asking agents about a kind of failure: `asked` before each question, `unanswered` where
        no endpoint answered it, `objected`, `approved`, `given_up` (buffers.folds.feedback). One call at a time; only
        for a run in which a stage shows feedback of agents."""
        assert self._feedback is not None
        made = record(kind, failure=failure, **fields, time=round(time.time(), 3))
        seq = await asyncio.to_thread(self._feedback.append, [made])
        self.feedback.apply(made, seq)

    def close(self) -> None:
        """Writes what waits; blocks for as long as the disk takes."""
        for commit in (self._picks, self._variants, self._failures):
            commit.close()
        for writer in (self._seeds, self._expanded, self._rejected, self._feedback):
            if writer is not None:
                writer.close()
        self._ownership.release()

    def __enter__(self) -> DaemonLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _unfinished(self, pick: str) -> Unfinished:
        seed = self.state.unfinished.get(pick)
        if seed is None:
            raise RefusedError(f"no unfinished pick {pick}", where=str(self._seeds.path))
        return seed

    def _current_part(self) -> LogWriter:
        """The part of the expanded log that is due: that of the highest epoch read."""
        if self._epoch > self._part:
            self._expanded.close()
            self._part = self._epoch
            self._expanded = self._expanded_part()
        return self._expanded

    def _open_expanded(self) -> LogWriter:
        """The latest part of the expanded log; epoch 0's when there is none."""
        parts = segments(self.run.path / EXPANDED)
        if parts:
            self._part = int(parts[-1].name.removeprefix("expanded_epoch_").partition(".")[0])
        return self._expanded_part()

    def _expanded_part(self) -> LogWriter:
        path, log = self.run.path / expanded_segment(self._part), self.run.path / EXPANDED
        return LogWriter(path, log=log, part_bytes=self._part_bytes)

    def _finish_complete(self) -> None:
        if self.run.config.pool.static:  # how many a pick yields depends on the others (daemon.filling)
            return
        wanted = self.run.config.pipeline.variants_per_seed
        complete = [pick for pick in self.state.unfinished.values() if len(pick.variants) >= wanted]
        made = [_finished(pick, [pick.variants[index] for index in sorted(pick.variants)], 0) for pick in complete]
        self._seeds.append(made)
        for one in made:
            self.state.apply(one)


def _finished(
    pick: Unfinished, accepted: Sequence[str], discarded: int, dropped_stale: str | None = None, why: str | None = None
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
        time=round(time.time(), 3),
    )


def outcome(finished: Mapping[str, Any]) -> str:
    """The outcome of a pick, of its `finished` record: accepted, discarded or dropped_stale."""
    if finished.get("dropped_stale"):
        return "dropped_stale"
    return "accepted" if finished.get("accepted") else "discarded"
