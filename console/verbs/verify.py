"""`rods verify` and `rods recover`: whether a run folder is what its logs say, and what a crash or
a bad disk left."""

import sys
from contextlib import suppress
from pathlib import Path

from rods.buffers.audit.rederivation import Findings
from rods.buffers.audit.repair import agree, carry_out, examine, losses
from rods.buffers.audit.verify import verify as check_logs
from rods.buffers.checkpoints import Checkpoints, truncations
from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.commands import Json
from rods.console.output import RunFolder, print_checked, print_lines, print_result
from rods.errors import EXIT_FAILED, EXIT_OK, CorruptLogError, RodsError


def verify(run: RunFolder, /, *, replay: bool = False, as_json: Json = False) -> int:
    """Re-derive every injection, deferral and retirement from the logs and compare. Exits 1 on a
    difference.

    Args:
        replay: Also run variants' ground truths again, diagnose kept traces.
    """
    return print_checked(checked(run, replay=replay), as_json)


def checked(path: Path, *, replay: bool = False) -> Findings:
    """What `rods verify` finds: in the logs (rods.buffers.audit.verify), for each recorded
    checkpoint with a damaged manifest, and for each live one that is not intact, names another
    epoch or order than the log, or is another one than the trainer recorded. What a repair has left
    that was agreed to is set apart."""
    report = check_logs(path, replay=replay)
    with suppress(CorruptLogError):  # which the report says already
        state = read_state(Run.open(path))
        epochs = {
            decision["epoch"]: (decision["seq"], decision["order"])
            for decision in state.decisions()
            if decision["kind"] == "epoch"
        }
        recorded = Checkpoints(path).recorded()
        for name in Checkpoints(path).unreadable():
            if name in recorded:
                report.problem(
                    f"checkpoint {name}", "its manifest is damaged, or that of another one"
                )
            else:
                report.notes.append(
                    f"checkpoint {name}: no record names it, and its manifest is not its own"
                )
        for checkpoint in Checkpoints(path).named(state.live):
            folder, manifest = checkpoint.noted().values()
            report.count("checkpoints")
            where = f"checkpoint {checkpoint.folder.name}"
            at = checkpoint.position
            if not checkpoint.intact():
                report.problem(where, "a file is not as it was written")
            if at.order_hash and epochs.get(at.epoch) != (at.pool_seq, at.order_hash):
                report.problem(where, f"was taken in another epoch {at.epoch} than the logs give")
            elif recorded.get(folder, manifest) != manifest:
                report.problem(where, "is not the one that the trainer recorded")
            if folder not in recorded:
                report.notes.append(
                    f"{where}: no record names it, so only its own manifest vouches for it"
                )
        report.set_apart(losses(path))
    return report


def recover(run: RunFolder, /, *, yes: bool = False, as_json: Json = False) -> int:
    """Explain what needs repair in a run folder, ask, and do it. Nothing is deleted: what is
    replaced or in the way is moved to recovered/ in the run folder.

    What a kill or a power cut leaves behind needs no repair: the next start takes care of it. Where
    records are lost and the run can go on without them, what `rods verify` misses is put on record,
    and shown apart from then on. Exits 0 when nothing is left to do and `rods verify` agrees, 1
    otherwise, 3 while the run's trainer or daemon lives.

    Args:
        yes: Do it without asking.
    """
    opened = Run.open(run)
    repairs = examine(opened)
    if not as_json:
        found = f"{len(repairs)} to repair" if repairs else "nothing to recover"
        print_lines([f"{run}: {found}", *(f"  {repair}" for repair in repairs)])
    if repairs and not yes and sys.stdin.isatty():
        yes = input("do this? [y/N] ").strip().lower() in ("y", "yes")
    done = bool(repairs) and yes
    aside = carry_out(opened, repairs) if done else None
    checkpoints = _set_checkpoints_aside(opened) if done else []
    report = checked(run) if done or not repairs else None
    outlook = _outlook(opened) if done and report is not None and not report.ok else ("", True)
    if (
        report is not None
        and report.problems
        and outlook[1]
        and any(repair.loses for repair in repairs)
    ):
        agree(opened, report.problems)
        report.set_apart(losses(run))
    lines = [] if aside is None else [f"done; what was moved aside or replaced lies in {aside}"]
    lines += [
        f"  checkpoint {name}: does not fit what the logs still say → moved to "
        f"checkpoints/incomplete"
        for name in checkpoints
    ]
    lines += ["nothing was done: add --yes"] if report is None else report.lines()
    lines += [outlook[0]] if outlook[0] else []
    result = {
        "repairs": [repair.as_json() for repair in repairs],
        "done": done,
        "aside": str(aside) if aside else None,
        "checkpoints": checkpoints,
        "verify": report.as_json() if report else None,
    }
    print_result(as_json, result, lines)
    return EXIT_OK if report is not None and report.ok else EXIT_FAILED


def _outlook(run: Run) -> tuple[str, bool]:
    """Whether a run with problems can go on: what the next start of its processes would say, in
    words."""
    try:
        read_state(run)
        lost = [what for _, what in truncations(run)]
    except RodsError as error:
        lost = [str(error)]
    if lost:
        return (
            f"the next start will refuse this run ({'; '.join(lost)}): put the logs back from a "
            f"copy",
            False,
        )
    return f"the run can go on without what was lost: `rods up {run.path}`", True


def _set_checkpoints_aside(run: Run) -> list[str]:
    """Moves away checkpoints that are torn, or taken in an epoch that the pool no longer knows;
    returns their names."""
    state = read_state(run)
    checkpoints = Checkpoints(run.path)
    named = checkpoints.named(state.live)
    fitting = [
        checkpoint
        for checkpoint in named
        if checkpoint.position.epoch <= state.epoch and checkpoint.intact()
    ]
    return [
        path.name for path in checkpoints.set_aside(state.live, fitting[-1] if fitting else None)
    ]
