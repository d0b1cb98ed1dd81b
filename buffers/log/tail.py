"""Reads logs: `read` a whole one, `Tail` one that is being written, by polling.

Both yield what a fold may believe: records of groups only once a closing record covers them. Raises
CorruptLogError naming file and byte offset.
"""

import os
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import orjson

from rods.buffers.log import record_bytes
from rods.buffers.log.disk import refusals
from rods.buffers.log.parts import BLOCK, LOOKS, PROBED, first_seq, segments
from rods.buffers.log.record_bytes import (
    CLOSED_BY,
    CLOSING,
    LOST,
    OPEN,
    TRAILER,
    Damage,
    Record,
    check_newline,
    parsed,
)
from rods.files import LINE, open_regular

ABSENT = 0  # in place of an inode


def read(path: Path) -> Iterator[Record]:
    """The records of a log that count, in order; an incomplete last line and groups that are not
    closed are left out."""
    return Tail(path, strict=True).records()


def read_raw(path: Path) -> Iterator[Record]:
    """All whole records of a log, those of groups that are not closed included."""
    return Tail(path, strict=True, raw=True).records()


def groups(records: Iterable[Record]) -> Iterator[tuple[Record, list[Record]]]:
    """Of `records`, those that a fold may believe: each closing record with what it closes, and,
    with nothing, each of a kind that needs no closing. What damage took is left out."""
    waiting: list[Record] = []
    for record in records:
        kind = record["kind"]
        if kind in CLOSED_BY:
            waiting.append(record)
        elif kind in CLOSING:
            first = record["first"]
            yield (
                record,
                [
                    inner
                    for inner in waiting
                    if inner["seq"] >= first and CLOSED_BY[inner["kind"]] == kind
                ],
            )
            waiting = []
        elif kind != LOST:
            yield record, []


class Tail:
    """Follows a log that another process writes. Nothing is kept open, so that a network file
    system shows what is new.

    An incomplete line, bytes that have not arrived (NUL), and a gap between parts mean "not yet".
    With `strict` a fold asks for everything there is: then damage in these forms is an error too,
    except for an incomplete last line.
    """

    def __init__(
        self,
        path: Path,
        *,
        strict: bool = False,
        raw: bool = False,
        newest: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`newest`: of a log with a part an epoch, says before each
        read the highest epoch that a part can be of, so that the next part is looked for by its
        number; None: the folder is listed."""
        self.path = path
        self.strict = strict
        self.raw = raw
        self._newest = newest
        # the inode of a live part without a record, when all there was was looked at
        self._blank: int | None = None
        self._part: Path | None = None  # where the position lies
        self._offset = 0  # bytes of that part that are done
        self._inode = 0
        self.begin_behind(0, frozenset())

    def begin_behind(self, after: int, skip: Container[str]) -> None:
        """Begins behind the record `after`, with which the parts named in `skip` end
        (rods.buffers.folds.snapshots): for who has read nothing yet."""
        assert self._part is None
        self.seq = after  # the last record before the position
        self._skip = skip
        self._before = after  # the last record before that part
        self._seen = after  # the last whole record seen, perhaps of a group that is still open

    def begin_before(self, seq: int) -> None:
        """The same at the part that holds the record `seq`, or at the last one there is: what
        stands in earlier ones is not looked at."""
        skip = segments(self.path)
        while skip:
            part = skip.pop()
            if (first := first_seq(part)) is not None and first <= seq:
                self.begin_behind(first - 1, {earlier.name for earlier in skip})
                return

    def poll(self) -> list[Record]:
        """What has come to count since the last poll, in order; often nothing."""
        return list(self.records())

    def records(self) -> Iterator[Record]:
        """The same, one by one: for logs that do not fit into memory. The caller must exhaust
        it."""
        if self.raw:
            yield from chain.from_iterable(self._blocks())
            return
        for closing, members in self.groups():
            yield from members
            yield closing

    def groups(self) -> Iterator[tuple[Record, list[Record]]]:
        """The same, each closing record with what it closes."""
        for block in self._blocks():
            yield from groups(block)

    def _blocks(self) -> Iterator[list[Record]]:
        """All that has come, in lists that end where no group is open."""
        looks = 0
        # from the one at the position on; listed once, however many there are
        parts: list[Path] = []
        while looks < LOOKS:
            looks += 1
            try:
                parts = parts or self._remaining()
                if self._part is not None:
                    if not parts:
                        continue  # being renamed: look again
                    with _opened(parts[0]) as (file, inode):
                        if inode != self._inode:
                            parts = []
                            continue
                        yield from self._from(file, parts[0])
                    parts = parts[1:]
                entered = next(
                    (moved for part in parts if (moved := self._enter(part)) is not None), None
                )
            except FileNotFoundError:
                parts = []
                continue
            if entered is None:
                return
            if entered:
                looks = 0
            parts = parts[parts.index(self._part) :] if entered and self._part is not None else []
        if self.strict:
            with refusals(self.path.parent):
                self.path.parent.stat()  # where it was moved or removed, nothing is damaged
            raise Damage(
                self._part or self.path,
                self._offset,
                f"record {self._seen + 1} is missing behind it",
            )

    @property
    def closed(self) -> int:
        """The last record of the closed parts, once the position has come to the live part; 0
        before."""
        return self._before if self._part == self.path else 0

    def _remaining(self) -> list[Path]:
        """The log's parts from the one on that holds the position; none while that one is being
        renamed."""
        if self._part is not None and self._is_last():
            with suppress(FileNotFoundError):
                if self._part.stat().st_ino == self._inode:
                    return [self._part]
        if self._part is None and self._is_blank():
            return []
        since = "" if self._part is None else self._part.name
        parts = [part for part in segments(self.path, since) if part.name not in self._skip]
        if self._part is None:
            self._blank = None if parts else ABSENT
            return parts
        here = (index for index, part in enumerate(parts) if part.stat().st_ino == self._inode)
        return parts[next(here, len(parts)) :]

    def _is_last(self) -> bool:
        """Whether the part at the position is the log's last one, unless it was renamed; False also
        where only a look through the folder can say it."""
        if self._part == self.path or self._part is None or (newest := self._newest()) is None:
            return self._part == self.path
        before, _, after = self.path.name.partition("*")
        epoch = self._part.name.removeprefix(before).removesuffix(after)
        # a closed part, or too many to ask for each
        if not epoch.isdecimal() or newest - int(epoch) > PROBED:
            return False
        names = (f"{before}{later:04d}{after}" for later in range(int(epoch) + 1, newest + 1))
        return not any(self.path.with_name(name).exists() for name in names)

    def _is_blank(self) -> bool:
        """Whether a log without records is as it was: records first stand in the live part, and a
        closed part keeps the inode of the live one that it was."""
        try:
            if self._blank is None or self.path.stat().st_ino != self._blank:
                return False
            with _opened(self.path) as (file, inode):
                return inode == self._blank and not file.read(1)
        except FileNotFoundError:
            return self._blank == ABSENT and "*" not in self.path.name

    def _enter(self, part: Path) -> bool | None:
        """Moves the position to the start of `part` if that is where the next record stands; None:
        still empty."""
        with _opened(part) as (file, inode):
            first = record_bytes.read_line(file, part)
        if not first.endswith(b"\n"):
            check_newline(first, part, 0)
            if part == self.path:
                self._blank = inode
            return None
        if parsed(first[:-1], part, 0)["seq"] != self._seen + 1:
            return False
        self._part = part
        self._offset = 0
        self._inode = inode
        self.seq = self._before = self._seen
        return True

    def _from(self, file: BinaryIO, part: Path) -> Iterator[list[Record]]:
        """What counts from the position on, moving it. Records of a group that is still open are
        read again by the next call."""
        file.seek(self._offset)
        offset = self._offset
        seq = self.seq
        rest = b""
        waiting: list[Record] = []  # read, but behind the last record that counts
        while data := file.read(max(BLOCK, len(rest))):  # of a long line twice as much each time
            data = rest + data
            lines = data.split(b"\n")
            rest = lines.pop()
            end = offset + len(data) - len(rest)
            if len(rest) > LINE:
                raise Damage(part, end, f"a line of more than {LINE >> 20} MiB")
            records = self._parse(lines, part, offset, seq)
            done = len(records)
            if not self.raw:
                while done and records[done - 1]["kind"] in OPEN:
                    done -= 1
            self._seen = seq = seq + len(records)
            if done:
                count = waiting + records[:done] if waiting else records[:done]
                waiting = records[done:]
                self._offset = offset + sum(map(len, lines[:done])) + done
                self.seq = seq - len(waiting)
                yield count
            else:
                waiting += records
            if len(records) < len(lines):
                return
            offset = end
        check_newline(rest, part, offset)

    def _parse(self, lines: list[bytes], part: Path, offset: int, seq: int) -> list[Record]:
        """The records in `lines`, the first of which stands at `offset` and follows record `seq`;
        fewer when the bytes of one have not arrived."""
        records: list[Record] = []
        loads = orjson.loads
        checked = record_bytes.checked
        for text in lines:
            seq += 1
            try:
                if text[-TRAILER:] != b',"crc":"%08x"}' % crc32(text[:-TRAILER]):
                    if b"\0" in text and not self.strict:
                        return records
                    raise ValueError("the checksum does not match the line")
                record = checked(loads(text))
                if record["seq"] != seq:
                    raise ValueError(f"seq {record['seq']} stands where {seq} is due")
            except ValueError as error:
                done = len(records)
                raise Damage(
                    part, offset + sum(map(len, lines[:done])) + done, str(error)
                ) from error
            records.append(record)
        return records


@contextmanager
def _opened(part: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The file, and its inode, which tells a part under whichever name."""
    with open_regular(part) as file:
        yield file, os.fstat(file.fileno()).st_ino
