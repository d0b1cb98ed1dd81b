"""The verb of `rods` that fetches BFCL's data."""

from collections import Counter
from pathlib import Path

import orjson

from rods.commands import Json
from rods.errors import say


def fetch_bfcl(*, out: Path | None = None, as_json: Json = False) -> None:
    """Fetch the pinned wheel of BFCL's data once, check its hash, and convert its 800 multi-turn
    tasks.

    The wheel (1.9 MB) is kept in the cache and read from there; `[data] tasks = "bfcl"` needs
    nothing else.

    Args:
        out: Also write the tasks as JSONL into this file.
    """
    from rods.tasks import task_lines
    from rods.worlds import bfcl
    from rods.worlds.bfcl import wheel

    file = bfcl.fetch()
    tasks = bfcl.tasks()
    if out is not None:
        out.write_bytes(task_lines(tasks))
    splits = Counter(task.split for task in tasks)
    types = Counter(task.type for task in tasks)
    facts = {
        "wheel": str(file),
        "version": wheel.VERSION,
        "sha256": wheel.SHA256,
        "tasks": len(tasks),
        "splits": splits,
        "types": types,
        "out": out,
    }
    lines = (
        f"{wheel.PACKAGE} {wheel.VERSION}: {len(tasks)} tasks, {splits['train']} to train on, "
        f"{len(tasks) - splits['train']} held out",
        f"  {', '.join(f'{count} {kind}' for kind, count in types.items())}",
        f"  kept in {file}" + (f"; written to {out}" if out else ""),
    )
    say(orjson.dumps(facts, default=str).decode() if as_json else "\n".join(lines))
