"""Episodes as outputs in BFCL's form, whether they were just run or were kept by a trainer."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from evaluation.bfcl.dialects import Native, Prompted
from evaluation.bfcl.results import Entry
from rods.dialects.base import Dialect
from rods.episode.engine import StepTrace, Trace
from rods.errors import UserError
from rods.tasks import Task

CUT = frozenset({"length", "context"})  # the turn that such an end has cut short does not count
REFUSED = "refused_"  # before the name of a call that was not carried out: no tool is called so
_NO_NAME = re.compile(r"\W")


def outputs(trace: Trace, dialect: Dialect) -> list[list[Any]]:
    """The outputs of an episode by turn. In a training dialect the calls stand as native ones, whatever their text."""
    if isinstance(dialect, (Prompted, Native)):
        return [[dialect.step(step.text) for step in turn.steps] for turn in trace.turns]
    return [[_step(step) for step in turn.steps] for turn in trace.turns]


def scored_turns(result: Any, end: str) -> Any:
    """What is judged of an episode that ended so. A forced end after too many steps leaves its turn in, as the
    harness does."""
    return result[:-1] if end in CUT and isinstance(result, list) else result


def are_traces(path: Path) -> bool:
    """Whether `path` is a file or folder of a trainer's traces rather than of BFCL's results."""
    return path.name.startswith("step_") if path.is_file() else next(path.glob("step_*.jsonl.gz"), None) is not None


def files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.glob("step_*.jsonl.gz"))


def read(path: Path, tasks: Mapping[str, Task]) -> Iterator[tuple[Entry, str]]:
    """The episodes of a trainer's traces (a file, or a folder of them) that belong to `tasks` (by BFCL's id), with
    their end. What met an infrastructure failure is left out. Raises UserError for what is no trace."""
    ours = {task.id: name for name, task in tasks.items()}
    for file in files(path):
        for number, line in enumerate(_lines(file), start=1):
            try:
                trace = orjson.loads(line)
                result = [[_recorded(step) for step in turn["steps"]] for turn in trace["turns"]]
                task, end = trace["task"], trace["end"]
            except (ValueError, KeyError, TypeError) as error:
                where = f"{file}:{number}"
                raise UserError(f"no trace of an episode ({error})", where=where, remedy="give traces/…") from error
            if task in ours and end != "infrastructure":
                yield Entry(ours[task], result), end


def _step(step: StepTrace) -> Any:
    return [{call.name: orjson.dumps(call.arguments).decode()} for call in step.calls] or step.text


def _recorded(step: Mapping[str, Any]) -> Any:
    """A kept step as native calls. In training nobody carries out a call of a hidden tool, while the executor that
    judges would: such a call keeps its place, since a call was tried, under a name that nobody can call."""
    calls = [
        {_name(call["name"], result["error"]): orjson.dumps(call["arguments"]).decode()}
        for call, result in zip(step["calls"], step["results"], strict=True)
    ]
    return calls or step["text"]


def _name(name: str, error: str | None) -> str:
    return REFUSED + _NO_NAME.sub("_", name) if error == "unknown_tool" else name


def _lines(file: Path) -> list[bytes]:
    try:
        data = file.read_bytes()
        return (gzip.decompress(data) if file.suffix == ".gz" else data).splitlines()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot be read ({error})", where=str(file), remedy="check the file") from error
