"""How models that write worlds are asked: each question once, in all starts together.
`written.jsonl` has what was asked and answered, one JSON object a line, synced as it happens, so
that writing goes on where it was interrupted:

- `asked`: a question by its `key`, with its `template`, what it is `about`, and the `answer`, or
  `why` there is none;
- `refused`: a world that went back to its model, with the `faults` that its controls found;
- `dropped`: a `text`, `topic`, `world` or `scenario` (`what`), with the `reasons` and what was
  found;
- `finished`: a topic by its `key`, and its `tasks`;
- `usage`: what a call cost (`rods.llm.Usage`)."""

import fcntl
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import orjson

from rods.asking import Question, Questioner, Unanswered, read_forms
from rods.canonical import JsonMapping, JsonObject, content_id, frozen, keyed_random
from rods.config import Operation
from rods.errors import UserError
from rods.llm import Account, Client, Usage
from rods.prompts import load

T = TypeVar("T")
FORMS = read_forms(Path(__file__).with_name("forms.toml"))


@frozen
class CachedQuestioner:
    """Models that write, each question asked once. `random_seed`: of the draw of endpoints, and of
    their sampling. `say` gets a line about what is done now and then."""

    client: Client
    record: "WritingRecord"
    settings: Operation
    random_seed: int = 0
    say: Callable[[str], None] = lambda line: None

    def tell(self, about: str, what: str) -> None:
        """Says how far the writing is: `what` was done last in a world, and what it cost."""
        self.say(f"{about[:60]}: {what} ({self.record.tokens_of[about]:,} tokens so far)")

    async def ask(self, question: Question[T], about: str, number: int = 0) -> T:
        """The answer. `about` names what the question belongs to, `number` tells equal questions
        apart. Raises Unanswered, EndpointError, BudgetSpent."""
        template = question.template
        version = load(question.template).hash
        key = content_id(
            [template, version, dict(question.fields), list(question.sections), number]
        )
        if (earlier := self.record.answers.get(key)) is not None:
            return question.read(dict(earlier["answer"]))
        backbone = self.client.draw(keyed_random(self.random_seed, "writer", about))
        answers: list[JsonObject] = []

        def read(answer: JsonObject) -> T:
            answers.append(answer)
            return question.read(dict(answer))

        asked = {"key": key, "template": f"{template}@{version}", "about": about}
        try:
            tries = self.settings.writing.tries
            roles = self.settings.writers
            questioner = Questioner(self.client, backbone, Account(about), tries, roles=roles)
            seeds = self.random_seed, "sampling", key
            again = replace(question, read=read)
            meant = await questioner.ask(again, lambda at: keyed_random(*seeds, at).getrandbits(31))
        except Unanswered as unanswered:
            self.record.append("asked", **asked, why=unanswered.why, said=unanswered.said[:2_000])
            raise
        self.record.append("asked", **asked, answer=answers[-1])
        return meant


NAME = "written.jsonl"


class WritingRecord:
    """The record of one folder; a context manager. Raises UserError where another process writes
    it, or where it is damaged; a last line that was cut off is dropped."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / NAME
        self.answers: dict[str, JsonMapping] = {}
        self.finished: dict[str, JsonMapping] = {}
        self.tokens = 0
        self.requests = 0
        self.tokens_of = Counter[str]()  # by topic, or what else was written about
        self._lines: set[bytes] = set()

    def __enter__(self) -> Self:
        self._file = self.path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError as error:
            self._file.close()
            raise UserError(
                "another process writes worlds here",
                where=self.path,
                remedy="wait until it is done, or write into another folder",
            ) from error
        except ValueError as error:
            self._file.close()
            raise UserError(
                f"cannot be read: {error}",
                where=self.path,
                remedy="bring the file as it was, or take it away: all is asked again then",
            ) from error
        return self

    def __exit__(self, *raised: object) -> None:
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

    def _take(self, record: JsonMapping) -> None:
        if record["kind"] == "asked" and "answer" in record:
            self.answers[record["key"]] = record
        elif record["kind"] == "finished":
            self.finished[record["key"]] = record
        elif record["kind"] == "usage":
            tokens = record["tokens_in"] + record["tokens_out"]
            self.tokens += tokens
            self.tokens_of[record.get("account", "")] += tokens
            self.requests += record["requests"]
