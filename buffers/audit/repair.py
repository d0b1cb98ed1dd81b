"""Finds and repairs what a crash or a bad disk left in a run folder: `rods recover`.

Whatever a kill leaves behind is repaired by an ordinary start too, with the same code. Only damage inside a log is not:
no program goes on with it until a person has agreed here. Nothing is deleted: what is replaced or moved lies in
`recovered/<n>/` afterwards, under its old name.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buffers.audit.rederive import Findings, Rederivation
from buffers.log.disk import replace, sync_folder
from buffers.log.parts import first_seq, segments
from buffers.log.records import CLOSING, LOST, line
from buffers.log.salvage import PartContents, mended, salvage
from buffers.log.tail import read_raw
from buffers.log.writer import LogWriter
from buffers.run import runfolder
from buffers.run.heartbeat import Heartbeat
from buffers.run.locks import Ownership, buffer_lock, owner, stale_owners
from buffers.run.run import Run
from rods.errors import RefusedError, RodsError
from rods.files import read_regular

PROCESS = "recover"
OWNED = (runfolder.OBSERVATIONS, runfolder.POOL, runfolder.SEEDS)  # who owns them owns all that is repaired here


@dataclass(frozen=True, slots=True)
class Repair:
    """Something that is not as it should be, what will be done about it, and the doing of it. `act` is given the folder
    that takes what is moved aside; `mends` says that it changes a log."""

    where: str
    what: str
    remedy: str
    act: Callable[[Path], object] = lambda aside: None
    mends: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what} → {self.remedy}"

    def as_json(self) -> dict[str, Any]:
        return {"where": self.where, "what": self.what, "remedy": self.remedy}


def examine(run: Run) -> list[Repair]:
    """What there is to do, in the order in which it is done. Changes nothing; an empty list is the normal answer."""
    folder = run.path
    found = _broken(run)
    found += [
        Repair(path.name, "a file that was never finished", "moved aside", _mover(path)) for path in _leftovers(folder)
    ]
    found += [
        Repair(f"{runfolder.LOCKS}/{path.name}", f"held by {gone}, whose heartbeat has stopped", "moved aside")
        for path, gone in stale_owners(folder)
    ]
    return found


def carry_out(run: Run, repairs: list[Repair]) -> Path:
    """Carries out `repairs`, holding the logs meanwhile. Returns the folder that holds what was moved aside. Raises
    RefusedError while a trainer or a daemon lives, and when one has changed since what was to be repaired."""
    folder = run.path
    for name in OWNED:
        if (present := owner(folder, name)) is not None:
            raise RefusedError(f"{present} is at work", where=str(folder), remedy="stop it first")
    aside = _aside(folder)
    for path, _ in stale_owners(folder):
        _mover(path)(aside)  # before anything else: what they hold could not be owned
    heartbeat = Heartbeat(folder, PROCESS).start()
    held: list[Ownership] = []
    try:
        held += [Ownership(folder, name, PROCESS, heartbeat) for name in OWNED]
        with buffer_lock(folder):
            for repair in [*_as_agreed(run, repairs), *(one for one in repairs if not one.mends)]:
                repair.act(aside)
            sync_folder(folder)
        return aside
    except RodsError:
        with suppress(OSError):
            aside.rmdir()  # nothing was done
        raise
    finally:
        for one in held:
            one.release()
        heartbeat.stop()


def _as_agreed(run: Run, repairs: list[Repair]) -> list[Repair]:
    """The repairs of logs, examined again now that nobody else writes. Raises RefusedError when they are not those that
    the user has agreed to."""
    found = _broken(run)
    if [str(one) for one in found] != [str(one) for one in repairs if one.mends]:
        raise RefusedError(
            "the run has changed since it was looked at", where=str(run.path), remedy="start the same command again"
        )
    return found


def _broken(run: Run) -> list[Repair]:
    """What is to be done in logs."""
    return [one for log in logs(run.path) for one in (*_damage(run, log), *_torn(log))]


def logs(folder: Path) -> list[Path]:
    """Every log of the run, by the name of its live part."""
    names = {runfolder.OBSERVATIONS, runfolder.POOL, runfolder.SEEDS, runfolder.EXPANDED, runfolder.REJECTED}
    names |= {runfolder.FEEDBACK, runfolder.DROPPED, runfolder.DRAWN, runfolder.CONTROL}
    for pattern in (runfolder.usage("*"), runfolder.operation("*")):
        names |= {".".join([*path.name.split(".")[:2], "jsonl"]) for path in folder.glob(pattern)}
    return [folder / name for name in sorted(names) if segments(folder / name)]


def _damage(run: Run, log: Path) -> Iterator[Repair]:
    parts = salvage(log)
    damaged = [part for part in parts if part.damaged]
    for part in damaged:
        yield Repair(
            part.path.name,
            str(part),
            "the whole records stay, each lost one is marked as such; the old file is kept aside",
            _mender(part.path, parts),
            mends=True,
        )
    if not damaged:
        return
    for snapshot in sorted((log.parent / runfolder.SNAPSHOTS).glob(f"{log.name.removesuffix('.jsonl')}.*")):
        yield Repair(snapshot.name, "made before the repair", "moved aside; it is made again", _mover(snapshot), True)
    if log.name == runfolder.POOL and any(part.missing for part in damaged):
        yield Repair(
            log.name,
            "decisions were lost",
            "derived again from the observations where the merge's own record stands; from where it does not, later "
            "merges are moved aside and made again",
            lambda aside: restore_pool(run, aside),
            mends=True,
        )


def _mender(path: Path, parts: list[PartContents]) -> Callable[[Path], object]:
    return lambda aside: _replace(path, dict(mended(parts))[path], aside)


def _torn(log: Path) -> Iterator[Repair]:
    live = segments(log)[-1]
    data = read_regular(live)
    size = len(data) - (data.rfind(b"\n") + 1)
    if size:
        remedy = f"moved to {live.name}.torn.{len(data) - size}, as at every start"
        yield Repair(
            live.name, f"the last {size} bytes are a line cut short", remedy, lambda _: _reopen(log, live), True
        )


def _reopen(log: Path, live: Path) -> None:
    """What every start of a writer does."""
    LogWriter(live, log=log).close()


def restore_pool(run: Run, aside: Path) -> None:
    """Writes the lost decisions of merges again, and cuts pool.jsonl before the first merge whose record was lost."""
    log = run.path / runfolder.POOL
    _cut_before_lost_merge(log, aside)
    history = Rederivation(run, Findings(str(run.path)))
    history.walk()
    for part in segments(log) if history.restored else ():
        lines = read_regular(part).splitlines(keepends=True)
        first = first_seq(part) or 0
        for seq, content in history.restored.items():
            if first <= seq < first + len(lines):
                lines[seq - first] = line(seq, content)
        replace(part, b"".join(lines))


def _cut_before_lost_merge(log: Path, aside: Path) -> None:
    after, lost = 0, False  # the last `epoch` record, and whether one was lost behind it
    for record in read_raw(log):
        if record["kind"] == LOST:
            lost = True
        elif record["kind"] in CLOSING:
            if lost and record["first"] != after + 1:
                break
            after, lost = record["seq"], False
    else:
        return
    for part in reversed(segments(log)):
        first = first_seq(part) or after + 1
        if first > after + 1 and part != log:
            _mover(part)(aside)
        else:
            keep = max(0, after + 1 - first)
            _replace(part, b"".join(read_regular(part).splitlines(keepends=True)[:keep]), aside)
            if first <= after + 1:
                return


def _leftovers(folder: Path) -> list[Path]:
    """Temporary files of replacements that a kill cut short."""
    found = [*folder.glob(".*.tmp"), *folder.glob("*.tmp"), *(folder / runfolder.SNAPSHOTS).glob(".*.tmp")]
    return sorted({path for path in found if path.is_file()})


def _replace(path: Path, data: bytes, aside: Path) -> None:
    """The old file is durable aside before the new one takes its place."""
    shutil.copy2(path, _free_name(aside / path.name))
    sync_folder(aside)
    replace(path, data)


def _mover(path: Path) -> Callable[[Path], object]:
    def move(aside: Path) -> None:
        with suppress(FileNotFoundError):  # its owner has put it right
            path.rename(_free_name(aside / path.name))

    return move


def _free_name(path: Path) -> Path:
    number = 0
    while path.exists():
        number += 1
        path = path.with_name(f"{path.name}.{number}")
    return path


def _aside(folder: Path) -> Path:
    """A new folder `recovered/<n>`."""
    number = 1
    while (place := folder / runfolder.RECOVERED / str(number)).exists():
        number += 1
    place.mkdir(parents=True)
    return place
