"""`rods recover`: lists what a crash or a bad disk has damaged in a run folder, and repairs it once agreed to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from console.output import RunFolder, print_json, print_lines
from console.verbs.verify import checked
from rods.commands import Json
from rods.errors import EXIT_FAILED, EXIT_OK, RodsError

if TYPE_CHECKING:
    from buffers.run.run import Run

Yes = Annotated[bool, Parameter(negative="", help="Do it without asking.")]


def recover(run: RunFolder, /, *, yes: Yes = False, as_json: Json = False) -> int:
    """Explain what needs repair in a run folder, ask, and do it. Nothing is deleted: what is replaced or in the way is
    moved to recovered/ in the run folder.

    What a kill or a power cut leaves behind needs no repair: the next start takes care of it. Exits 0 when nothing is
    left to do and `rods verify` agrees, 1 otherwise, 3 while the run's trainer or daemon lives.
    """
    from buffers.audit.repair import carry_out, examine
    from buffers.run.run import Run

    opened = Run.open(run)
    repairs = examine(opened)
    if not as_json:
        print(f"{run}: " + (f"{len(repairs)} to repair" if repairs else "nothing to recover"))
        print_lines(map(str, repairs), indent="  ")
    done = bool(repairs) and (yes or _agreed())
    aside = carry_out(opened, repairs) if done else None
    checkpoints = _set_checkpoints_aside(opened) if done else []
    report = checked(run) if done or not repairs else None
    if as_json:
        print_json(
            {
                "repairs": [repair.as_json() for repair in repairs],
                "done": done,
                "aside": str(aside) if aside else None,
                "checkpoints": checkpoints,
                "verify": report.as_json() if report else None,
            }
        )
    else:
        if aside is not None:
            print(f"done; what was moved aside or replaced lies in {aside}")
        for name in checkpoints:
            print(f"  checkpoint {name}: does not fit what the logs still say → moved to checkpoints/incomplete")
        if report is not None:
            print_lines(report.lines())
            if done and not report.ok:
                print(_outlook(opened))
        else:
            print("nothing was done: add --yes")
    return EXIT_OK if report is not None and report.ok else EXIT_FAILED


def _agreed() -> bool:
    return sys.stdin.isatty() and input("do this? [y/N] ").strip().lower() in ("y", "yes")


def _outlook(run: Run) -> str:
    """Whether a run with problems can go on: what the next start of its processes would say."""
    from buffers.ends import short_logs
    from buffers.state import read_state

    try:
        read_state(run)
        short = [one.what for one in short_logs(run)]
    except RodsError as error:
        short = [str(error)]
    if short:
        return f"the next start will refuse this run ({'; '.join(short)}): put the logs back from a copy"
    return f"the run can go on without what was lost: `rods up {run.path}`; `rods verify` will go on naming it"


def _set_checkpoints_aside(run: Run) -> list[str]:
    """Moves away checkpoints that are torn, or taken in an epoch that the pool no longer knows; returns their names."""
    from buffers.checkpoints import Checkpoints
    from buffers.state import read_state

    state, checkpoints = read_state(run), Checkpoints(run.path)
    known = [one for one in checkpoints.named(state.live) if one.position.epoch <= state.epoch and one.intact()]
    return [path.name for path in checkpoints.set_aside(state.live, known[-1] if known else None)]
