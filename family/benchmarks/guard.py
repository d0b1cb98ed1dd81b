"""The items of benchmarks as tasks that training must not repeat: held out, with the calls that are
right."""

from dataclasses import replace

from rods.buffers.run.run import Run
from rods.buffers.state import read_state
from rods.family.benchmarks.contract import Benchmark, chosen
from rods.family.benchmarks.folder import Settings
from rods.gates.similarity import SimilarityIndex
from rods.tasks import HELD_OUT_SPLITS, AnyTask, Task


def guarded(benchmark: Benchmark) -> list[AnyTask]:
    """Its held-out items, and what is played before them."""
    tasks = chosen(benchmark, Settings({}, part="all", types=tuple(benchmark.kinds)))
    return [_guard(benchmark, task) for task in tasks if task.split in HELD_OUT_SPLITS]


def _guard(benchmark: Benchmark, task: AnyTask) -> AnyTask:
    """The task with its name, for reasons, and with its ground truth as its calls."""
    about = {**task.provenance, "benchmark": f"{benchmark.name} {benchmark.identifier(task)}"}
    if not isinstance(task, Task):
        return replace(task, provenance=about)
    return replace(task, calls=tuple(map(tuple, benchmark.calls(task))), provenance=about, id="")


def overlaps(run: Run, benchmark: Benchmark) -> int:
    """How many of its held-out items match a task that the run trains on, or has trained on: a
    given one or a variant that was injected."""
    index = SimilarityIndex(guarded(benchmark))
    state = read_state(run)
    trained = [task for task in run.tasks if task.split not in HELD_OUT_SPLITS]
    trained += [state.task(name) for name in state.pool.injected]
    return len({match.other for task in trained for match in index.matches(task)})
