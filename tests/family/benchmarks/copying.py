"""`python -m tests.family.benchmarks.copying RUN`: the daemon, with an author that hands in
items of the run's guard: of each benchmark one in the words of an item, and one with its calls,
in turn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

from rods.buffers.run.run import Run
from rods.calls import Call
from rods.daemon.authors.procedural import ProceduralAuthor
from rods.daemon.main import main
from rods.gates.similarity import contamination, held_out_index
from rods.tasks import AnyTask, Task

Change = dict[str, Any]
form = ProceduralAuthor.form


async def copied(author: ProceduralAuthor, *given: Any, **named: Any) -> Task:
    return replace(await form(author, *given, **named), **next(_copies()), later_tools={}, id="")


@cache
def _copies() -> Iterator[Change]:
    run = Run.open(Path(sys.argv[1]))
    index = held_out_index(run.guarded)
    some = run.tasks[0]
    wanted: dict[tuple[str, str], Change] = {}
    for task in run.guarded:
        name = task.provenance.get("benchmark", "").split(" ")[0]
        for way, change in _changes(task):
            if name and (name, way) not in wanted:
                made: Any = replace(some, **change, later_tools={}, id="")
                if any(f", {name} " in str(reason) for reason in contamination(made, index)):
                    # which an item of another benchmark does not match, too
                    wanted[name, way] = change
    return cycle(wanted.values())


def _changes(task: AnyTask) -> Iterator[tuple[str, Change]]:
    if len(task.texts[0].split()) > 8:
        yield "words", {"script": (task.texts[0],), "calls": ((Call("never", {}),),)}
    if task.goal_calls:
        turns = task.calls if isinstance(task, Task) else (task.goal_calls[:1], task.goal_calls[1:])
        yield (
            "calls",
            {"script": tuple(f"Go on with {n}." for n in range(len(turns))), "calls": turns},
        )


if __name__ == "__main__":
    ProceduralAuthor.form = copied  # type: ignore[method-assign, assignment]
    main()
