"""What benchmarks add to the core: a program, their items as tasks that training must not repeat,
and a suite's table for the page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rods.environments.registry import declared
from rods.functions import late
from rods.section import Section

if TYPE_CHECKING:
    from rods.config import Config
    from rods.family.provides import Provides
    from rods.tasks import AnyTask

FOLDER = "rods.family.benchmarks"


class BenchmarkSettings(Section):
    """Benchmarks and a run (docs/benchmarks.md)."""

    # whose held-out items no variant and no drawn task may match, by words or by calls: folders of
    # family/benchmarks
    guard: tuple[str, ...] = ()


def _guarded(config: "Config") -> "Sequence[AnyTask]":
    section: BenchmarkSettings = config.benchmarks
    if not section.guard:
        return ()
    from rods.family.benchmarks.benchmarks import named
    from rods.family.benchmarks.guard import guarded

    benchmarks = (named(name, "[benchmarks] guard") for name in section.guard)
    return [task for benchmark in benchmarks for task in guarded(benchmark)]


PROVIDES: "Provides" = {
    "guarded": _guarded,
    "tables": late(f"{FOLDER}.table:tables"),
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
