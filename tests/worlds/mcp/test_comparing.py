"""State that is compared: equal contents are equal whoever wrote them, and other ones are not."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rods.canonical import canonical
from rods.errors import BrokenEnvironment
from rods.files import BULK
from rods.worlds.mcp import comparing
from rods.worlds.mcp.comparing import contents
from rods.worlds.pinned import Room

CORE = (
    "<cp:coreProperties><dc:creator>{creator}</dc:creator>"
    '<dcterms:modified xsi:type="dcterms:W3CDTF">{at}</dcterms:modified></cp:coreProperties>'
)


def content(data: bytes, most: int = BULK) -> Any:
    return comparing.content(data, Room(most))


def book(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("CREATE TABLE account (owner TEXT, balance INTEGER, seal BLOB)")
        for statement in statements:
            opened.execute(statement)
    return path.read_bytes()


def zipped(entries: Mapping[str, bytes], at: int = 2020, how: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name, (at, 1, 1, 0, 0, 0)), data, how)
    return held.getvalue()


def tarred(entries: Mapping[str, bytes], at: int = 0) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, data in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mtime = at
            archive.addfile(entry, io.BytesIO(data))
    return held.getvalue()


def packed(data: bytes, at: int = 0) -> bytes:
    return gzip.compress(data, mtime=at)


ANN = "INSERT INTO account VALUES ('Ann', 200, x'00ff')"
BOB = "INSERT INTO account VALUES ('Bob', 7, NULL)"


def sheet(at: str, cell: str = "200", creator: str = "Ann") -> dict[str, bytes]:
    core = CORE.format(creator=creator, at=at)
    return {"xl/sheet1.xml": f"<v>{cell}</v>".encode(), "docProps/core.xml": core.encode()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a": 1, "b": [2, 3]}', b'{\n "b": [2, 3], "a": 1}\n'),
        (zipped({"a": b"1", "b": b"2"}), zipped({"b": b"2", "a": b"1"}, at=2021)),
        (zipped({"a": b"1"}), zipped({"a": b"1"}, how=zipfile.ZIP_STORED)),
        (zipped(sheet("2020")), zipped(sheet("2026"), at=2026)),
        (zipped({"a.zip": zipped({"a": b"1"})}), zipped({"a.zip": zipped({"a": b"1"}, at=2022)})),
        (tarred({"a": b"1", "b": b"2"}), tarred({"b": b"2", "a": b"1"}, at=99)),
        (packed(b"text"), packed(b"text", at=99)),
        (packed(tarred({"a": b"1"})), packed(tarred({"a": b"1"}, at=99), at=99)),
    ],
)
def test_what_two_writers_give_other_bytes_is_equal(one: bytes, other: bytes) -> None:
    assert one != other and canonical(content(one)) == canonical(content(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"\x89PNG\x80\x81", b"\x89PNG\x80\x82"),  # both are no text
        (b"caf\xe9", b"caf\xe8"),
        (b'{"a": 1}', b'{"a": 1.0}'),
        (b'{"a": 1}', b'{"a": true}'),
        (b"[1, 2]", b"[2, 1]"),
        (b'{"due": "2026-01-05"}', b'{"due": "2026-01-06"}'),
        (b'{"a": 123456789012345678901}', b'{"a": 123456789012345678902}'),
        (b'{"a": 1, "a": 2}', b'{"a": 2}'),
        (b'"text"', b"text"),
        (b"", b"null"),
        (zipped({"a": b"1"}), zipped({"a": b"2"})),
        (zipped({"a": b"1"}), zipped({"b": b"1"})),
        (zipped(sheet("2020")), zipped(sheet("2020", cell="201"))),
        (zipped(sheet("2020")), zipped(sheet("2020", creator="Bob"))),
        (zipped({"a.xml": b"<dc:date>1</dc:date>"}), zipped({"a.xml": b"<dc:date>2</dc:date>"})),
        (zipped({"a": b"\x80"}), zipped({"a": b"\x81"})),
        (tarred({"a": b"1"}), tarred({"a": b"2"})),
        (packed(b"text"), packed(b"texts")),
        (packed(b"text"), b"text"),
        (zipped({"a": b"1"})[:-9], zipped({"a": b"1"}, at=2021)[:-9]),  # damaged: by digest
    ],
)
def test_other_contents_are_never_equal(one: bytes, other: bytes) -> None:
    assert canonical(content(one)) != canonical(content(other))


def test_tables_are_equal_in_whatever_order_they_were_written(tmp_path: Path) -> None:
    first = book(tmp_path / "1", ANN, BOB)
    second = book(tmp_path / "2", BOB, ANN)
    undone = book(tmp_path / "3", BOB, ANN, ANN, "DELETE FROM account WHERE rowid = 3")
    assert first != second and first != undone
    assert canonical(content(first)) == canonical(content(second)) == canonical(content(undone))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE account SET balance = 201 WHERE owner = 'Ann'",
        "UPDATE account SET balance = NULL WHERE owner = 'Ann'",
        "UPDATE account SET seal = x'00fe' WHERE owner = 'Ann'",
        "UPDATE account SET balance = 1e999 WHERE owner = 'Ann'",
        "DELETE FROM account WHERE owner = 'Bob'",
        ANN,
        "ALTER TABLE account ADD COLUMN note TEXT",
        'CREATE TABLE "a ""quoted"" name" (x)',
    ],
)
def test_one_cell_one_row_or_one_column_makes_tables_differ(tmp_path: Path, statement: str) -> None:
    kept = "CREATE TABLE other (real REAL)"
    first = content(book(tmp_path / "1", kept, ANN, BOB))
    assert canonical(first) != canonical(content(book(tmp_path / "2", kept, ANN, BOB, statement)))


def test_what_sqlite_has_not_yet_moved_into_its_file_counts_and_its_files_do_not(
    tmp_path: Path,
) -> None:
    """A server that keeps a book open in WAL mode, and one that has closed it."""
    held = []
    for name, balance in (("one", 200), ("other", 201), ("closed", 200)):
        folder = tmp_path / name
        folder.mkdir()
        opened = sqlite3.connect(folder / "account.db")
        opened.execute("PRAGMA journal_mode = WAL")
        opened.execute("CREATE TABLE account (owner, balance)")
        opened.execute("INSERT INTO account VALUES ('Ann', ?)", (balance,))
        opened.commit()
        if name == "closed":
            opened.close()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        held.append(contents(folder, folder.iterdir()))
        assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
        assert (len(before) > 1) == (name != "closed") and list(held[-1]) == ["account.db"]
    one, other, closed = held
    assert canonical(one) == canonical(closed) != canonical(other)


def test_a_damaged_book_is_compared_by_its_bytes(tmp_path: Path) -> None:
    whole = book(tmp_path / "1", ANN)
    for size in (4096, 5000, 8191):
        assert content(whole[:size]).keys() == {"sha256"}
    for data in (whole[:5000], whole[:100], b"SQLite format 3\0" + b"x" * 99):
        assert content(data) == content(data) != content(data + b"x")


@pytest.mark.parametrize("make", [lambda data: zipped({"a": data}), packed])
def test_what_unpacks_to_too_much_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(comparing, "MOST", 4096)
    assert content(make(b"x" * 5000)).keys() == {"sha256"}
    assert content(make(b"x" * 4096)).keys() != {"sha256"}


def test_archives_in_archives_end_somewhere() -> None:
    data = b"text"
    for _ in range(9):
        data = zipped({"inside": data})
    held: Any = content(data)
    depth = 0
    while "sha256" not in held:
        (held,) = held["_zip"].values()
        depth += 1
    assert depth == 3


def test_texts_and_json_are_kept_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("tea\n")
    (tmp_path / "b.json").write_text(json.dumps({"a": [1]}))
    deep = "[" * 500
    (tmp_path / "c").write_text(deep)
    places = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert contents(tmp_path, places) == {"notes/a.txt": "tea\n", "b.json": {"a": [1]}, "c": deep}


def test_a_link_is_where_it_leads_and_nothing_is_read_behind_it(tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    (outside / "secret.txt").write_text("of this machine")
    (folder := tmp_path / "folder").mkdir()
    (folder / "own.txt").write_text("mine")
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "inner.txt").symlink_to("own.txt")
    (folder / "all").symlink_to(outside)
    places = [folder / name for name in ("own.txt", "link.txt", "inner.txt", "all/secret.txt")]
    assert contents(folder, places) == {
        "own.txt": "mine",
        "link.txt": {"link": str(outside / "secret.txt")},
        "inner.txt": {"link": str(folder / "own.txt")},
        "all/secret.txt": {"link": str(outside / "secret.txt")},
    }


def test_what_a_server_leaves_is_read_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sparse(name: str, size: int) -> Path:
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
        return tmp_path / name

    for places in (
        [sparse("huge", 1 << 40)],
        [sparse(f"part{number}", 1 << 29) for number in range(3)],
    ):
        with pytest.raises(BrokenEnvironment, match="narrow `compared`"):
            contents(tmp_path, places)
    monkeypatch.setattr(comparing, "BULK", 1 << 16)
    empty = [sparse(f"empty{number}", 0) for number in range(17)]
    assert len(contents(tmp_path, empty[:16])) == 16
    with pytest.raises(BrokenEnvironment):
        contents(tmp_path, empty)


def test_a_file_too_large_to_be_read_by_its_form_is_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MOST", 100)
    (tmp_path / "a").write_bytes(b"x" * 101)
    assert contents(tmp_path, [tmp_path / "a"])["a"].keys() == {"sha256"}


def test_archives_in_archives_take_of_one_room(tmp_path: Path) -> None:
    inner = {str(number): packed(bytes(1 << 20)) for number in range(50)}
    held = content(zipped(inner), 20 << 20)["_zip"]
    assert 15 < sum("_gzip" in part for part in held.values()) < 25
    assert held["49"].keys() == {"sha256"}
