"""`rods verify`: derives every decision of a run from its logs again and compares, and checks its checkpoints."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from console.output import RunFolder, print_checked
from rods.commands import Json
from rods.errors import CorruptLogError

if TYPE_CHECKING:
    from buffers.audit.rederive import Findings

Replay = Annotated[bool, Parameter(negative="", help="Also run variants' ground truths again, diagnose kept traces.")]


def verify(run: RunFolder, /, *, replay: Replay = False, as_json: Json = False) -> int:
    """Re-derive every injection, deferral and retirement from the logs and compare. Exits 1 on a difference."""
    return print_checked(checked(run, replay=replay), as_json)


def checked(path: Path, *, replay: bool = False) -> Findings:
    """What `rods verify` finds: in the logs (buffers.audit.verify), and whether live checkpoints fit them."""
    from buffers.audit.verify import verify as check

    report = check(path, replay=replay)
    with suppress(CorruptLogError):  # which the report says already
        _check_checkpoints(path, report)
    return report


def _check_checkpoints(path: Path, report: Findings) -> None:
    """Adds a problem for each live checkpoint that is not intact or names another epoch or order than the log."""
    from buffers.checkpoints import Checkpoints
    from buffers.run.run import Run
    from buffers.state import read_state

    state = read_state(Run.open(path))
    epochs = {
        record["epoch"]: (record["seq"], record["order"]) for record in state.decisions() if record["kind"] == "epoch"
    }
    for checkpoint in Checkpoints(path).named(state.live):
        report.count("checkpoints")
        where, at = f"checkpoint {checkpoint.folder.name}", checkpoint.position
        if not checkpoint.intact():
            report.problem(where, "a file is not as it was written")
        if at.order_hash and epochs.get(at.epoch) != (at.pool_seq, at.order_hash):
            report.problem(where, f"was taken in another epoch {at.epoch} than the logs give")
