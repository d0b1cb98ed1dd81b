"""`rods data check` and `rods data bfcl`."""

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

    report = check_file(file)
    if as_json:
        print_json(report.as_json())
    else:
        print("\n".join(plain(line) for line in report.lines()))
    return EXIT_OK if report.ok else EXIT_FAILED


def bfcl(*, out: Out = None, as_json: Json = False) -> None:
    """Fetch the pinned wheel of BFCL's data once, check its hash, and convert its 800 multi-turn tasks.

    The wheel (1.9 MB) is kept in the cache and read from there; `[data] tasks = "bfcl"` needs nothing else.
    """
    from rods.environments import bfcl as data
    from rods.environments.bfcl import wheel
    from rods.tasks import task_lines

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
