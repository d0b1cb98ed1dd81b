"""`rods up`: trainer and daemon as two child processes, with live progress read from the run's
files.

A daemon that dies is started again, after waits of 1, 2, 4 … 30 s; a trainer that crashes is
started again at most `TRAINER_RETRIES` times without a step in between; bad input (exit code 2) is
never retried; when the trainer is done the daemon is stopped; `stop` ends both within `STOPPED`
seconds, by SIGTERM, then by SIGKILL; when this process is killed itself, Linux sends SIGTERM to
both, so that no orphan keeps the run folder.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from rods.buffers.run.creation import open_or_create
from rods.buffers.run.runfolder import exists
from rods.commands import Json, check_libraries
from rods.config import read_config
from rods.console.live import LiveView
from rods.console.output import ConfigFile, RunFolder, Steps
from rods.console.progress import Progress
from rods.deadlines import STOPPED
from rods.errors import EXIT_DEADLINE, EXIT_OK, EXIT_REFUSED, EXIT_REQUEUE, EXIT_USER, UserError
from rods.signals import Interrupted, StopRequest

TRAINER_RETRIES = 3
RESTART_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # waits before the n-th restart in a row
STABLE_SECONDS = 60.0  # of life, after which a process's restarts count from zero again
FULL_DISK_BYTES = 16_384  # a disk with less free space counts as full
MOST_PRINTED = 64 << 20  # bytes that are kept of what a process prints
POLL_SECONDS = 0.25  # between looks at processes and files
# by which a child dies with its parent
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def up(
    run: RunFolder, /, *, config: ConfigFile = None, steps: Steps = None, as_json: Json = False
) -> int:
    """Run trainer and daemon together until the run is finished, with live progress.

    Creates the run when the folder does not exist yet, continues it otherwise. Ctrl-C or SIGTERM
    stop both cleanly; the same command goes on. --steps lets a run that is there go on longer.
    Ends with what was written and what was not. Exits 0 when the run is finished, 5 when it was
    stopped, else with the trainer's code.
    """
    if steps is not None:
        from rods.console.verbs.trainer import lengthened

        lengthened(run, config, steps)
    if config is not None:
        check_libraries(read_config(config).policy.kind)
        open_or_create(run, config)
    elif exists(run):
        check_libraries(open_or_create(run, None).config.policy.kind)
    else:
        raise UserError("no run there", where=run, remedy="create it: add --config FILE")
    return supervise(run, config, as_json)


def supervise(
    run: Path, config: Path | None, as_json: bool, enough: Callable[[], bool] = lambda: False
) -> int:
    """Trainer and daemon of a run that is there, until it is finished, a signal comes or `enough`
    says so; the exit code."""
    progress = Progress(run)
    with StopRequest(second_interrupts=False) as request:
        # raised where Python drops what is raised: in a finalizer
        request.asked = Interrupted.latest is not None
        trainer, daemon = children(run, config)
        view = LiveView(progress, as_json)
        supervisor = Supervisor(trainer, daemon, view.say, lambda: progress.step)
        supervisor.start()
        try:
            while supervisor.poll() and not (request.asked or enough()):
                view.look()
                time.sleep(POLL_SECONDS)
            if request.asked:
                view.say("stopping both processes…")
        finally:
            supervisor.stop()
        end = view.look(finished=True)
        for line in end.written() if end.step else ():
            view.say(line)
        for note in progress.notes():
            view.say(f"note: {note}", again=False)
        code = EXIT_REQUEUE if supervisor.code is None else supervisor.code
        words = {
            EXIT_OK: "the run is finished",
            EXIT_REQUEUE: "stopped; the same command goes on from here",
        }
        view.say(
            words.get(
                code,
                f"ended with code {code}; logs/trainer.out and logs/daemon.out in the run "
                f"folder say more",
            )
        )
    return code


@dataclass(slots=True)
class SupervisedProcess:
    """One process and how often it had to be started again."""

    name: str
    command: list[str]
    output: Path  # where what it prints is kept
    process: subprocess.Popen[bytes] | None = None
    printed: IO[bytes] | None = None  # the same, wherever its folder is moved to
    started: float = 0.0
    failures: int = 0
    restart_at: float | None = None

    def start(self) -> None:
        self.output.parent.mkdir(exist_ok=True)
        if self.printed is not None:
            self.printed.close()
        self.printed = self.output.open("a+b")
        # A session of its own: Ctrl-C reaches this process only, which stops the children in its
        # own order.
        self.process = subprocess.Popen(
            self.command,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path),
            },
            stdin=subprocess.DEVNULL,
            stdout=self.printed,
            stderr=self.printed,
            start_new_session=True,
            preexec_fn=partial(LIBC.prctl, PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        self.started = time.monotonic()
        self.restart_at = None

    def ended(self) -> int | None:
        """The exit code once the process has ended (negative: the signal that killed it), else
        None."""
        return None if self.process is None else self.process.poll()

    def shorten(self) -> None:
        """Leaves the last quarter of what it printed once that is more than `MOST_PRINTED` bytes.
        A line that it prints meanwhile may be lost here; events are in logs/*.jsonl, too."""
        if self.printed is None:
            return
        file = self.printed.fileno()
        kept = MOST_PRINTED // 4
        if (size := os.fstat(file).st_size) > MOST_PRINTED:
            with contextlib.suppress(OSError):  # a full disk has room again once it is truncated
                end = os.pread(file, kept, size - kept)
                os.ftruncate(file, 0)
                os.write(file, end)

    def last_line(self) -> str:
        """The last line that it printed besides events (JSON lines): the error that ended it, if
        any. On a full disk, where that line could not be written, says so instead."""
        if self.printed is None:
            return ""
        try:
            if shutil.disk_usage(self.printed.fileno()).free < FULL_DISK_BYTES:
                return (
                    f"{self.output.parent}: the disk is full → free some space and start the same "
                    f"command again"
                )
            self.printed.seek(max(0, self.printed.seek(0, os.SEEK_END) - 65_536))
            lines = self.printed.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        said = (line.strip()[:400] for line in reversed(lines) if line[:1] != "{")
        return next(filter(None, said), "")


@dataclass(slots=True)
class Supervisor:
    """Both children of one run. `say` is called with a line for each event; `steps` returns the
    run's last step."""

    trainer: SupervisedProcess
    daemon: SupervisedProcess
    say: Callable[[str], None]
    steps: Callable[[], int]
    code: int | None = None  # the whole command's exit code, once it is known
    _step_at_crash: int = -1

    def start(self) -> None:
        self.daemon.start()
        self.trainer.start()

    def poll(self) -> bool:
        """Starts again what has ended and is due; returns False once there is nothing left to do
        (`code` is set)."""
        now = time.monotonic()
        for child, ended in (
            (self.trainer, self._trainer_ended),
            (self.daemon, self._daemon_ended),
        ):
            child.shorten()
            if child.restart_at is not None and now >= child.restart_at:
                child.start()
                self.say(
                    f"{child.name} started again (pid "
                    f"{child.process.pid if child.process else '?'})"
                )
            code = child.ended()
            if code is not None and child.restart_at is None and self.code is None:
                ended(code)
        return self.code is None

    def stop(self) -> None:
        """Asks both to stop and waits for them; kills what has not stopped in time."""
        alive = [
            child.process
            for child in (self.trainer, self.daemon)
            if child.process and child.ended() is None
        ]
        for process in alive:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOPPED
        for process in alive:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.say(
                    f"pid {process.pid} did not stop within {STOPPED:.0f} s and was killed; its "
                    f"logs are safe"
                )
                process.kill()
                process.wait()

    def _trainer_ended(self, code: int) -> None:
        line = self.trainer.last_line()
        if code in (EXIT_OK, EXIT_USER, EXIT_REFUSED, EXIT_DEADLINE, EXIT_REQUEUE):
            self.code = code
            if code != EXIT_OK:
                self.say(f"the trainer ended with code {code}{line and ': '}{line}")
            return
        step = self.steps()
        if step > self._step_at_crash:
            self.trainer.failures = 0
        self._step_at_crash = step
        if self.trainer.failures < TRAINER_RETRIES:
            self._restart_later(self.trainer, code, line)
            return
        self.say(
            f"the trainer crashed {self.trainer.failures + 1} times at step {step}; giving up: "
            f"{line}"
        )
        self.code = code if code > 0 else 128 - code

    def _daemon_ended(self, code: int) -> None:
        line = self.daemon.last_line()
        if code == EXIT_USER:
            self.say(f"the daemon cannot work on this run: {line}")
            self.code = code
        elif code == EXIT_REFUSED:
            self.say(f"another daemon works on this run already; going on with that one ({line})")
            self.daemon.process = None
        else:
            self._restart_later(self.daemon, code, line)

    def _restart_later(self, child: SupervisedProcess, code: int, line: str) -> None:
        now = time.monotonic()
        if now - child.started > STABLE_SECONDS:
            child.failures = 0
        wait = RESTART_SECONDS[: child.failures + 1][-1]
        child.failures += 1
        child.restart_at = now + wait
        how = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        )
        self.say(
            f"{child.name} {how}; starting it again in {wait:.0f} s"
            + (f" ({line})" if line and code > 0 else "")
        )


def children(run: Path, config: Path | None) -> list[SupervisedProcess]:
    """Trainer and daemon of `run`, not yet started."""
    options = [str(run), *(["--config", str(config)] if config else [])]
    python = [sys.executable, "-P", "-m"]  # -P: no `rods/` of the user's folder
    return [
        SupervisedProcess(name, [*python, f"rods.{name}", *options], run / "logs" / f"{name}.out")
        for name in ("trainer", "daemon")
    ]
