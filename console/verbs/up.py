"""`rods up`: trainer and daemon under one command, with live progress read from the run's files."""

from __future__ import annotations

import time
from pathlib import Path

from console.live import View, view
from console.output import ConfigFile, RunFolder
from console.progress import Progress
from console.supervision import Supervisor, children
from rods.commands import Json, check_libraries
from rods.errors import EXIT_OK, EXIT_REQUEUE, UserError
from rods.signals import StopRequest

POLL_SECONDS = 0.25  # between looks at processes and files


def up(run: RunFolder, /, *, config: ConfigFile = None, as_json: Json = False) -> int:
    """Run trainer and daemon together until the run is finished, with live progress.

    Creates the run when the folder does not exist yet, continues it otherwise. Ctrl-C or SIGTERM stop both cleanly; the
    same command goes on. Exits 0 when the run is finished, 5 when it was stopped, else with the trainer's code.
    """
    prepare(run, config)
    return supervise(run, config, view(as_json))


def prepare(run: Path, config: Path | None) -> None:
    """Creates the run, or checks that it is one and that `config` names the same identity. Raises UserError."""
    from buffers.run.creation import open_or_create
    from buffers.run.run import Run
    from buffers.run.runfolder import exists
    from rods.config import read_config

    if config is not None:
        check_libraries(read_config(config).policy.kind)
        open_or_create(run, config)
    elif exists(run):
        check_libraries(Run.open(run).config.policy.kind)
    else:
        raise UserError("no run there", where=str(run), remedy="create it: add --config FILE")


def supervise(run: Path, config: Path | None, shown: View) -> int:
    """Runs both processes to the end of the run or to a signal. Returns the exit code."""
    progress = Progress(run)
    with StopRequest(second_interrupts=False) as request:
        trainer, daemon = children(run, config)
        with shown:
            supervisor = Supervisor(trainer, daemon, shown.say, lambda: progress.step)
            supervisor.start()
            for note in progress.notes():
                shown.say(f"note: {note}")
            told = bool(progress.barren())
            try:
                while supervisor.poll() and not request.asked:
                    shown.show(progress.poll())
                    told = _tell_barren(progress, shown, told)
                    time.sleep(POLL_SECONDS)
                if request.asked:
                    shown.say("stopping both processes…")
            finally:
                supervisor.stop()
            shown.show(progress.poll(finished=True))
            _tell_barren(progress, shown, told)
            code = EXIT_REQUEUE if supervisor.code is None else supervisor.code
            shown.say(_ending(code))
    return code


def _tell_barren(progress: Progress, shown: View, told: bool) -> bool:
    """Says once, each time that it begins, that seeds give no variants. Returns whether that is so."""
    why = progress.barren()
    if why and not told:
        shown.say(f"note: {why}")
    return bool(why)


def _ending(code: int) -> str:
    if code == EXIT_OK:
        return "the run is finished"
    if code == EXIT_REQUEUE:
        return "stopped; the same command goes on from here"
    return f"ended with code {code}; logs/trainer.out and logs/daemon.out in the run folder say more"
