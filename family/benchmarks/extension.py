"""What benchmarks add to the core: a program, their items as tasks that training must not repeat,
and a suite's table for the page."""

from collections.abc import Sequence
from typing import Any

from rods.environments.registry import declared
from rods.extension import Extension, Record, Section

FOLDER = "rods.family.benchmarks"


class BenchmarkSettings(Section):
    """Benchmarks and a run (docs/benchmarks.md)."""

    # whose held-out items no variant and no drawn task may match, by words or by calls: folders of
    # family/benchmarks
    guard: tuple[str, ...] = ()


class Benchmarks(Extension):
    name = "benchmarks"

    def guarded(self, config: Any) -> Sequence[Any]:
        if not config.benchmarks.guard:
            return ()
        from rods.family.benchmarks.benchmarks import named
        from rods.family.benchmarks.guard import guarded

        return [
            task
            for name in config.benchmarks.guard
            for task in guarded(named(name, "[benchmarks] guard"))
        ]

    def compared(self, run: Any) -> Sequence[Record]:
        from rods.family.benchmarks.table import tables

        return [*tables(run.path)]


EXTENSION = Benchmarks()
PROVIDES = {
    "sections": {"benchmarks": BenchmarkSettings()},
    "verbs": {
        "eval": (
            f"{FOLDER}.__main__:main",
            "a policy on a benchmark's tasks, or on any environment's",
            "program",
        ),
        **{
            verb: (target and f"{FOLDER}.{target}", *words)
            for benchmark in declared(FOLDER, "benchmark.toml").values()
            for verb, (target, *words) in benchmark.get("verbs", {}).items()
        },
    },
}
