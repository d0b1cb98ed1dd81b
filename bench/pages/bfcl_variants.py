"""Writes docs/bfcl-variants.md: three variants of BFCL tasks, drawn by chance, for readers to judge
the language by.

`python -m bench.pages.bfcl_variants [--random-seed N]`. Which seeds are drawn depends on the random
seed alone; nothing is chosen by hand.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.bfcl_variants import Written, write
from rods.canonical import keyed_random
from rods.tasks import Task
from rods.worlds.bfcl import tasks

PAGE = Path(__file__).parents[2] / "docs" / "bfcl-variants.md"
COUNT = 3
RANDOM_SEED = 20261120
HEAD = """# Variants of BFCL tasks

Written by the procedural author from training tasks: no model, no GPU.
`python -m bench.pages.bfcl_variants` draws {count} seeds with the random seed {random_seed} and
writes this page; nothing is chosen, so weak ones stand here too. Each passed the gates and the
judge. What the user says is set off; below it stand the ground-truth calls. The profile distance
says how far the variant's shape is from its seed's (0: equal).
"""


def page(random_seed: int) -> str:
    """The page as Markdown."""
    seeds = [task for task in tasks() if task.split == "train"]
    drawn = keyed_random(random_seed, "page").sample(seeds, COUNT)
    written, _ = write(drawn, random_seed)
    parts = [HEAD.format(count=COUNT, random_seed=random_seed)]
    parts += [_section(number, each) for number, each in enumerate(written, start=1)]
    return "\n".join(parts)


def _section(number: int, written: Written) -> str:
    name = written.seed.provenance["id"]
    task = written.variant
    if task is None:
        return f"## {number}. From {name}\n\nNo variant: {written.why}.\n"
    classes = ", ".join((task.state or {})["classes"])
    apart = task.provenance["profile_distance"]
    lines = [
        f"## {number}. From {name}",
        "",
        f"{task.type}; {classes}; profile distance {apart:.2f}",
        "",
    ]
    for turn in range(len(task.script)):
        lines += _turn(task, turn)
    return "\n".join(lines)


def _turn(task: Task, turn: int) -> list[str]:
    calls = [f"    {call}" for call in task.calls[turn]] or ["    (no call is right)"]
    return [f"> {task.script[turn]}", "", *calls, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random-seed", type=int, default=RANDOM_SEED)
    PAGE.write_text(page(parser.parse_args().random_seed).rstrip("\n") + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
