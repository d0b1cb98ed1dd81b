"""Workers in processes on this machine, each behind a pipe. They end with the daemon, whose end of
the pipe closes."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from rods.buffers.run.run import Run
from rods.config import Config
from rods.daemon.attempt_worker import AttemptWorker
from rods.daemon.compute import LostWorker, WorkItem
from rods.gates.similarity import SimilarityIndex

_SPAWN = multiprocessing.get_context("spawn")


def places(run: Run, held_out: SimilarityIndex) -> Sequence["Process"]:
    """As many as `operation.compute_places`; 0: one a core that this process may use."""
    return [
        Process(run, held_out)
        for _ in range(run.config.operation.compute_places or len(os.sched_getaffinity(0)))
    ]


class Process:
    """A place for one worker (rods.daemon.compute.Place)."""

    at_once = 1

    def __init__(self, run: Run, held_out: SimilarityIndex) -> None:
        self._context = run.path, run.config, held_out
        self.process: SpawnProcess | None = None
        self._pipe: Connection | None = None

    async def make(self, items: Sequence[WorkItem]) -> Sequence[Any]:
        assert self._pipe is not None, "renewed"
        try:
            self._pipe.send(items)
        except OSError as error:
            raise LostWorker(self._fate()) from error
        results: Sequence[Any] = await self._received()
        return results

    async def renew(self) -> None:
        self.end()
        self._pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(
            target=_work, args=(theirs, *self._context), name="rods-worker", daemon=True
        )
        self.process.start()
        theirs.close()
        await self._received()  # that it is ready

    def end(self) -> None:
        if self.process is not None and self._pipe is not None:
            self.process.kill()
            self.process.join()
            self._pipe.close()
            self.process = self._pipe = None

    async def _received(self) -> Any:
        """What the worker says next. Raises LostWorker."""
        pipe = self._pipe
        loop = asyncio.get_running_loop()
        assert pipe is not None, "renewed"
        ready = asyncio.Event()
        loop.add_reader(pipe.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(pipe.fileno())
        try:
            return pipe.recv()
        except (EOFError, OSError) as error:
            raise LostWorker(self._fate()) from error

    def _fate(self) -> str:
        assert self.process is not None, "renewed"
        self.process.join(1)
        return f"process {self.process.pid} ended with code {self.process.exitcode}"


def _work(pipe: Connection, path: Path, config: Config, held_out: SimilarityIndex) -> None:
    """A worker's life: items, and what comes of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the daemon's
    worker = AttemptWorker(path, config, held_out)
    pipe.send("ready")
    try:
        while True:
            pipe.send([worker.made(item) for item in pipe.recv()])
    except (EOFError, BrokenPipeError):  # the daemon has gone
        worker.close()
