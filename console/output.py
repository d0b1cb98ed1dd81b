"""Shared by all verbs: the types of their arguments, runs by name, and printing for people and for
scripts."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import orjson
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from rods.buffers.run import runfolder
from rods.canonical import JsonMapping, JsonObject
from rods.errors import EXIT_FAILED, EXIT_OK, UserError, say
from rods.model_json import all_valid, valid_unicode

RunFolder = Annotated[Path, Parameter(help="The run folder, for instance runs/demo.")]
ConfigFile = Annotated[
    Path | None, Parameter(name="--config", help="The TOML file of the run's configuration.")
]

Steps = Annotated[
    int | None, Parameter(help="The rollout batch after which the run ends (training.steps).")
]
RandomSeed = Annotated[NonNegativeInt, Parameter(help="What is drawn, is drawn from this.")]
FoldersOfRuns = Annotated[
    list[Path] | None,
    Parameter(help="Run folders, and folders that hold some; runs/ where none is named."),
]


def find_runs(paths: Sequence[Path]) -> dict[str, Path]:
    """Name → folder of the runs `paths`, and of those in the folders that are none, the latest
    first. Runs of one name are told apart by a number. Raises UserError for what is no folder."""
    folders: set[Path] = set()
    for path in paths:
        if not path.is_dir():
            raise UserError(
                "is no folder", where=path, remedy="name run folders, or a folder that holds some"
            )
        below = [path] if runfolder.exists(path) else filter(runfolder.exists, path.iterdir())
        folders |= {folder.resolve() for folder in below}
    named: dict[str, Path] = {}
    for folder in sorted(
        folders, key=lambda folder: ((folder / runfolder.MANIFEST).stat().st_mtime, folder)
    ):
        name = first = valid_unicode(folder.name)
        number = 1
        while name in named:
            number += 1
            name = f"{first}~{number}"
        named[name] = folder
    return dict(reversed(named.items()))


def holds_runs(path: Path) -> bool:
    """Whether this is a folder with runs in it, and none itself."""
    return (
        path.is_dir() and not runfolder.exists(path) and any(map(runfolder.exists, path.iterdir()))
    )


class CheckResult(Protocol):
    """What a check returns: whether all is well, in lines and as JSON."""

    @property
    def ok(self) -> bool: ...

    def lines(self) -> Iterable[str]: ...

    def as_json(self) -> JsonObject: ...


def json_bytes(value: Any) -> bytes:
    """Compact JSON. Numbers are exact; NaN becomes null, and what is no UTF-8 in a file's name
    U+FFFD."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return orjson.dumps(all_valid(json.loads(json.dumps(value, default=str))))


def print_json(value: Any) -> None:
    """One line of JSON on standard output, at once."""
    sys.stdout.write(json_bytes(value).decode() + "\n")
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Text for people, a line each; without control characters."""
    for line in lines:
        say(line)


def print_result(as_json: bool, value: Any, *lines: str | Iterable[str]) -> None:
    """What a verb has to say: `value` as JSON, or `lines` for people."""
    if as_json:
        print_json(value)
        return
    for part in lines:
        print_lines([part] if isinstance(part, str) else part)


def print_checked(result: CheckResult, as_json: bool) -> int:
    """Prints what a check has found; returns the exit code, 0 or 1."""
    print_result(as_json, result.as_json(), result.lines())
    return EXIT_OK if result.ok else EXIT_FAILED


def estimated(estimate: JsonMapping, sign: str = "") -> str:
    """A mean with its 95 % interval; the mean alone where there is none, as that of one task.
    `sign` is "+" for differences."""
    mean = f"{estimate['mean']:{sign}.3f}"
    if estimate["interval"] is None:
        return mean
    low, high = estimate["interval"]
    return f"{mean} [{low:{sign}.3f}, {high:{sign}.3f}]"
