"""Tasks that others wrote, as rows with an id and a domain. Whose tasks they are, and what rewards
them, is the trainer's business.

| source | rows |
|---|---|
| a JSONL file | its lines, objects |
| any iterable of mappings, a loaded data set, say | its items |
| `datasets:NAME` or `datasets:NAME:SPLIT` | those of a Hugging Face data set, split `train` |
| a folder that `Dataset.save_to_disk` wrote | the same |
| a folder of Harbor's tasks, or one of them | each with `path`, `instruction`, what its task.toml has |
| `verifiers:NAME` | those that an environment of verifiers trains on |

An id is the column `id`, or a hash of the row.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from rods.canonical import JsonMapping, JsonObject, content_id, frozen
from rods.errors import UserError
from rods.files import TASKS, bounded_lines, explained, open_regular, read_regular, read_toml

HARBOR = "task.toml"
MOST = 10_000_000  # rows: a source may have no end


@frozen
class SourceTask:
    """A row, with its id and its domain (empty where the row says none)."""

    id: str
    domain: str
    row: JsonMapping


def tasks_of(
    source: Path | str | Iterable[JsonMapping], domain: str = "domain"
) -> list[SourceTask]:
    """The tasks of `source`, in order; equal rows are one. Raises UserError naming the row."""
    tasks: dict[str, SourceTask] = {}
    for where, row in _rows(source):
        task = _task(row, domain, where)
        if tasks.setdefault(task.id, task).row != row:
            what = f"another row has the id {task.id!r}"
            raise UserError(what, where=where, remedy="give each its own, or leave `id` out")
        if len(tasks) > MOST:
            raise UserError(f"more than {MOST:,} tasks", where=where, remedy="give a part of them")
    if not tasks:
        raise UserError("no tasks", where=str(source)[:200], remedy="name a source with rows")
    return list(tasks.values())


def _task(row: Any, domain: str, where: str) -> SourceTask:
    if not isinstance(row, Mapping):
        what = f"a row is {type(row).__name__}"
        raise UserError(what, where=where, remedy="give objects, with the trainer's columns")
    name = row.get("id")
    kind = row.get(domain, "")
    if type(name) not in (str, int, type(None)) or name == "" or not isinstance(kind, str):
        what = f"`id` is {name!r}, and `{domain}` {kind!r}"
        raise UserError(what, where=where, remedy="give a text or a whole number, and a text")
    try:
        return SourceTask(content_id(dict(row)) if name is None else str(name), kind, row)
    except ValueError as error:
        what = f"a row that JSON cannot say, and no `id` ({error})"
        raise UserError(what, where=where, remedy="add a column `id`") from error


def _rows(source: Path | str | Iterable[JsonMapping]) -> Iterator[tuple[str, Any]]:
    """Rows, each with where it stands."""
    if not isinstance(source, (str, Path)):
        for number, row in enumerate(source):
            yield f"row {number}", row
        return
    kind, _, name = str(source).partition(":")
    if kind == "datasets":
        name, _, split = name.partition(":")
        rows = _called(source, "datasets", "load_dataset", name, split=split or "train")
    elif kind == "verifiers":
        rows = _environment(source, name)
    elif Path(source).is_dir():
        rows = _folder(Path(source))
    else:
        yield from _lines(Path(source))
        return
    for number, row in enumerate(rows):
        yield f"{source}, row {number}", row


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    with explained("cannot read tasks", path, "name a JSONL file, a folder, datasets:NAME, …"):
        lines = open_regular(path)
    with lines:
        for number, line in enumerate(bounded_lines(lines, path, TASKS), start=1):
            where = f"{path}:{number}"
            try:
                if line.strip():
                    yield where, orjson.loads(line)
            except orjson.JSONDecodeError as error:
                remedy = "mend the line: each is a JSON object"
                raise UserError(f"no JSON: {error}", where=where, remedy=remedy) from error


def _folder(folder: Path) -> Iterable[Any]:
    if (folder / "dataset_info.json").exists():
        return _called(folder, "datasets", "load_from_disk", str(folder))
    below = sorted(place.parent for place in folder.glob(f"*/{HARBOR}"))
    found = [folder] if (folder / HARBOR).exists() else below
    if not found:
        what = f"holds no data set (of one split) and no {HARBOR}"
        raise UserError(what, where=folder, remedy="name a folder of either, or a JSONL file")
    return map(_harbor, found)


def _harbor(folder: Path) -> JsonObject:
    """A task folder of Harbor's. Its steps, if it has any, are played by Harbor alone."""
    table = read_toml(folder / HARBOR)
    text = folder / "instruction.md"
    first = sorted(folder.glob("steps/*/instruction.md"))
    file = text if text.exists() or not first else first[0]
    with explained("a task without an instruction", file, "see Harbor's form of a task"):
        instruction = read_regular(file).decode(errors="replace")
    metadata = table.get("metadata") or {}
    return {
        "id": str((table.get("task") or {}).get("name") or folder.name),
        "domain": str(metadata.get("category") or ""),
        "path": os.fspath(folder),
        "instruction": instruction,
        "table": table,
    }


def _called(where: Path | str, package: str, function: str, *names: str, **more: str) -> Any:
    """What a function of a package says that need not be installed. Raises UserError with what it
    raises."""
    try:
        return getattr(import_module(package), function)(*names, **more)
    except ImportError as error:
        remedy = f"install {package} where the trainer runs (or what it lacks)"
        raise UserError(str(error), where=where, remedy=remedy) from error
    except Exception as error:
        what = f"{package}.{function}: {type(error).__name__}: {str(error)[:500]}"
        raise UserError(
            what, where=where, remedy="see what the package says of that name"
        ) from error


def _environment(where: Path | str, name: str) -> Iterable[Any]:
    """The rows that an environment of verifiers trains on; its task is the domain where a row names
    none."""
    environment = _called(where, "verifiers", "load_environment", name)
    return environment.get_dataset()
