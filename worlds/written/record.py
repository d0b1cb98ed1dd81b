"""What was asked of models that write worlds, what they answered, and what was dropped: `written.jsonl`, one JSON
object a line, appended and synced as it happens.

What was answered is not asked again, and a topic that was finished is not written again by the same models, so that
writing goes on where it was interrupted. A record:

- `asked`: a question by its `key`, with its `template`, what it is `about`, and the `answer`, or `why` there is none;
- `refused`: a world that went back to its model, with the `faults` that its controls found;
- `dropped`: a `text`, `topic`, `world` or `scenario` (`what`), with the `reasons` and what they were found in;
- `finished`: a topic by its `key`, and its `tasks`;
- `usage`: what a call cost (`rods.llm.Usage`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from rods.errors import UserError
from rods.llm import Usage

NAME = "written.jsonl"


class WritingRecord:
    """The record of one folder; a context manager. Raises UserError where another process writes it, or where it is
    damaged; a last line that was cut off is dropped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / NAME
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.finished: dict[str, Mapping[str, Any]] = {}
        self.tokens, self.requests = 0, 0
        self._lines: set[bytes] = set()

    def __enter__(self) -> Self:
        self._file = self.path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError as error:
            self._file.close()
            remedy = "wait until it is done, or write into another folder"
            raise UserError("another process writes worlds here", where=str(self.path), remedy=remedy) from error
        except ValueError as error:
            self._file.close()
            remedy = "bring the file as it was, or take it away: all is asked again then"
            raise UserError(f"cannot be read: {error}", where=str(self.path), remedy=remedy) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, kind: str, **fields: Any) -> None:
        """Writes a record and syncs it, unless an earlier start has written the same."""
        record = {"kind": kind, **fields}
        line = orjson.dumps(record)
        if line in self._lines:
            return
        self._take(record)
        self._lines.add(line)
        self._file.write(line + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def use(self, usage: Usage) -> None:
        """Writes what a call cost; synced with the next record."""
        record = {"kind": "usage", **usage.as_json()}
        self._take(record)
        self._file.write(orjson.dumps(record) + b"\n")

    def _read(self) -> None:
        self._file.seek(0)
        whole, end, cut = self._file.read().rpartition(b"\n")
        for line in whole.splitlines():
            record = orjson.loads(line)
            if not isinstance(record, dict):
                raise ValueError("a line is no object")
            self._take(record)
            self._lines.add(line)
        if cut:
            self._file.truncate(len(whole) + len(end))

    def _take(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "asked" and "answer" in record:
            self.answers[record["key"]] = record
        elif record["kind"] == "finished":
            self.finished[record["key"]] = record
        elif record["kind"] == "usage":
            self.tokens += record["tokens_in"] + record["tokens_out"]
            self.requests += record["requests"]
