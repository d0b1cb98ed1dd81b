"""Three ways to append records and to promise that each is durable, for comparison: our log, SQLite
(WAL, synchronous=FULL), and the plain way, a file open for append that is flushed after every line.

`python -m tests.faults.writers KIND FOLDER COUNT` goes on behind what is there and prints what it
promises, an item a line: a number, and a word that no other start gives. `held` reads everything
back.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from rods.buffers.log.record_bytes import record
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.errors import CorruptLogError, RodsError
from tests.faults import files

KINDS = {"log": "our log", "sqlite": "SQLite, WAL, synchronous=FULL", "plain": "append and flush"}
REFUSED = (CorruptLogError, sqlite3.DatabaseError)
PADDING = "x" * 500  # as long as records are
Promise = Callable[[str], None]


def append(folder: Path, kind: str, count: int) -> None:
    """Appends `count` items, each promised once it is written. Exits with 1 when something
    refuses."""
    write = {"log": _log, "sqlite": _sqlite, "plain": _plain}[kind]
    try:
        begin = max((int(item.split(".")[0]) for item in held(folder, kind)[0]), default=0)
        start = os.urandom(4).hex()
        write(
            folder,
            [f"{number}.{start}" for number in range(begin + 1, begin + 1 + count)],
            _promise,
        )
    except (OSError, RodsError, sqlite3.Error) as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


def held(folder: Path, kind: str) -> tuple[list[str], list[str]]:
    """The items that are there, in order, and what is wrong with the rest. Raises REFUSED for what
    cannot be read."""
    return {"log": _read_log, "sqlite": _read_sqlite, "plain": _read_plain}[kind](folder)


def _promise(item: str) -> None:
    if files.installed is not None:
        files.installed.acknowledged("items", item.encode())
    else:
        os.write(1, f"{item}\n".encode())


def _log(folder: Path, items: Iterable[str], promise: Promise) -> None:
    writer = LogWriter(folder / "items.jsonl")
    for item in items:
        writer.append([record("loss", where=item, what=PADDING)])
        promise(item)
    writer.close()


def _sqlite(folder: Path, items: Iterable[str], promise: Promise) -> None:
    with _database(folder) as database:
        database.execute("CREATE TABLE IF NOT EXISTS items (item TEXT, padding TEXT)")
        for item in items:
            database.execute("INSERT INTO items VALUES (?, ?)", (item, PADDING))
            database.commit()
            promise(item)


def _plain(folder: Path, items: Iterable[str], promise: Promise) -> None:
    with (folder / "items.jsonl").open("a", encoding="utf-8") as file:
        for item in items:
            file.write(json.dumps({"item": item, "padding": PADDING}) + "\n")
            file.flush()
            promise(item)


def _read_log(folder: Path) -> tuple[list[str], list[str]]:
    return [entry["where"] for entry in read(folder / "items.jsonl")], []


def _read_sqlite(folder: Path) -> tuple[list[str], list[str]]:
    if not (folder / "items.db").exists():
        return [], []
    with _database(folder) as database:
        if not list(database.execute("SELECT name FROM sqlite_master WHERE name = 'items'")):
            return [], []
        wrong = [row[0] for row in database.execute("PRAGMA integrity_check") if row[0] != "ok"]
        return [row[0] for row in database.execute("SELECT item FROM items ORDER BY rowid")], wrong


def _read_plain(folder: Path) -> tuple[list[str], list[str]]:
    path = folder / "items.jsonl"
    items = []
    wrong = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            items.append(str(json.loads(line)["item"]))
        except (ValueError, TypeError, KeyError):
            wrong.append(f"a line of {len(line)} bytes is no record: {line[:20]!r}…")
    return items, wrong


def _database(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "items.db")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    return database


if __name__ == "__main__":
    append(Path(sys.argv[2]), sys.argv[1], int(sys.argv[3]))
