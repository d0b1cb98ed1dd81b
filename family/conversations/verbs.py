"""`rods data import chats`: each conversation of a file becomes a task, or a line of the rejects
with the reason, so that nothing is lost and none ends the others."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from rods.canonical import JsonMapping, JsonObject
from rods.commands import Json
from rods.console.output import print_checked
from rods.console.verbs.data import Name
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, UserError
from rods.family.conversations.anonymous import Pseudonyms
from rods.family.conversations.logged import CONVERSATION, Unreadable, read
from rods.family.conversations.replaying import task_of
from rods.files import BULK, explained, read_regular
from rods.gates.ground_truth import run, unheld
from rods.model_json import exact
from rods.tasks import Task, write_task_file
from rods.worlds.checking import CheckReport, Fault

SPEAKS = ("role", "from", "type")  # keys of a message


def import_chats(
    file: Path,
    /,
    *,
    world: Name,
    out: Path | None = None,
    rejects: Path | None = None,
    state: Path | None = None,
    anonymous: bool = False,
    as_json: Json = False,
) -> int:
    """Make tasks of logged conversations with calls: OpenAI's messages, Anthropic's, or ShareGPT's.
    Their calls are replayed in the world and become the ground truth; what does not hold there is
    told by its line and kept apart. Exits 1 where something was kept apart.

    Args:
        file: JSON lines, a conversation each, or one JSON list of them.
        out: The tasks; else FILE.tasks.jsonl, without the ending of FILE.
        rejects: What made no task, as it was, with `rejected`, the reason; else FILE.rejects.jsonl.
        state: A JSON file: the state that worlds begin in, where a conversation has no `state`.
        anonymous: Replace names of persons, e-mail addresses and phone numbers in the tasks.
    """
    target = out or file.with_suffix(".tasks.jsonl")
    apart = rejects or file.with_suffix(".rejects.jsonl")
    if len({path.resolve() for path in (file, target, apart)}) < 3:
        raise UserError("would be written over", where=file, remedy="name three different files")
    with explained("cannot read the conversations", file, "check the path"):
        content = read_regular(file, BULK)
    given = None if state is None else _state(state)
    batch = _Batch(file)
    with Environments() as environments:
        environment = environments.load(world)
        for line, record, broken in records(content):
            batch.add(environment, line, record, broken, given)
        if anonymous:
            batch.replace_names(environment)
    tasks = [task for _, _, task in batch.tasks]
    write_task_file(tasks, target)
    with explained("cannot write", apart, "choose another file by --rejects"):
        apart.write_bytes(batch.rejected())
    facts = {
        "conversations": len(tasks) + len(batch.faults),
        "tasks": len(tasks),
        "out": str(target),
        "rejects": str(apart),
    }
    report = CheckReport(str(file), tuple(batch.faults.values()), tuple(batch.notes), facts)
    return print_checked(report, as_json)


class _Batch:
    """What the conversations of one file have become. Each line is in `tasks` or in `faults`."""

    def __init__(self, file: Path) -> None:
        self.tasks: list[tuple[int, Any, Task]] = []  # line, record
        self.faults: dict[int, Fault] = {}  # by line
        self.notes: list[str] = []
        self._file = file
        self._records: dict[int, Any] = {}  # those that made no task
        self._lines: dict[str, int] = {}  # of tasks, by id

    def add(
        self,
        environment: Environment,
        line: int,
        record: Any,
        broken: str,
        state: JsonMapping | None,
    ) -> None:
        """Takes the record of a line, or why it is none (`broken`)."""
        try:
            if broken:
                raise Unreadable(broken)
            conversation = read(record)
            source = {"source": f"{self._file.name}:{line}"}
            task = task_of(environment, conversation, state, source)
            if (first := self._lines.setdefault(task.id, line)) != line:
                raise Unreadable(f"makes the same task as line {first}")
        except Exception as error:  # noqa: BLE001
            # a world may raise anything, and one conversation never ends the others
            self._reject(line, record, error)
            return
        self.tasks.append((line, record, task))
        self.notes += [f"line {line}: {note}" for note in conversation.notes]

    def replace_names(self, environment: Environment) -> None:
        """Puts pseudonyms into all tasks, and replays them again: what they give is other now."""
        originals = self.tasks
        pseudonyms = Pseudonyms([task.as_json() for _, _, task in originals])
        self.tasks = []
        for line, record, task in originals:
            try:
                renamed = pseudonyms.task(task)
                results = [[result.text for result in turn] for turn in run(environment, renamed)]
                provenance = {**renamed.provenance, "results": results}
                renamed = replace(renamed, provenance=provenance, id="")
                for reason in unheld(environment, renamed):
                    raise Unreadable(f"with other names {reason}")
            except Exception as error:  # noqa: BLE001
                # as above
                self._reject(line, record, error)
                continue
            self.tasks.append((line, record, renamed))
        self.notes.append(
            f"{pseudonyms.count} names, addresses and phone numbers have others in the tasks; what "
            f"is kept apart stands as it was"
        )

    def rejected(self) -> bytes:
        """What made no task, a JSON line each, which can be mended and imported again."""
        lines = []
        for line, fault in sorted(self.faults.items()):
            record = self._records[line]
            fields: JsonObject = record if isinstance(record, dict) else {"messages": record}
            told = {"line": line, "where": fault.field, "why": fault.what}
            lines.append(orjson.dumps({"rejected": told, **fields}) + b"\n")
        return b"".join(lines)

    def _reject(self, line: int, record: Any, error: Exception) -> None:
        message = error.message if isinstance(error, Unreadable) else 0
        what = str(error)
        if isinstance(error, InfrastructureError):
            what = f"the world broke: {what}"
        elif not isinstance(error, (Unreadable, UserError)):
            what = f"replaying raised {type(error).__name__}: {error}"
        field = f"message {message}" if message else ""
        self.faults[line] = Fault(f"{self._file}:{line}", field, what)
        self._records[line] = record


def records(content: bytes) -> Iterator[tuple[int, Any, str]]:
    """The conversations of a file: the line, or the place in the one list, from 1; the record; and
    why it is no JSON, where the record is the text of the line."""
    whole = _whole(content)
    if whole is not None:
        yield from ((number, record, "") for number, record in enumerate(whole, start=1))
        return
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            try:
                yield number, exact(line.decode()), ""
            except ValueError as error:
                yield number, {"text": line.decode(errors="backslashreplace")}, f"no JSON: {error}"


def _whole(content: bytes) -> list[Any] | None:
    """The conversations of a file that is one JSON list of them, or one conversation."""
    try:
        value = exact(content.decode())
    except ValueError:
        return None
    whole = not isinstance(value, list) or any(map(_is_message, value))
    return [value] if whole else value


def _is_message(entry: Any) -> bool:
    """Whether an entry of a list is a message, and no conversation."""
    return (
        isinstance(entry, dict)
        and not entry.keys().isdisjoint(SPEAKS)
        and entry.keys().isdisjoint(CONVERSATION[:-1])
    )


def _state(path: Path) -> JsonObject:
    with explained("cannot read the state", path, "check the path"):
        text = read_regular(path).decode(errors="replace")
    try:
        value = exact(text)
    except ValueError as error:
        raise UserError(f"is no JSON: {error}", where=path, remedy="write an object") from None
    if not isinstance(value, dict):
        raise UserError("is no JSON object", where=path, remedy="write the state as {…}")
    return value
