"""The tasks of a run, which may be a million: their file, which is written once, stays bytes until
a task is asked for.

In memory are columns: what rules ask of every task, and where its line is, with a checksum. A line
that is another one than was read at first is refused. The columns can be kept in a file, so that
the next process need not read every line; that file only saves time."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, overload

import orjson

from rods.canonical import ID_DIGITS, Texts
from rods.errors import RefusedError, UserError
from rods.files import BULK, TASKS as MOST, explained, open_regular, read_regular, sha256_of
from rods.tasks import SPLITS, TASK_TYPES, AnyTask, Line, OpenTask, Split, TaskType, checked_lines

VERSION = 1  # of the columns as they are kept
KEPT = 1024  # tasks whose objects are kept: those that are played or looked at together
REMEDY = "restore the file, or start a new run"
# by name the type of each column; `type`, `split` and `environment` are places in TASK_TYPES,
# SPLITS and by `Columns.environments`; `generation` is 0 for originals, `open` 1 for an OpenTask
COLUMNS = {
    "start": "Q",
    "length": "I",
    "checksum": "q",
    "generation": "I",
    "environment": "I",
    "type": "B",
    "split": "B",
    "open": "B",
}


@dataclass(frozen=True)
class Columns:
    """What is known of each line of a file. `tools` are the names that any of the tasks offers,
    `environments` numbers the worlds that they are of."""

    path: Path
    ids: list[str]
    numbers: dict[str, array[int]]
    tools: list[str]
    environments: dict[str, int]

    @staticmethod
    def of(path: Path, lines: Iterable[Line]) -> Columns:
        """Those of the file at `path`, which has these lines."""
        ids = []
        numbers = {name: array(type) for name, type in COLUMNS.items()}
        tools = set[Texts]()
        places: dict[str, int] = {}
        for start, line, task in lines:
            ids.append(task.id)
            tools.add(task.tools)
            made = task.provenance
            # a fork gives variants too, which its parent wrote and which stay variants
            generation = made.get("generation") if made.get("origin") == "variant" else 0
            if not isinstance(generation, int) or not 0 < generation < 1 << 32:
                generation = 0
            row = (
                start,
                len(line),
                _checksum(line),
                generation,
                places.setdefault(task.environment.name, len(places)),
                TASK_TYPES.index(task.type),
                SPLITS.index(task.split),
                isinstance(task, OpenTask),
            )
            for column, number in zip(numbers.values(), row, strict=True):
                column.append(number)
        return Columns(path, ids, numbers, sorted(set(chain.from_iterable(tools))), places)

    @staticmethod
    def open(path: Path, sha256: str, kept: Path) -> Columns:
        """Those of a file with this hash; without a look at each line where they are `kept`. Raises
        RefusedError for another file, and what `read_tasks` does."""
        # what is damaged, of another version or of a file that was touched is made anew
        with suppress(OSError, ValueError, KeyError, TypeError, UserError):
            digest, head, body = read_regular(kept, BULK).split(b"\n", 2)
            known = orjson.loads(head)
            if digest == _digest(head, body) and known["key"] == _key(path, sha256):
                return Columns(path, *_columns(body, known["tasks"]), *known["names"])
        if sha256_of(path, MOST) != sha256:
            raise _changed(path)
        return Columns.of(path, checked_lines(path))

    def kept(self, sha256: str) -> bytes:
        """What `open` reads, where their file has this hash."""
        names = self.tools, self.environments
        known = {"key": _key(self.path, sha256), "tasks": len(self.ids), "names": names}
        head = orjson.dumps(known)
        body = "".join(self.ids).encode() + b"".join(self.numbers.values())
        return b"\n".join([_digest(head, body), head, body])


class Tasks(Sequence[AnyTask]):
    """The tasks at some places of a file, by default all, in order."""

    def __init__(self, columns: Columns, places: Sequence[int] | None = None) -> None:
        self.columns = columns
        self.places = range(len(columns.ids)) if places is None else places
        self.at = lru_cache(KEPT)(self._read)  # the one at a place of the file

    def where(self, column: str, *chosen: int) -> Tasks:
        """Those that have one of these numbers in a column."""
        numbers = self.columns.numbers[column]
        places = array("I", (place for place in self.places if numbers[place] in chosen))
        some = self if len(places) == len(self) else Tasks(self.columns, places)
        some.at = self.at  # objects are kept once
        return some

    def of_splits(self, splits: Iterable[Split]) -> Tasks:
        return self.where("split", *map(SPLITS.index, splits))

    def of_environment(self, name: str) -> Tasks:
        return self.where("environment", self.columns.environments.get(name, -1))

    @cached_property
    def by_id(self) -> TasksById:
        return TasksById(self)

    @property
    def ids(self) -> Iterator[str]:
        return map(self.columns.ids.__getitem__, self.places)

    @property
    def types(self) -> Iterator[TaskType]:
        return map(TASK_TYPES.__getitem__, self.numbers("type"))

    def numbers(self, column: str) -> Iterator[int]:
        return map(self.columns.numbers[column].__getitem__, self.places)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, place: int) -> AnyTask: ...
    @overload
    def __getitem__(self, place: slice) -> list[AnyTask]: ...
    def __getitem__(self, place: int | slice) -> AnyTask | list[AnyTask]:
        if isinstance(place, slice):
            return [*map(self.at, self.places[place])]
        return self.at(self.places[place])

    def __iter__(self) -> Iterator[AnyTask]:
        return map(self.at, self.places) if len(self) <= KEPT else self._parsed(self.places)

    def _read(self, place: int) -> AnyTask:
        return next(self._parsed([place]))

    def _parsed(self, places: Iterable[int]) -> Iterator[AnyTask]:
        path = self.columns.path
        starts, lengths, checksums, *_ = self.columns.numbers.values()
        with explained("cannot be read", path, REMEDY), open_regular(path) as file:
            for place in places:
                file.seek(starts[place])
                line = file.read(lengths[place])
                if _checksum(line) != checksums[place]:
                    raise _changed(path)
                try:
                    yield AnyTask.from_json(orjson.loads(line))
                except ValueError as error:
                    where = f"{path}, byte {starts[place]}"
                    raise UserError(str(error), where=where, remedy=REMEDY) from error


class TasksById(Mapping[str, AnyTask]):
    """The same by id."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks

    @cached_property
    def _places(self) -> dict[str, int]:
        return dict(zip(self.tasks.ids, self.tasks.places, strict=True))

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[str]:
        return self.tasks.ids

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def __getitem__(self, id: str) -> AnyTask:
        return self.tasks.at(self._places[id])


def _columns(body: bytes, count: int) -> tuple[list[str], dict[str, array[int]]]:
    """Ids and numbers of so many tasks."""
    ids = body[: ID_DIGITS * count].decode()
    numbers = {}
    end = len(ids)
    for name, type in COLUMNS.items():
        numbers[name] = column = array(type)
        begin = end
        end += column.itemsize * count
        column.frombytes(body[begin:end])
    return [ids[at : at + ID_DIGITS] for at in range(0, len(ids), ID_DIGITS)], numbers


def _key(path: Path, sha256: str) -> list[Any]:
    status = path.stat()
    return [VERSION, sys.byteorder, sha256, status.st_size, status.st_mtime_ns]


def _digest(head: bytes, body: bytes) -> bytes:
    return hashlib.sha256(head + body).hexdigest().encode()


def _checksum(line: bytes) -> int:
    digest = hashlib.blake2b(line, digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _changed(path: Path) -> RefusedError:
    return RefusedError(
        "the tasks are not those that the run was created with", where=path, remedy=REMEDY
    )
