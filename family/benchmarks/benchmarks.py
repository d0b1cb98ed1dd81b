"""Benchmarks by name: each is a folder of rods/family/benchmarks with a benchmark.toml, and
imported when it is played. The tasks of a file are one without a folder
(rods.family.benchmarks.task_file).

    benchmark = "…"     "package.module:name" of the class (rods.family.benchmarks.contract)
    default = true      of the one that is played where none is named
    [verbs]             of `rods`: what fetches its data, say; function (below
                        rods.family.benchmarks) and line of help
"""

from functools import cache, partial
from pathlib import Path

from rods.canonical import JsonObject
from rods.environments.registry import declared
from rods.errors import RefusedError, UserError
from rods.family.benchmarks.contract import Benchmark, Packaged, check_data
from rods.family.benchmarks.folder import SETTINGS, Settings, recorded_settings
from rods.family.benchmarks.task_file import TaskFile
from rods.functions import named_function

declared_benchmarks = partial(declared, "rods.family.benchmarks", "benchmark.toml")


def opened(folder: Path) -> tuple[JsonObject, Settings, Benchmark]:
    """The content of the evaluation.json in `folder`, the settings in it, and the benchmark whose
    items they are about. Raises UserError for a folder that is no evaluation, RefusedError for data
    that no installed benchmark scores."""
    content, settings = recorded_settings(folder)
    if "tasks" in content:
        return content, settings, TaskFile(content["tasks"])
    if (name := content.get("benchmark")) not in declared_benchmarks():
        raise RefusedError(
            f"is of benchmark {name!r}, which is not installed",
            where=folder,
            remedy="install the folder of rods/family/benchmarks that scores them",
        )
    benchmark = named(str(name))
    check_data(content["data"], benchmark.data, folder / SETTINGS)
    return content, settings, benchmark


def named(name: str = "", where: str = "--benchmark") -> Benchmark:
    """The benchmark called `name`; without a name the default one. Raises UserError, about what
    stands at `where`."""
    by_name = declared_benchmarks()
    name = name or next((name for name, about in by_name.items() if about.get("default")), "")
    if name not in by_name:
        what = f"no benchmark {name!r} is installed" if name else "no benchmark is named"
        remedy = f"choose from {', '.join(by_name)}" if by_name else "name your own by --tasks FILE"
        raise UserError(what, where=where, remedy=remedy)
    return _instance(name, by_name[name]["benchmark"])


@cache
def _instance(name: str, kind: str) -> Benchmark:
    """Made once a process, since its items are."""
    benchmark: Benchmark = named_function(kind, where=f"benchmark {name!r}")()
    return benchmark


def packaged(benchmark: Benchmark, where: Path) -> Packaged:
    """`benchmark`, where it has a scorer of its own. Raises UserError."""
    if not isinstance(benchmark, Packaged):
        raise UserError(
            "is no evaluation on a benchmark",
            where=where,
            remedy="a benchmark's scorer knows its own tasks alone",
        )
    return benchmark
