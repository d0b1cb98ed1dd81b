"""Workers in processes on this machine, each behind a pipe. They end with the daemon, whose end of
the pipe closes."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import socket
import struct
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from rods.config import Config
from rods.daemon.attempt_worker import AttemptWorker
from rods.daemon.compute import LostWorker, WorkItem
from rods.gates.similarity import SimilarityIndex

_SPAWN = multiprocessing.get_context("spawn")
_LENGTH = struct.Struct("!i")  # of what follows, in bytes


def places(folder: Path, config: Config, held_out: SimilarityIndex) -> Sequence["Process"]:
    """As many as `operation.compute_places`; 0: one a core that this process may use."""
    return [
        Process(folder, config, held_out)
        for _ in range(config.operation.compute_places or len(os.sched_getaffinity(0)))
    ]


class Process:
    """A place for one worker (rods.daemon.compute.Place)."""

    at_once = 1

    def __init__(self, folder: Path, config: Config, held_out: SimilarityIndex) -> None:
        self._context = folder, config, held_out
        self.process: SpawnProcess | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def make(self, items: Sequence[WorkItem]) -> Sequence[Any]:
        results: Sequence[Any] = await self._answer(items)
        return results

    async def renew(self) -> None:
        self.end()
        ours, theirs = socket.socketpair()
        pipe = Connection(theirs.detach())
        self.process = _SPAWN.Process(target=_work, args=(pipe,), name="rods-worker", daemon=True)
        self.process.start()
        pipe.close()
        self._streams = await asyncio.open_connection(sock=ours)
        await self._answer(self._context)  # that it is ready

    def end(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    async def _answer(self, order: Any) -> Any:
        """What the worker says to `order`, in the frames of a `Connection`; the loop never waits
        for a worker that does not read, or that stops in the middle of what it says. Raises
        LostWorker."""
        assert self.process is not None and self._streams is not None, "renewed"
        reader, writer = self._streams
        data = pickle.dumps(order)
        try:
            writer.write(_LENGTH.pack(len(data)) + data)
            await writer.drain()
            (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            return pickle.loads(await reader.readexactly(length))
        except (EOFError, OSError) as error:
            await asyncio.to_thread(self.process.join, 1)
            what = f"process {self.process.pid} ended with code {self.process.exitcode}"
            raise LostWorker(what) from error


def _work(pipe: Connection) -> None:
    """A worker's life: items, and what comes of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the daemon's
    worker = AttemptWorker(*pipe.recv())
    pipe.send("ready")
    try:
        while True:
            pipe.send([worker.made(item) for item in pipe.recv()])
    except (EOFError, BrokenPipeError):  # the daemon has gone
        worker.close()
