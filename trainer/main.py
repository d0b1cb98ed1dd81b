"""`rods-train RUN [--config FILE]`: creates the run if need be, resumes it otherwise, and trains to
its end.

Extensions bring subcommands (`TRAINING_VERBS`); a run folder of such a name is `./NAME`.

Exit codes are those of `rods.errors`: 0 the run is finished, 2 bad input, 3 refused (another
trainer, another identity), 4 the daemon did not reach its mark in time (lockstep), 5 stopped on
request after a clean checkpoint (by SIGINT, SIGTERM, SIGUSR1 or `operation.step_limit`), or inside
a step that outlasted `operation.grace_seconds`: start the same command again.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import structlog
from cyclopts import App

from rods import commands, dialects, logs
from rods.buffers.run import runfolder
from rods.buffers.run.creation import open_or_create
from rods.buffers.run.run import Run
from rods.commands import LIBRARIES, check_libraries
from rods.config import Config, read_config
from rods.errors import EXIT_OK, EXIT_REQUEUE, UserError
from rods.extension import Door
from rods.logs import log
from rods.signals import StopRequest, ignore
from rods.trainer.policy import TrainingStopped
from rods.trainer.prerequisites import check_ahead, check_model, split
from rods.trainer.training_run import TrainingRun

UNBEGUN = 2.0  # seconds that a stop waits for what comes before the first step
# of features: `module:function` and what help says (004: supervised learning first)
TRAINING_VERBS: Door[Mapping[str, tuple[str, str]]] = Door("training_verbs")


def main() -> None:
    """The console script, behind trainer/__main__.py. Exits with the code of rods.errors."""
    code = run(sys.argv[1:])
    ignore()
    raise SystemExit(code)


def run(arguments: list[str]) -> int:
    """One start of the trainer; returns the exit code (rods.commands.run)."""
    interrupted = "interrupted inside a step; the same command continues from the last checkpoint"
    return commands.run(application(), arguments, interrupted)


def application() -> App:
    app = commands.application("rods-train", "Train the policy of a run folder.")
    app.default(_start)
    for verbs in TRAINING_VERBS:
        for name, (target, text) in verbs.items():
            app.command(target, name=name, help=text, default_parameter=commands.USUAL)
    return app


def _start(run: Path, /, *, config: Path | None = None) -> int:
    """Trains until the run ends, or is asked to stop.

    Args:
        run: the run folder
        config: configuration; creates the run if there is none
    """
    if config is not None:
        _check(read_config(config))  # before a run is made
    with StopRequest() as request:
        opened = open_or_create(run, config)
        opened.check_environments()
        _check(opened.config)
        return _train(opened, request)


def _check(config: Config) -> None:
    """Refuses in a second what would be refused after the imports of torch and TRL."""
    policy = config.policy
    check_ahead(config)
    check_libraries(policy.kind)
    if policy.kind == "transformers":
        check_model(Path(policy.model))
        dialects.load(policy.dialect, folder=policy.model, family=policy.family)


def _train(run: Run, request: StopRequest) -> int:
    request.grace = run.config.operation.grace_seconds
    operation = run.config.operation
    folder = run.path / runfolder.LOGS
    logs.configure("trainer", operation.log_level, folder=folder, most=operation.event_bytes)
    structlog.contextvars.bind_contextvars(run=run.name)
    rank = int(os.environ.get("RANK", "0"))
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    simulated = run.config.policy.kind == "simulated"
    if processes > 1 and simulated:
        raise UserError(
            "a simulated policy is trained by one process",
            remedy="start rods-train without a launcher",
        )
    if processes > 1:
        # refuses what does not come out even before anything is loaded
        split(run.config, processes)
    if rank:  # how the run ends is the first process's to say
        from rods.trainer.trl_start import take_part

        with suppress(TrainingStopped), run.playing(f"trainer-{rank}"):
            take_part(run)
        return EXIT_OK

    def asked() -> bool:
        request.grace = run.config.operation.grace_seconds
        return request.asked

    with TrainingRun(run, asked) as training:
        if training.finished and processes == 1:
            log.info("nothing to do: the run is finished", step=training.step)
            return EXIT_OK
        names = () if simulated else LIBRARIES
        run.log_start("trainer", packages={name: metadata.version(name) for name in names})
        if simulated:
            from rods.trainer.simulated import train
        else:
            # until the run first asks: imports, weights, demonstrations for nano may be lost
            request.grace = UNBEGUN
            from rods.trainer.trl_start import train  # torch only where weights are
        try:
            train(training)
        except TrainingStopped as stopped:
            log.info("stopped", reason=stopped.reason)
        log.info("end", step=training.step, reason=training.stopping)
        return EXIT_OK if training.finished else EXIT_REQUEUE
