"""The index of near duplicates (rods.gates.similarity) as the tasks grow by tens: building it, its
memory, asking it.

Claim: a task takes at most 800 bytes, and asking costs at most three times as much with ten times
the tasks. Anchor: a tenth of the tasks. Command: `python -m bench.near_duplicates`; `--size
1000000` for so many, a tenth and a hundredth.

Tasks are of desk, in words of their own but for the first ten of a turn, half at most, which a
hundredth of all tasks share. Each size is a process of its own. Asked about are 1,000 new tasks,
none of which is a near duplicate, and 1,000 that are.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context

from bench.figures import Figure, run
from bench.many_variants import resident
from rods.calls import Call
from rods.gates.similarity import SimilarityIndex
from rods.tasks import Task
from rods.worlds import desk

# tasks, words of a turn
ASKED = 1_000
SHARED = 10


@dataclass(frozen=True)
class Built:
    seconds: float  # of CPU time a million tasks
    held: float  # bytes a task
    asking: float  # ms of CPU time a new task
    finding: float  # the same for a near duplicate


def measure(quick: bool, size: str = "") -> list[Figure]:
    """CPU time and resident memory."""
    most = int(size) if size else 10_000 if quick else 100_000
    sizes = (most // 100, most // 10, most)
    built = {size: _apart(size) for size in sizes}
    figures = []
    for few, many in itertools.pairwise(sizes):
        small = built[few]
        large = built[many]
        figures += [
            Figure(
                f"{many:,} tasks: building", large.seconds, "s a million", "a tenth", small.seconds
            ),
            Figure(
                f"{many:,} tasks: memory",
                large.held,
                "bytes a task",
                "a tenth",
                small.held,
                800.0,
                higher=False,
            ),
            Figure(
                f"{many:,} tasks: asking about a new task",
                large.asking,
                "ms",
                "a tenth",
                small.asking,
            ),
            Figure(
                f"{many:,} tasks: the same against a tenth",
                large.asking / small.asking,
                "×",
                "",
                1.0,
                3.0,
                False,
            ),
            Figure(
                f"{many:,} tasks: finding a near duplicate",
                large.finding,
                "ms",
                "a tenth",
                small.finding,
            ),
        ]
    return figures


def _apart(size: int) -> Built:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_built, (size,))


def tasks(numbers: range, own: str = "") -> Iterator[Task]:
    """Tasks by number. `own`: what distinguishes them from those of the same numbers."""
    templates = [
        task for task, _ in itertools.islice(desk.fresh_tasks(3, "bench near duplicates"), 100)
    ]
    for number in numbers:
        template = templates[number % len(templates)]
        said = (text.split() for text in template.script)
        mark = f"{own}{number}"
        script = tuple(
            " ".join(
                word if at < min(SHARED, len(words) // 2) else f"{word}{mark}"
                for at, word in enumerate(words)
            )
            for words in said
        )
        calls = tuple(
            tuple(Call(call.name, {"n": mark}) for call in turn) for turn in template.calls
        )
        yield dataclasses.replace(template, script=script, calls=calls, state={"n": mark}, id="")


def _built(size: int) -> Built:
    new = list(tasks(range(ASKED), "new"))
    known = list(tasks(range(min(ASKED, size))))
    assert len({task.id for task in (*new, *known)}) == len(new) + len(known)
    gc.collect()
    before = resident()
    making = time.process_time()
    for _ in tasks(range(size)):
        pass
    making = time.process_time() - making
    spent = -time.process_time()
    index = SimilarityIndex(tasks(range(size)))
    spent += time.process_time() - making
    gc.collect()
    held = resident() - before
    asking = -time.process_time()
    assert not any(index.find(task) for task in new)
    asking += time.process_time()
    alike = [
        dataclasses.replace(task, calls=other.calls, state=None, id="")
        for task, other in zip(known, new, strict=False)
    ]
    finding = -time.process_time()
    assert all(index.find(task) for task in alike)
    finding += time.process_time()
    return Built(
        1e6 * spent / size, 1e6 * held / size, 1e3 * asking / len(new), 1e3 * finding / len(alike)
    )


if __name__ == "__main__":
    run(measure, size="the most tasks")
