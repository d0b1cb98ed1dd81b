"""The bytes of a record, what makes it one of a kind, and what is said of bytes that are none
(docs/protocol.md)."""

import re
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import orjson

from rods.buffers.log.shapes import Fault, fault_of
from rods.canonical import JsonMapping, JsonObject, content_id
from rods.errors import CorruptLogError, UserError
from rods.extension import Door
from rods.files import LINE, module_table
from rods.observations import Group

Record = dict[str, Any]
END = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
TRAILER = len(b',"crc":"00000000"}')

Shape = JsonMapping  # JSON (rods/buffers/log/shapes.py)
# logs of features, and of each kind of record in them the fields that are its key
LOGS: Door[tuple[str, ...]] = Door("logs")
RECORD_KEYS: Door[Mapping[str, tuple[str, ...]]] = Door("record_keys")
RECORD_SHAPES: Door[Mapping[str, Shape]] = Door("record_shapes")  # kind → what its fields hold
# of the records that close steps: name → shape (002)
STEP_FIELDS: Door[Mapping[str, Shape | str]] = Door("step_fields")
# of those that open epochs (000)
EPOCH_FIELDS: Door[Mapping[str, Shape | str]] = Door("epoch_fields")

KINDS = module_table(__file__, "records.toml")
KEYS: dict[str, tuple[str, ...]] = {kind: tuple(form["key"]) for kind, form in KINDS.items()}
KEYS |= {kind: key for keys in RECORD_KEYS for kind, key in keys.items()}
SHAPES: JsonObject = {kind: form["fields"] for kind, form in KINDS.items()}
for _shapes in RECORD_SHAPES:
    SHAPES |= _shapes
for _kind, _fields in (("step", STEP_FIELDS), ("epoch", EPOCH_FIELDS)):
    for _added in _fields:
        SHAPES[_kind] |= {f"{name}?": shape for name, shape in _added.items()}
GROUP = ("attempt", "step", "index", "stage", "task", "role", "interface")
GROUP_TYPES = [int, int, int, int, str, str, str]
FAULTS: dict[str, Fault] = {kind: fault_of(shape) for kind, shape in SHAPES.items()}
CLOSED_BY: dict[str, str] = {
    kind: form["closed_by"] for kind, form in KINDS.items() if "closed_by" in form
}
CLOSING = frozenset(CLOSED_BY.values())
# stands for a record that damage took (rods.buffers.audit.repair), perhaps one of a group; folds
# pass over it
LOST = "lost"
OPEN = frozenset(CLOSED_BY) | {LOST}  # what may stand inside a group


def record(kind: str, **fields: Any) -> Record:
    """A record of `kind`, not yet written: it has an id, but neither `seq` nor `crc`."""
    return {"id": record_id(kind, fields), "kind": kind, **fields}


def now() -> float:
    """The time of a record: seconds since 1970, to a millisecond."""
    return round(time.time(), 3)


def record_id(kind: str, fields: Record) -> str:
    """20 hex digits over the kind and its key."""
    return content_id([kind, *(fields[name] for name in KEYS[kind])])


def closed(closing: Record, first: int) -> Record:
    """`closing`, naming the seq of the first record that it closes."""
    return {"id": closing["id"], "kind": closing["kind"], "first": first, **closing}


def line(seq: int, content: Record) -> bytes:
    """The bytes of a record, newline included. Raises UserError for more than readers take."""
    body = orjson.dumps({"seq": seq, **content})[:-1]
    if len(body) + TRAILER >= LINE:
        raise UserError(
            f"a {content['kind']} record of {len(body)} bytes is longer than a line of a log may "
            f"be ({LINE})",
            remedy="make what it holds smaller: a task's state, or what a model may answer",
        )
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def is_record(text: bytes) -> bool:
    """Whether `text`, a line without its newline, is a record whose checksum matches. The field is
    compared as exact bytes: a lax reading of hex digits lets damage through."""
    return len(text) > TRAILER and text[-TRAILER:] == b',"crc":"%08x"}' % crc32(text[:-TRAILER])


def leading_record(text: bytes) -> bytes:
    """The whole record with which `text` begins; empty when it begins with none."""
    for end in END.finditer(text):
        if is_record(whole := text[: end.end()]):
            return whole
    return b""


def newline_altered(tail: bytes) -> bool:
    """Whether the end of a part, behind its last newline, begins with a whole record whose newline
    is another byte: damage. Zeros are no such byte: a power cut leaves them where a write was not
    synced, so that it is a torn one."""
    whole = leading_record(tail)
    return bool(whole) and bool(tail[len(whole) :].strip(b"\0"))


class Damage(CorruptLogError):
    """A record that cannot be believed, in `part` from byte `offset` on."""

    def __init__(self, part: Path, offset: int, why: str) -> None:
        self.part = part
        self.offset = offset
        super().__init__(
            f"damaged record: {why}",
            where=f"{part}, byte {offset}",
            remedy=f"restore the file from a copy; of a run, see what `rods recover {part.parent}` "
            "offers",
        )


def misfit(log: str, record: Record, why: str) -> CorruptLogError:
    """For a record of `log` that has the right fields and still cannot be what a writer has
    written."""
    return CorruptLogError(
        f"{record['kind']} says what cannot be: {why}",
        where=f"{log}, record {record['seq']}",
        remedy="restore the run folder from a copy",
    )


def group_of(record: Record) -> Group:
    """What a `group` record says. Raises CorruptLogError where no trainer reports that."""
    try:
        if record["step"] > record["seq"]:  # each step took a record at least
            raise ValueError("its step is beyond what the log can hold")
        return Group.from_json(record)
    except ValueError as error:
        raise misfit("observations.jsonl", record, str(error)) from error


@contextmanager
def believed(groups: Iterable[Record]) -> Iterator[None]:
    """For what reads records of groups as they are, since there are many: where it fails, each is
    held to what a trainer reports. Raises CorruptLogError for the first that is none, else what it
    failed with."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
        struct.error,
    ):
        for record in groups:
            group_of(record)
        raise


def parsed(text: bytes, part: Path, offset: int) -> Record:
    """The record in `text`, a line without its newline that stands in `part` at `offset`. Raises
    Damage."""
    if not is_record(text):
        raise Damage(part, offset, "the checksum does not match the line")
    try:
        return checked(orjson.loads(text))
    except ValueError as error:
        raise Damage(part, offset, str(error)) from error


def checked(content: Any) -> Record:
    """`content`, parsed from a line. Raises ValueError for what is no record of its kind."""
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or type(content.get("seq")) is not int:
        raise ValueError("no record")
    fields: Record = content
    # there are many, and a call for every field would take a fifth of folding them
    if kind == "group" and [*map(type, map(fields.get, GROUP))] == GROUP_TYPES:
        return fields
    if (fault := FAULTS.get(kind)) is not None and (what := fault(fields)):
        raise ValueError(f"{kind}{what}")
    return fields


def read_line(file: BinaryIO, part: Path) -> bytes:
    """The next line of `part`, empty at its end. Raises Damage for one that is longer than any
    record."""
    offset = file.tell()
    text = file.readline(LINE + 1)
    if len(text) > LINE:
        raise Damage(part, offset, f"a line of more than {LINE >> 20} MiB")
    return text


def check_newline(rest: bytes, part: Path, offset: int) -> None:
    """Raises Damage when `rest`, the end of a part, is a whole record but for the newline: nothing
    is missing there. A zero in its place is (`newline_altered`)."""
    if len(rest) > TRAILER and rest[-1] and is_record(rest[:-1]):
        raise Damage(part, offset, "the newline behind the last record is damaged")


@contextmanager
def quarantine() -> Iterator[None]:
    """For the owner of a log: copies the line at which Damage was raised to
    `<file>.corrupt.<offset>` before it passes the error on, so that nothing done to the log later
    can destroy the evidence."""
    try:
        yield
    except Damage as damage:
        # a full disk must not hide the damage
        with suppress(OSError), damage.part.open("rb") as file:
            file.seek(damage.offset)
            damage.part.with_name(f"{damage.part.name}.corrupt.{damage.offset}").write_bytes(
                file.readline(LINE)
            )
        raise
