"""What a run reports to beside its folder, `operation.report_to`; each needs its package. A start
goes on in the dashboard's run of the starts before it, whatever killed them. Training waits for
none of them and ends by none: each has a thread of its own, and what it raises is logged.

Accelerate has such, too, but they want its state of processes, which joins a group wherever a
launcher has set its variables: not for a trainer that has a group of its own, or no torch.
"""

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Thread
from typing import Any

from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.trainer_log import TrainerLog
from rods.canonical import JsonMapping, content_id, present
from rods.deadlines import TRACKERS_END
from rods.errors import UserError
from rods.faults import LABELS
from rods.logs import log
from rods.turn_statistics import dynamics, label_counts

MOST_WAITING = 1_000  # reports that a tracker has not taken; later ones are lost
PROJECT = "rods"  # unless the dashboard's own variable names another
# takes numbers by name, and the step that they are of
Log = Callable[[Mapping[str, float], int], Any]
Waiting = SimpleQueue[tuple[JsonMapping, int] | None]


class Reporters(ExitStack):
    """Those of `run`, each opened when the first numbers come, and closed with this. Raises
    UserError where a package is missing."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._waiting = dict[str, Waiting]()
        self._names = run.config.operation.report_to
        for name in self._names:
            if find_spec(name) is None:
                raise UserError(
                    f"the package {name} is not installed",
                    where="operation.report_to",
                    remedy=f"`pip install {name}`, or leave it out",
                )

    def log(self, numbers: JsonMapping, step: int) -> None:
        """Reports `numbers`, by name, as those of `step`; what is no number is left out."""
        numbers = {name: value for name, value in numbers.items() if isinstance(value, int | float)}
        for name in self._names:
            if name not in self._waiting:
                waiting = self._waiting[name] = Waiting()
                thread = Thread(target=_tell, args=(name, self._run, waiting), daemon=True)
                thread.start()
                self.callback(thread.join, TRACKERS_END / len(self._names))
                self.callback(waiting.put, None)
            late = self._waiting[name].qsize()
            if late == MOST_WAITING:
                log.warning("a tracker takes nothing; further reports are lost", tracker=name)
            if late <= MOST_WAITING:
                self._waiting[name].put((numbers, step))

    def log_run(self, log: TrainerLog) -> None:
        """Reports how the run stands behind its last step, as `rods/<gauge>`."""
        if self._names:
            self.log(
                {f"rods/{name}": value for name, value in gauges(log).items()}, log.state.last_step
            )


def _tell(name: str, run: Run, waiting: Waiting) -> None:
    """Tells the tracker `name` what is `waiting`, until None is, and logs the first of failures in
    a row."""
    board = ExitStack()
    tell = None
    failing = False
    while True:
        report = waiting.get()
        try:
            if report is None:
                board.close()
                return
            numbers, step = report
            if tell is None:
                tag = content_id([run.manifest["created"], run.manifest["identity_hash"]])[:16]
                tell = OPENED[name](board, run, tag, step)
            tell({key: float(number) for key, number in numbers.items()}, step)
            failing = False
        except (Exception, SystemExit) as error:  # noqa: BLE001 it may raise anything
            if not failing:
                log.warning("a tracker fails; training goes on", tracker=name, error=repr(error))
            failing = True
            if report is None:
                return


def gauges(log: TrainerLog) -> dict[str, float]:
    """For dashboards: zones, pool and staging, and of the last step that was written by `log` the
    mean `reward`, the share of each label (`label/<label>`), of turns with calls (`turns/calling`),
    and the replies a turn (`turns/replies`); where form is rewarded, what replies and what calls
    have earned (`form/replies`, `form/calls`); what is not known is left out."""
    groups = log.last_groups
    counts = label_counts(groups)
    turns = dynamics(groups)
    labels = {f"label/{label}": counts[label] / counts.total() for label in LABELS if counts}
    rollouts = [
        rollout
        for group in groups
        for rollout in group["rollouts"]
        if rollout["reward"] is not None
    ]
    formed = [
        (rollout["format"], rollout["call_format"])
        for rollout in rollouts
        if "call_format" in rollout
    ]
    means = {
        "reward": _mean([rollout["reward"] for rollout in rollouts]),
        "form/replies": _mean([form - calls for form, calls in formed]),
        "form/calls": _mean([calls for _, calls in formed]),
        "turns/calling": turns.calling_share,
        "turns/replies": turns.replies_a_turn,
    }
    return {**log.state.gauges(), **labels, **present(**means)}


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _wandb(opened: ExitStack, run: Run, tag: str, step: int) -> Log:
    import wandb

    folder = os.environ.get("WANDB_DIR") or str(run.path / runfolder.LOGS)
    about = {"id": tag, "name": run.name, "dir": folder, "config": run.config.identity()}
    board = wandb.init(project=os.environ.get("WANDB_PROJECT") or PROJECT, resume="allow", **about)
    opened.callback(board.finish)
    # wandb's own steps never go back, those of a run may
    board.define_metric("*", step_metric="step")
    return lambda numbers, step: board.log({**numbers, "step": step})


def _trackio(opened: ExitStack, run: Run, tag: str, step: int) -> Log:
    import trackio

    project = os.environ.get("TRACKIO_PROJECT") or PROJECT
    board = trackio.init(project=project, name=f"{run.name}-{tag}", resume="allow", embed=False)
    opened.callback(board.finish)
    return lambda numbers, step: board.log(dict(numbers), step=step)


def _mlflow(opened: ExitStack, run: Run, tag: str, step: int) -> Log:
    import mlflow

    client = mlflow.MlflowClient()
    experiment = mlflow.set_experiment(
        os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
    ).experiment_id
    runs = client.search_runs([experiment], f"tags.rods = '{tag}'")
    board = (
        runs[0] if runs else client.create_run(experiment, run_name=run.name, tags={"rods": tag})
    ).info.run_id
    client.update_run(board, status="RUNNING")
    opened.callback(client.set_terminated, board)

    def log(numbers: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        client.log_batch(
            board, [mlflow.entities.Metric(*one, now, step) for one in numbers.items()]
        )

    return log


def _tensorboard(opened: ExitStack, run: Run, tag: str, step: int) -> Log:
    from torch.utils.tensorboard import SummaryWriter

    # What an earlier start has shown of later steps counts no longer.
    board = SummaryWriter(str(run.path / runfolder.LOGS / "tensorboard"), purge_step=step)
    opened.callback(board.close)

    def log(numbers: Mapping[str, float], step: int) -> None:
        for name, number in numbers.items():
            board.add_scalar(name, number, step)
        board.flush()

    return log


# Each is given the stack that closes it, the run, by which tag that is known, and the first step
# that is told.
OPENED: Mapping[str, Callable[[ExitStack, Run, str, int], Log]] = {
    "wandb": _wandb,
    "trackio": _trackio,
    "mlflow": _mlflow,
    "tensorboard": _tensorboard,
}
