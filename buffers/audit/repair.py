"""Finds and repairs what a crash or a bad disk left in a run folder: `rods recover`.

Whatever a kill leaves behind is repaired by an ordinary start too, with the same code. Only damage
inside a log is not: no program goes on with it until a person has agreed here. Nothing is deleted:
what is replaced or moved lies in `recovered/<n>/` afterwards, under its old name.

Whole records behind damage are kept where they stand. Each that is missing gets a `lost` record
with its seq in its place, so that everything that names a seq stays right; folds pass over `lost`
records, and `rods verify` says what they lacked. A lost `start` is written again, since what
follows tells it.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, takewhile
from pathlib import Path

import orjson

from rods.buffers.audit.rederivation import Findings, Rederivation
from rods.buffers.audit.verify import logs
from rods.buffers.log.disk import free_name, replace, sync_folder
from rods.buffers.log.parts import first_seq, segments
from rods.buffers.log.record_bytes import (
    LOST,
    Record,
    is_record,
    leading_record,
    line,
    newline_altered,
    parsed,
    record,
)
from rods.buffers.log.tail import read, read_raw
from rods.buffers.log.writer import LogWriter
from rods.buffers.run import runfolder
from rods.buffers.run.heartbeat import Heartbeat
from rods.buffers.run.locks import Ownership, owner, stale_owners
from rods.buffers.run.run import Run
from rods.canonical import JsonObject, frozen
from rods.errors import CorruptLogError, RodsError
from rods.files import BULK, read_regular

PROCESS = "recover"
# who owns them owns all that is repaired here
OWNED = (runfolder.OBSERVATIONS, runfolder.POOL, runfolder.SEEDS)


@frozen
class Repair:
    """Something that is not as it should be, what will be done about it, and the doing of it. `act`
    is given the folder that takes what is moved aside; `mends` says that it changes a log, `loses`
    that records of it are gone for good."""

    where: str
    what: str
    remedy: str
    act: Callable[[Path], object] = lambda aside: None
    mends: bool = False
    loses: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what} → {self.remedy}"

    def as_json(self) -> JsonObject:
        return {"where": self.where, "what": self.what, "remedy": self.remedy}


def examine(run: Run) -> list[Repair]:
    """What there is to do, in the order in which it is done. Changes nothing; an empty list is the
    normal answer."""
    folder = run.path
    unfinished = {
        *folder.glob(".*.tmp"),
        *folder.glob("*.tmp"),
        *(folder / runfolder.SNAPSHOTS).glob(".*.tmp"),
    }
    repairs = _broken(run)
    aside = "moved aside"
    for path in filter(Path.is_file, sorted(unfinished)):
        repairs.append(
            Repair(path.name, "a file that was never finished", aside, partial(_move, path))
        )
    for path, holder in stale_owners(folder):
        repairs.append(
            Repair(
                f"{runfolder.LOCKS}/{path.name}",
                f"held by {holder}, whose heartbeat has stopped",
                aside,
            )
        )
    return repairs


def carry_out(run: Run, repairs: list[Repair]) -> Path:
    """Carries out `repairs`, holding the logs meanwhile. Returns the folder that holds what was
    moved aside. Raises RefusedError while a trainer or a daemon lives, and when one has changed
    since what was to be repaired."""
    folder = run.path
    for name in OWNED:
        if (present := owner(folder, name)) is not None:
            raise run.refused(f"{present} is at work", "stop it first")
    places = (folder / runfolder.RECOVERED / str(number) for number in count(1))
    aside = next(place for place in places if not place.exists())
    aside.mkdir(parents=True)
    for path, _ in stale_owners(folder):
        _move(path, aside)  # before anything else: what they hold could not be owned
    heartbeat = Heartbeat(folder, PROCESS).start()
    try:
        with ExitStack() as held:
            for name in OWNED:
                held.enter_context(Ownership(folder, name, PROCESS, heartbeat))
            broken = _broken(run)  # again, now that nobody else writes
            if [str(repair) for repair in broken] != [
                str(repair) for repair in repairs if repair.mends
            ]:
                raise run.refused(
                    "the run has changed since it was looked at", "start the same command again"
                )
            for repair in [*broken, *(repair for repair in repairs if not repair.mends)]:
                repair.act(aside)
            sync_folder(folder)
        return aside
    except RodsError:
        with suppress(OSError):
            aside.rmdir()  # nothing was done
        raise
    finally:
        heartbeat.stop()


def agree(run: Run, problems: Iterable[Mapping[str, str]]) -> None:
    """Puts on record what a repair that lost records has left, so that `rods verify` shows it apart
    from then on."""
    losses = run.path / runfolder.LOSSES
    with Ownership(run.path, losses.name, PROCESS), closing(LogWriter(losses)) as log:
        log.append(
            record("loss", where=problem["where"], what=problem["what"], time=time.time())
            for problem in problems
        )


def losses(folder: Path) -> list[Record]:
    """What `agree` has put on record in the run at `folder`."""
    return list(read(folder / runfolder.LOSSES))


def _broken(run: Run) -> list[Repair]:
    """What is to be done in logs."""
    # extensions are put back from a copy
    mendable = (log for log in logs(run.path) if log.name != runfolder.EXTENSIONS)
    return [repair for log in mendable for repair in (*_damage(run, log), *_torn(log))]


def _damage(run: Run, log: Path) -> Iterator[Repair]:
    parts = salvage(log)
    if not any(part.damaged for part in parts):
        return
    for part, data in mended(parts):
        yield Repair(
            part.path.name,
            str(part),
            "the whole records stay, each lost one is marked as such; the old file is kept aside",
            partial(_replace, part.path, data),
            mends=True,
            loses=bool(part.missing),
        )
    for snapshot in sorted(
        (log.parent / runfolder.SNAPSHOTS).glob(f"{log.name.removesuffix('.jsonl')}.*")
    ):
        yield Repair(
            snapshot.name,
            "made before the repair",
            "moved aside; it is made again",
            partial(_move, snapshot),
            mends=True,
        )
    if log.name == runfolder.POOL and any(part.missing for part in parts):
        yield Repair(
            log.name,
            "decisions were lost",
            "derived again from the observations where the merge's own record stands; from where "
            "it does not, later merges are moved aside and made again",
            partial(restore_pool, run),
            mends=True,
        )


def _torn(log: Path) -> Iterator[Repair]:
    live = segments(log)[-1]
    data = read_regular(live, BULK)
    size = len(data) - (data.rfind(b"\n") + 1)
    if size:
        # Every start of a writer does it.
        yield Repair(
            live.name,
            f"the last {size} bytes are a line cut short",
            f"moved to {live.name}.torn.{len(data) - size}, as at every start",
            lambda _: LogWriter(live, log=log).close(),
            mends=True,
        )


def restore_pool(run: Run, aside: Path) -> None:
    """Writes the lost decisions of merges again, and cuts pool.jsonl before the first merge whose
    record was lost."""
    log = run.path / runfolder.POOL
    _cut_before_lost_merge(log, aside)
    history = Rederivation(run, Findings(str(run.path)))
    history.walk()
    for part in segments(log) if history.restored else ():
        lines = read_regular(part, BULK).splitlines(keepends=True)
        first = first_seq(part) or 0
        for seq, content in history.restored.items():
            if first <= seq < first + len(lines):
                lines[seq - first] = line(seq, content)
        replace(part, b"".join(lines))


def _cut_before_lost_merge(log: Path, aside: Path) -> None:
    # the last `epoch` record, and whether one was lost behind it
    after = 0
    gap = False
    for entry in read_raw(log):
        if entry["kind"] == LOST:
            gap = True
        elif entry["kind"] == "epoch":
            if gap and entry["first"] != after + 1:
                break
            after = entry["seq"]
            gap = False
    else:
        return
    for part in reversed(segments(log)):
        first = first_seq(part) or after + 1
        if first > after + 1 and part != log:
            _move(part, aside)
        else:
            keep = max(0, after + 1 - first)
            _replace(
                part, b"".join(read_regular(part, BULK).splitlines(keepends=True)[:keep]), aside
            )
            if first <= after + 1:
                return


def _replace(path: Path, data: bytes, aside: Path) -> None:
    """The old file is durable aside before the new one takes its place."""
    shutil.copy2(path, free_name(aside / path.name))
    sync_folder(aside)
    replace(path, data)


def _move(path: Path, aside: Path) -> None:
    with suppress(FileNotFoundError):  # its owner has put it right
        path.rename(free_name(aside / path.name))


BEGINNING = re.compile(rb'\{"seq":\d+,"id":"')


@dataclass(slots=True)
class PartContents:
    """A file of the log: its bytes up to the last newline, and the records among them (seq → the
    line's text)."""

    path: Path
    data: bytes
    records: dict[int, bytes]
    missing: list[int] = field(default_factory=list)  # seqs whose place is here

    @property
    def sound(self) -> bytes:
        return b"".join(text + b"\n" for text in self.records.values())

    @property
    def damaged(self) -> bool:
        return bool(self.missing) or self.data != self.sound

    @property
    def offset(self) -> int:
        """The start of the first line that is not as it should be."""
        lines = zip(self.data.split(b"\n"), self.sound.split(b"\n"), strict=False)
        alike = takewhile(lambda pair: pair[0] == pair[1], lines)
        return min(len(self.data), sum(len(text) + 1 for text, _ in alike))

    def __str__(self) -> str:
        first = min(self.missing, default=0)
        count = len(self.missing)
        which = (
            "no record"
            if not count
            else f"record {first}"
            if count == 1
            else f"{count} records from {first} on"
        )
        return f"damaged from byte {self.offset} on, {which} lost"


def salvage(log: Path) -> list[PartContents]:
    """Looks at every byte of a log; changes nothing. An incomplete last line is no damage."""
    parts: list[PartContents] = []
    last = 0
    files = segments(log)
    for path in files:
        data = read_regular(path, BULK)
        torn = data[data.rfind(b"\n") + 1 :] if path == files[-1] else b""
        if not newline_altered(torn):  # otherwise it was whole
            data = data[: len(data) - len(torn)]
        part = PartContents(path, data, {})
        for text in _records(data):
            # what no writer has written, though its checksum matches
            with suppress(CorruptLogError):
                # else a second copy of what is there
                if (seq := parsed(text, path, 0)["seq"]) > last:
                    part.records[seq] = text
                    last = seq
        parts.append(part)
    _place_missing(parts)
    return parts


def mended(parts: list[PartContents]) -> Iterator[tuple[PartContents, bytes]]:
    """The damaged parts with their new bytes."""
    starts = _starts(parts)
    for part in parts:
        if part.damaged:
            lines = {seq: text + b"\n" for seq, text in part.records.items()}
            for seq in part.missing:
                content = starts.get(seq) or record(LOST, log=part.path.name, number=seq)
                lines[seq] = line(seq, content)
            yield part, b"".join(lines[seq] for seq in sorted(lines))


def _records(data: bytes) -> Iterator[bytes]:
    """Whole records, also those between which a newline was damaged."""
    for text in data.split(b"\n"):
        if is_record(text):
            yield text
            continue
        done = 0
        for begin in BEGINNING.finditer(text):
            if begin.start() < done:
                continue
            if whole := leading_record(text[begin.start() :]):
                yield whole
                done = begin.start() + len(whole)


def _place_missing(parts: list[PartContents]) -> None:
    """Gives every missing seq a part: a damaged one next to the gap, if there is one. How many
    records stood behind the last whole one, only the number of lines tells."""
    due = 1
    for part in parts:
        for seq in part.records:
            part.missing += range(due, seq)
            due = seq + 1
    if parts:
        live = parts[-1]
        last = next(reversed(live.records.values()), None)
        behind = live.data if last is None else live.data.rpartition(last)[2][1:]
        live.missing += range(due, due + behind.count(b"\n"))


def _starts(parts: list[PartContents]) -> dict[int, Record]:
    """The `start` records among the missing ones: an attempt whose steps are there has begun."""
    missing = {seq for part in parts for seq in part.missing}
    starts: dict[int, Record] = {}
    attempts: set[int] = set()
    gap = 0  # the latest missing seq
    for part in parts if missing else ():
        for seq, text in part.records.items():
            gap = seq - 1 if seq - 1 in missing else gap
            content = orjson.loads(text)
            if content["kind"] == "start":
                attempts.add(content["attempt"])
            elif content["kind"] in ("group", "step") and content["attempt"] not in attempts:
                attempts.add(content["attempt"])
                if gap:
                    starts[gap] = record(
                        "start",
                        attempt=content["attempt"],
                        from_step=content["step"] - 1,
                        time=None,
                    )
    return starts
