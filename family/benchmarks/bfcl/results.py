"""Outputs as files in BFCL's result format, written and read: in <folder>/<model>/

    multi_turn/BFCL_v4_multi_turn_<type>_result.json    an entry a line: {"id", "result", …}
    agentic/BFCL_v4_web_search_base_result.json, …_no_snippet_result.json
    agentic/memory/<backend>/BFCL_v4_memory_<backend>_result.json, …_prereq_result.json
    data_version.json                                   ours: which wheel the outputs belong to

The format does not say which version of the data it belongs to, and versions differ in their tasks.
So data_version.json is written beside it, and where the harness has logged what the user said (it
does by default), that is compared with the tasks: outputs of another version are refused, never
scored. Entries of other categories are skipped.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from rods.buffers.log.disk import replace
from rods.dialects import Dialect
from rods.episode.engine import StepTrace, Trace
from rods.errors import RefusedError, UserError
from rods.family.benchmarks.bfcl.dialects import Native, Prompted
from rods.family.benchmarks.contract import check_data
from rods.family.benchmarks.folder import Form
from rods.files import BULK, read_regular
from rods.tasks import RETURN_SENTENCE, Task
from rods.worlds.bfcl import wheel

DATA = wheel.WHEEL.facts  # that this program runs and scores
VERSION_FILE = "data_version.json"
_PREFIX = "BFCL_v4_"
# id of the task, result (a list of turns, or the text of an error), end of the episode
Recorded = tuple[str, Any, str]


def write(folder: Path, model: str, entries: Iterable[tuple[str, Any]], form: Form) -> list[Path]:
    """Writes (id, result) pairs into `folder`, a file a category, each replaced as a whole; returns
    the files."""
    base = folder / model.replace("/", "_")  # as BFCL names it
    lines: dict[Path, list[tuple[int, bytes]]] = {}
    for identifier, result in entries:
        category, number = identifier.split(":")[0].rsplit("_", 1)
        line = json.dumps({"id": identifier, "result": result}).encode() + b"\n"
        place = int(number.split("-")[0])
        lines.setdefault(base / _group(category) / f"{_PREFIX}{category}_result.json", []).append(
            (place, line)
        )
    for folder in {base, *(file.parent for file in lines)}:
        folder.mkdir(parents=True, exist_ok=True)
    replace(base / VERSION_FILE, orjson.dumps({**DATA, "form": form}) + b"\n")
    for file, numbered in lines.items():
        replace(file, b"".join(line for _, line in sorted(numbered)))
    return sorted(lines)


def _group(category: str) -> str:
    """The folder of a category's result file."""
    if category.startswith("memory_"):
        return f"agentic/memory/{category.removeprefix('memory_').removesuffix('_prereq')}"
    if category.startswith("web_search_"):
        return "agentic"
    return next((name for name in ("multi_turn", "live") if category.startswith(name)), "non_live")


def version_file(file: Path) -> Path | None:
    """The file that says which data a result file belongs to, if it is there."""
    return next(
        (path for folder in file.parents[:4] if (path := folder / VERSION_FILE).is_file()), None
    )


def files(path: Path, categories: Sequence[str]) -> list[Path]:
    """The result files of `categories` that `path` is or holds. Raises UserError when there is
    none, or when they are of BFCL V3."""
    endings = tuple(f"_{category}_result.json" for category in categories)
    paths = (
        [path]
        if path.is_file()
        else sorted(file for end in endings for file in path.rglob(f"BFCL_v?{end}"))
    )
    if not paths:
        raise UserError(
            "holds no BFCL result files",
            where=path,
            remedy=f"it should hold {_PREFIX}{categories[0]}_result.json or alike",
        )
    for file in paths:
        if not file.name.startswith(_PREFIX):
            raise RefusedError(
                "a result file of another version of BFCL",
                where=file,
                remedy=f"this program scores {wheel.PACKAGE} {wheel.VERSION}, whose files are "
                f"called {_PREFIX}…",
            )
    return paths


def read(
    path: Path, tasks: Mapping[str, Task], form: Form, categories: Sequence[str]
) -> Iterator[Recorded]:
    """The outputs in the result files of `categories` at `path` that belong to `tasks` (by BFCL's
    id). Raises UserError for what is none, RefusedError for outputs of other data."""
    for file in files(path, categories):
        if version := version_file(file):
            check_data(orjson.loads(read_regular(version)), DATA, version)
        turns = file.name.startswith(
            tuple(f"{_PREFIX}{kind}_" for kind in ("multi_turn", "memory", "web_search"))
        )
        for number, line in enumerate(read_regular(file, BULK).decode().split("\n"), start=1):
            if line.strip():
                yield from _entry(line, f"{file}:{number}", tasks, form, turns)


def _entry(
    line: str, where: str, tasks: Mapping[str, Task], form: Form, turns: bool
) -> Iterator[Recorded]:
    """`turns`: whether results are lists of turns, and not one output."""
    remedy = "mend or remove the line"
    try:
        record = json.loads(line)
        identifier = record["id"]
        result = record["result"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"no entry of a result file ({error})", where=where, remedy=remedy
        ) from error
    if not isinstance(identifier, str) or identifier not in tasks:
        return
    if isinstance(result, list):
        if turns and not all(isinstance(turn, list) for turn in result):
            raise UserError("'result' must be a list of turns", where=where, remedy=remedy)
        steps = [step for turn in result for step in turn] if turns else [result]
        if form == "prompt" and any(isinstance(step, (list, dict)) for step in steps):
            raise UserError("holds native tool calls", where=where, remedy="say --calls native")
    _check_questions(tasks[identifier], record.get("inference_log"), where)
    yield identifier, result, "finished"


def _check_questions(task: Task, log: Any, where: str) -> None:
    """Compares the user's messages in the log with the task. Raises RefusedError where they
    differ."""
    turns = [part for part in log if isinstance(part, dict)] if isinstance(log, list) else []
    for turn, text in zip(turns, task.script, strict=False):
        query = turn.get("begin_of_turn_query")
        if isinstance(query, list) and text != RETURN_SENTENCE:
            messages = (
                message
                for message in query
                if isinstance(message, dict) and message.get("role") == "user"
            )
            question = " ".join(str(message.get("content")) for message in messages)
            if question != text:
                raise RefusedError(
                    f"was asked something else than the task of {wheel.PACKAGE} {wheel.VERSION}: "
                    f"{question[:80]!r}",
                    where=where,
                    remedy="these outputs belong to another version of the data; score them "
                    "with that one",
                )


def outputs(trace: Trace, dialect: Dialect) -> list[list[Any]]:
    """The outputs of an episode by turn. In a training dialect the calls stand as native ones,
    whatever their text."""

    def output(step: StepTrace) -> Any:
        if isinstance(dialect, (Prompted, Native)):
            return dialect.step(step.text)
        return [
            {call.name: orjson.dumps(call.arguments).decode()} for call in step.calls
        ] or step.text

    return [[output(step) for step in turn.steps] for turn in trace.turns]
