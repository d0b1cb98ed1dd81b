"""`rods-daemon RUN [--config FILE]`: writes variants for a run while it is trained.

May start before or after the trainer, be killed at any moment, and be started again. SIGTERM and
Ctrl-C stop it within seconds with exit code 0: nothing is lost, the next start continues."""

import asyncio
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import structlog
from cyclopts import App

from rods import commands, deadlines, logs
from rods.buffers.run import runfolder
from rods.buffers.run.creation import open_or_create
from rods.daemon.authors.procedural import IN_FLIGHT
from rods.daemon.static_pool import service_of
from rods.episode.watchdog import Lanes
from rods.errors import say
from rods.signals import on_signal

THREADS = "rods-daemon"
FILES = 8  # threads that wait for files


def main(arguments: list[str] | None = None) -> None:
    """The console script. Exits with the code of rods.errors."""
    _leave(commands.run(application(), sys.argv[1:] if arguments is None else arguments))


def application() -> App:
    app = commands.application("rods-daemon", "Write variants for a run while it is trained.")
    app.default(_work)
    return app


def _work(run: Path, /, *, config: Path | None = None) -> None:
    """Writes variants until the run is finished.

    Args:
        run: the run folder; the daemon waits until it exists
        config: TOML file: creates the run, or brings this start's [operation]
    """
    with Lanes(IN_FLIGHT + 1, THREADS) as lanes:
        asyncio.run(_daemon(run, config, lanes))


class Threads(ThreadPoolExecutor):
    """Threads that nobody waits for in the end: one may hang in a file system that has gone."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)


async def _daemon(path: Path, config_file: Path | None, lanes: Lanes) -> None:
    """Waits for the run, and serves it until the first signal. The handler stays when the loop is
    closed, unlike the loop's own: a second signal cannot spoil a clean end."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.set_default_executor(Threads(FILES, thread_name_prefix=THREADS))

    def ask(number: int) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)

    on_signal(ask)
    if config_file is None and not runfolder.exists(path):
        remedy = f"`rods trainer new {path} --config FILE` or rods-train makes it"
        say(f"rods-daemon: waiting for the run folder {path} → {remedy}", aside=True)
        while not runfolder.exists(path):
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 0.5)
                return
    run = open_or_create(path, config_file)
    operation = run.config.operation
    folder = run.path / runfolder.LOGS
    logs.configure("daemon", operation.log_level, folder=folder, most=operation.event_bytes)
    structlog.contextvars.bind_contextvars(run=run.name)
    # reads the daemon's logs, and looks through the trainer's
    service = await asyncio.to_thread(service_of, run, lanes)
    on_signal(ask)  # again: what workers are started with may have taken signals for itself
    await service.serve(stop)


def _leave(code: int) -> None:
    """Ends the process; not even an environment that hangs in a thread can keep it."""
    deadline = time.monotonic() + deadlines.THREADS_END
    while any(thread.name.startswith(THREADS) for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            sys.stderr.flush()
            os._exit(code)
        time.sleep(0.01)
    sys.exit(code)
