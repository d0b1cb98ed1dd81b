"""Tasks that others wrote, as rows with an id and a domain. Whose tasks they are, and what rewards
them, is the trainer's business.

| source | rows |
|---|---|
| a JSONL file | its lines, objects |
| any iterable of mappings: a loaded data set, say | its items |
| `datasets:NAME` | of a Hugging Face data set, split `train` |
| a folder that `Dataset.save_to_disk` wrote | the same |
| a folder of Harbor's tasks, or one of them | each with `path` and `instruction` |
| `verifiers:NAME` | the data of each task of a taskset of verifiers |

An id is the column `id`, or a hash of the row.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from rods.canonical import JsonMapping, content_id, frozen
from rods.errors import UserError
from rods.files import TASKS, explained, read_regular, read_toml

HARBOR = "task.toml"
Source = Path | str | Iterable[JsonMapping]


@frozen
class ScheduledTask:
    """A row of a source, with its id, its domain (empty where it says none) and, in a batch, why it
    was drawn."""

    id: str
    domain: str
    row: JsonMapping
    role: str = ""


def tasks_of(source: Source, domain: str = "domain") -> list[ScheduledTask]:
    """The tasks of `source`, in order; equal rows are one. Raises UserError naming the row."""
    tasks: dict[str, ScheduledTask] = {}
    shown = source if isinstance(source, (str, Path)) else type(source).__name__
    for number, row in enumerate(_rows(source), start=1):
        where = f"{shown}, row {number}"
        try:
            if not isinstance(row, Mapping):
                raise TypeError(f"it is a {type(row).__name__}")
            name = row["id"] if "id" in row else content_id(dict(row))
            task = ScheduledTask(str(name), str(row.get(domain, "")), row)
            (task.id + task.domain).encode()  # the log says both
            other = tasks.setdefault(task.id, task).row != row
        except (TypeError, ValueError) as error:
            remedy = "a row is an object; where JSON cannot say it, it has a column `id` of its own"
            raise UserError(str(error), where=where, remedy=remedy) from error
        if other:
            what = f"another row has the id {task.id!r}, too"
            raise UserError(what, where=where, remedy="give each its own, or leave `id` out")
    if not tasks:
        raise UserError("no tasks", where=shown, remedy="name a source with rows")
    return list(tasks.values())


def _rows(source: Source) -> Iterable[Any]:
    if not isinstance(source, (str, Path)):
        if isinstance(source, Mapping) or not isinstance(source, Iterable):
            what = f"a {type(source).__name__} is no source of tasks"
            raise UserError(what, remedy="give the rows: of a data set one split")
        return source
    kind, _, name = str(source).partition(":")
    path = Path(source)
    try:
        if kind == "datasets":
            from datasets import load_dataset

            return load_dataset(name, split="train")  # type: ignore[no-any-return]
        if (path / "dataset_info.json").exists():
            from datasets import load_from_disk

            return load_from_disk(path)  # type: ignore[no-any-return]
        if kind == "verifiers":
            return _taskset(name)
    except Exception as error:  # each package has errors of its own
        what = f"{type(error).__name__}: {str(error)[:500]}"
        remedy = "install the package where the trainer runs, or see what it says"
        raise UserError(what, where=source, remedy=remedy) from error
    return _harbor(path) if path.is_dir() else _lines(path)


def _taskset(name: str) -> list[JsonMapping]:
    """The data of each task, whose key is the id."""
    from verifiers import v1

    taskset = v1.load_taskset(v1.taskset_config_type(name)(id=name))
    if not taskset.bounded:
        raise ValueError("a taskset without an end has nothing to schedule")
    return [
        {**task.data.model_dump(mode="json", exclude_none=True), "id": task.key} for task in taskset
    ]


def _lines(path: Path) -> Iterator[Any]:
    with explained("cannot read tasks", path, "name a JSONL file, a folder, datasets:NAME, …"):
        lines = read_regular(path, TASKS).splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                remedy = "mend the line: each is a JSON object"
                raise UserError(str(error), where=f"{path}:{number}", remedy=remedy) from error


def _harbor(folder: Path) -> Iterator[JsonMapping]:
    """Task folders of Harbor's; one of several steps has the instruction of the first."""
    tables = sorted([*folder.glob(HARBOR), *folder.glob(f"*/{HARBOR}")])
    if not tables:
        what = f"holds no data set of one split and no {HARBOR}"
        raise UserError(what, where=folder, remedy="name a folder of either, or a JSONL file")
    for path in tables:
        table = read_toml(path)
        own = path.parent
        text = min(own.glob("steps/*/instruction.md"), default=own / "instruction.md")
        with explained("cannot read what the agent is told", text, "see Harbor's form of a task"):
            instruction = read_regular(text)
        try:
            name = table.get("task", {}).get("name", own.name)
            category = table.get("metadata", {}).get("category", "")
        except AttributeError as error:
            what = "`task` or `metadata` is no table"
            raise UserError(what, where=path, remedy="see Harbor's form of a task") from error
        yield {
            "id": name,
            "domain": category,
            "path": str(own),
            "instruction": instruction.decode(errors="replace"),
        }
