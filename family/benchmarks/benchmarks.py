"""Benchmarks by name: each is a folder of rods/family/benchmarks with a benchmark.toml, and imported when it is played.

package = "…"        the package that its data are of, as evaluation.json records it
benchmark = "…"      "package.module:name" of the class
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rods.environments.registry import declared
from rods.errors import RefusedError, UserError
from rods.family.benchmarks.episodes import Maker
from rods.family.benchmarks.folder import SETTINGS, Episode, Form, Settings, recorded_settings
from rods.functions import named_function
from rods.tasks import Task


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one episode. `resolved` of `expected` turns."""

    official: bool
    strict: bool
    resolved: int
    expected: int

    @property
    def progress(self) -> float:
        return self.resolved / self.expected


class Outputs(NamedTuple):
    """Files of outputs that exist: a trainer's traces, or results; and whether each states the data it belongs to."""

    traces: bool
    files: Sequence[Path]
    stated: bool


class Benchmark(Protocol):
    """Tasks with a protocol and a verdict of their own. A task is known by its `provenance["id"]`."""

    name: str  #: of its folder; result files lie in a folder called so

    def tasks(self) -> list[Task]: ...

    def identity(self) -> dict[str, Any]:
        """{"data": {"package", "version", …}, "environment": hash}."""

    def check_data(self, stated: Mapping[str, Any], where: Path) -> None:
        """Raises RefusedError where `stated` are not the data that it scores."""

    def about(self, report: Mapping[str, Any]) -> str:
        """What a `report` is about, in a line: its data and environment."""

    def maker(self, settings: Settings) -> Maker: ...

    def judge(self, task: Task, episode: Episode) -> Judged: ...

    def outputs(self, path: Path) -> Outputs:
        """What lies at `path`. Raises UserError for nothing that it reads."""

    def recorded(self, path: Path, tasks: Mapping[str, Task], form: Form) -> Iterator[tuple[str, Any, str]]:
        """Outputs that lie at `path`: (id of the task, result, end). Raises UserError, RefusedError."""

    def write(self, folder: Path, settings: Settings, episodes: Iterable[Episode]) -> list[Path]:
        """Writes one sample's episodes as result files of its own format."""

    def scored(self, samples: Sequence[tuple[int, Sequence[Path]]], form: Form, package: Path | None) -> "Scores":
        """The verdicts of its own scorer on such files, by id and sample. `package`: the file of another scorer. Raises
        RefusedError for one of another version, UserError for none."""


Scores = dict[tuple[str, int], bool]
_declared = partial(declared, "rods.family.benchmarks", "benchmark.toml")


def opened(folder: Path) -> tuple[dict[str, Any], Settings, Benchmark | None]:
    """The content of the evaluation.json in `folder`, the settings in it, and the benchmark whose tasks they are about;
    None: those of a file. Raises UserError for a folder that is no evaluation, RefusedError for data that no installed
    benchmark scores."""
    content, settings = recorded_settings(folder)
    return content, settings, None if settings.tasks else _of_data(content.get("data", {}), folder / SETTINGS)


def named(name: str = "") -> Benchmark:
    """The benchmark called `name`; without a name the only one that there is. Raises UserError."""
    known = _declared()
    if not name and len(known) == 1:
        name = next(iter(known))
    if name in known:
        return _made(name)
    what = f"no benchmark {name!r} is installed" if name else f"{len(known)} benchmarks are installed"
    remedy = f"choose by --benchmark: {', '.join(known)}" if known else "name your own tasks by --tasks FILE"
    raise UserError(what, where="the command line", remedy=remedy)


def _of_data(data: Mapping[str, Any], where: Path) -> Benchmark:
    for name, said in _declared().items():
        if said["package"] == data.get("package"):
            benchmark = _made(name)
            benchmark.check_data(data, where)
            return benchmark
    what = f"belongs to the data of {data.get('package')} {data.get('version')}: no benchmark of these is installed"
    raise RefusedError(what, where=str(where), remedy="install the folder of rods/family/benchmarks that scores them")


def _made(name: str) -> Benchmark:
    made: Benchmark = named_function(_declared()[name]["benchmark"], where=f"benchmark {name!r}")()
    return made
