"""`rods data`: check and audit task files, fetch BFCL's tasks, write and read BFCL's own format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from console.output import Json, plain, print_json
from rods.errors import EXIT_FAILED, EXIT_OK

Out = Annotated[Path | None, Parameter(help="Also write the tasks as JSONL into this file.")]


def check(file: Annotated[Path, Parameter(help="A JSONL file of tasks.")], /, *, as_json: Json = False) -> int:
    """Check a file of tasks line by line: shape, tools, and that each ground truth really runs. Exits 1 on faults."""
    from rods.checking import check_file
    from rods.environments.loading import Environments

    report = check_file(file, Environments())
    if as_json:
        print_json(report.as_json())
    else:
        print("\n".join(plain(line) for line in report.lines()))
    return EXIT_OK if report.ok else EXIT_FAILED


def audit(
    file: Annotated[str, Parameter(help="A JSONL file of tasks, or bfcl.")],
    /,
    *,
    against: Annotated[
        list[str] | None, Parameter(help="Other files (or bfcl) to compare with; may be given again.", negative=())
    ] = None,
    as_json: Json = False,
) -> int:
    """List near duplicates in a file of tasks, and training tasks that match held-out ones.

    Two tasks match when their ground truths or initial states are equal, or when a query of one nearly repeats a query
    of the other (docs/gates.md). Exits 1 when a training task of FILE matches a held-out one of another file.
    """
    from worlds.audit import audit as look
    from worlds.audit import read

    found = look(read(file), [(name, read(name)) for name in against or ()], file)
    if as_json:
        print_json(found.as_json())
    else:
        print("\n".join(plain(line) for line in found.lines()))
    return EXIT_FAILED if found.leaks else EXIT_OK


def bfcl(*, out: Out = None, as_json: Json = False) -> None:
    """Fetch the pinned wheel of BFCL's data once, check its hash, and convert its 800 multi-turn tasks.

    The wheel (1.9 MB) is kept in the cache and read from there; `[data] tasks = "bfcl"` needs nothing else.
    """
    from rods.tasks import task_lines
    from worlds import bfcl as data
    from worlds.bfcl import wheel

    file = data.fetch()
    tasks = data.tasks()
    if out is not None:
        out.write_bytes(task_lines(tasks))
    splits, types = Counter(task.split for task in tasks), Counter(task.type for task in tasks)
    if as_json:
        facts = {"wheel": str(file), "version": wheel.VERSION, "sha256": wheel.SHA256}
        print_json({**facts, "tasks": len(tasks), "splits": splits, "types": types, "out": out})
        return
    held_out = len(tasks) - splits["train"]
    print(f"{wheel.PACKAGE} {wheel.VERSION}: {len(tasks)} tasks, {splits['train']} to train on, {held_out} held out")
    print(f"  {', '.join(f'{count} {kind}' for kind, count in types.items())}")
    print(f"  kept in {file}" + (f"; written to {out}" if out else ""))


def export(
    file: Annotated[Path, Parameter(help="A JSONL file of BFCL tasks.")],
    folder: Annotated[Path, Parameter(help="Where to write questions, answers and tool documents.")],
    /,
    *,
    as_json: Json = False,
) -> None:
    """Write tasks in BFCL's own format, so that its tools read them."""
    from rods.tasks import read_tasks
    from worlds.bfcl import export as format

    counts = format.write(list(read_tasks(file)), folder)
    if as_json:
        print_json({"folder": folder, "tasks": counts.total(), "types": counts})
        return
    print(f"{counts.total()} tasks in {folder}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")


def read(
    folder: Annotated[Path, Parameter(help="A folder in BFCL's own format.")],
    out: Annotated[Path, Parameter(help="The JSONL file of tasks to write.")],
    /,
    *,
    as_json: Json = False,
) -> None:
    """Read tasks in BFCL's own format and write them as JSONL, for `rods data check` and `[data] tasks`."""
    from rods.errors import UserError
    from rods.tasks import task_lines
    from worlds.bfcl import export as format

    tasks = format.read(folder)
    try:
        out.write_bytes(task_lines(tasks))
    except OSError as error:
        what = f"cannot write ({error.strerror})"
        raise UserError(what, where=str(out), remedy="choose another file") from error
    if as_json:
        print_json({"tasks": len(tasks), "out": out})
        return
    print(f"{len(tasks)} tasks in {out}")
