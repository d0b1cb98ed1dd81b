"""What the files of a world hold, as JSON that is equal for equal contents.

`COMPARERS` has a reader for each form that two writers give other bytes: tables of SQLite without
the order of rows, archives without the order and times of their entries, what lies inside of a
compression. JSON is its value, other text is itself, and anything else, what is damaged or too
large too, its digest. A time in a content is a part of it, unless it is the one at which Office or
LibreOffice wrote a document.
"""

import gzip
import os
import re
import sqlite3
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from rods.canonical import JsonMapping, JsonObject, without
from rods.errors import BrokenEnvironment
from rods.files import BULK, read_regular, sha256_of
from rods.model_json import read_exact
from rods.worlds.pinned import Room

MOST = 64 << 20  # bytes of a file, and of what it unpacks to, that are read by their form
_DEPTH = 3  # of archives in archives
_BLOCK = 1 << 12  # bytes that an empty file counts for
_BESIDE = ("-wal", "-journal", "-shm")  # what SQLite keeps beside a file, and leaves to it
# in docProps/core.xml and in meta.xml
_WRITTEN = re.compile(
    rb"<(dcterms:created|dcterms:modified|dc:date|meta:creation-date)\b.*?</\1>", re.DOTALL
)
_DOCUMENTS = ("docProps/core.xml", "meta.xml")
# name and statement of each table, and what selects its rows
_LISTED = """SELECT name, sql, printf('SELECT * FROM "%w"', name) FROM sqlite_master
    WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"""
_NO_PLACE = Path()


def contents(folder: Path, places: Iterable[Path]) -> JsonObject:
    """What the files at `places`, in `folder`, hold, by their paths there; of a link, where it
    leads. Raises BrokenEnvironment where they are too much."""
    room = Room(BULK)
    held = {}
    for place in sorted(places):
        size = place.stat().st_size
        if (real := os.path.realpath(place)) != str(place):
            value: Any = {"link": real}
        elif not room.take(max(size, _BLOCK)):
            raise BrokenEnvironment(
                f"the files that are compared hold more than {BULK >> 20} MB: narrow `compared`"
            )
        elif size > MOST:
            value = {"sha256": sha256_of(place, BULK)}
        else:
            value = content(read_regular(place, MOST), room, place)
        held[str(place.relative_to(folder))] = value
    beside = {
        f"{path}{end}"
        for path, value in held.items()
        if isinstance(value, dict) and _tables.__name__ in value
        for end in _BESIDE
    }
    return without(held, *beside)


def content(data: bytes, room: Room, place: Path = _NO_PLACE, depth: int = 0) -> Any:
    """What a file with the bytes `data` holds; `place` is where it lies, if it lies in a folder.
    What is inside takes of the `room`."""
    fits = not depth or room.take(len(data))
    for start, mark, read in COMPARERS:
        if fits and data.startswith(mark, start) and depth < _DEPTH:
            try:
                parts = read(data, place)
            except Exception:  # noqa: BLE001 whatever is damaged, or locked by a password
                break
            return {
                read.__name__: {
                    key: content(part, room, depth=depth + 1) if isinstance(part, bytes) else part
                    for key, part in parts.items()
                }
            }
    try:
        text = data.decode()
        return read_exact(text) if text.lstrip()[:1] in ("{", "[") else text
    except UnicodeDecodeError:
        return {"sha256": sha256(data).hexdigest()}
    except (ValueError, RecursionError):
        return text


def _tables(data: bytes, place: Path) -> JsonMapping:
    """Of each table its statement, and how often it has each row: keys, which come in one order
    whatever is renamed in them."""
    # SQLite itself takes what lacks of a page for zeros
    if len(data) % max(int.from_bytes(data[16:18]), 512):
        raise ValueError("not in whole pages")
    with tempfile.TemporaryDirectory(prefix="rods-book-") as folder:
        copied = Path(folder) / "book"  # the server's own is left alone
        copied.write_bytes(data)
        for end in _BESIDE[:2]:
            if (beside := Path(f"{place}{end}")).is_file():
                Path(f"{copied}{end}").write_bytes(read_regular(beside, MOST))
        with closing(sqlite3.connect(copied)) as book:
            book.text_factory = lambda text: text.decode(errors="backslashreplace")
            return {
                name: [sql, Counter(map(repr, book.execute(rows)))]
                for name, sql, rows in book.execute(_LISTED).fetchall()
            }


def _zip(data: bytes, place: Path) -> Mapping[str, bytes]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MOST:
            raise ValueError("it unpacks to too much")
        parts = {name: archive.read(name) for name in archive.namelist()}
        about = {name: _WRITTEN.sub(b"", parts[name]) for name in _DOCUMENTS if name in parts}
        return parts | about


def _tar(data: bytes, place: Path) -> JsonMapping:
    with tarfile.open(fileobj=BytesIO(data), errors="backslashreplace") as archive:
        files = ((entry, archive.extractfile(entry)) for entry in archive)
        return {entry.name: file.read() if file else entry.linkname for entry, file in files}


def _gzip(data: bytes, place: Path) -> Mapping[str, bytes]:
    with gzip.open(BytesIO(data)) as file:
        unpacked = file.read(MOST)
        if file.read(1):
            raise ValueError("it unpacks to too much")
    return {"": unpacked}


# what stands from which byte on, and who reads such a file
COMPARERS: Sequence[tuple[int, bytes, Any]] = (
    (0, b"SQLite format 3\0", _tables),
    (0, b"PK\x03\x04", _zip),  # jar, documents of Office and of LibreOffice, too
    (257, b"ustar", _tar),
    (0, b"\x1f\x8b", _gzip),
)
