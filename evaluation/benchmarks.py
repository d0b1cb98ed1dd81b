"""Benchmarks by name: each is a folder of rods/evaluation with a benchmark.toml, and imported when it is played.

environment = "…"    the environment whose tasks it judges
package = "…"        the package that its data are of, as evaluation.json records it
benchmark = "…"      "package.module:name" of the class
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rods.environments.registry import declared
from rods.episode.engine import Trace
from rods.errors import RefusedError, UserError
from rods.evaluation.episodes import Maker
from rods.evaluation.folder import SETTINGS, Episode, Settings, recorded_settings
from rods.evaluation.protocol import Form
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

    def check_data(self, found: Mapping[str, Any], where: Path) -> None:
        """Raises RefusedError where `found` are not the data that it scores."""

    def about(self, report: Mapping[str, Any]) -> str:
        """What a `report` is about, in a line: its data and environment."""

    def maker(self, settings: Settings) -> Maker: ...

    def verdict(self, task: Task, trace: Trace) -> bool:
        """Whether its scorer would accept what a trace of ours shows."""

    def judge(self, task: Task, episode: Episode) -> Judged: ...

    def outputs(self, path: Path) -> Outputs:
        """What lies at `path`. Raises UserError for nothing that it reads."""

    def recorded(self, path: Path, tasks: Mapping[str, Task], form: Form) -> Iterator[tuple[str, Any, str]]:
        """Outputs that lie at `path`: (id of the task, result, end). Raises UserError, RefusedError."""

    def write(self, folder: Path, settings: Settings, episodes: Iterable[Episode]) -> list[Path]:
        """Writes one sample's episodes as result files of its own format."""

    def scored(self, samples: Sequence[tuple[int, Sequence[Path]]], form: Form, package: Path | None) -> Scores:
        """The verdicts of its own scorer on such files, by id and sample. `package`: the file of another scorer. Raises
        RefusedError for one of another version, UserError for none."""


Scores = dict[tuple[str, int], bool]


def named(name: str = "") -> Benchmark:
    """The benchmark called `name`; without a name the only one that there is. Raises UserError."""
    known = _declared()
    if not name and len(known) == 1:
        name = next(iter(known))
    if name in known:
        return _made(name, known[name])
    what = f"no benchmark {name!r} is installed" if name else f"{len(known)} benchmarks are installed"
    remedy = f"choose by --benchmark: {', '.join(known)}" if known else "name your own tasks by --tasks FILE"
    raise UserError(what, where="the command line", remedy=remedy)


def of_environment(environment: str) -> Benchmark | None:
    """The benchmark that judges tasks of this environment, if one is installed."""
    return _first("environment", environment)


def played(folder: Path) -> Benchmark | None:
    """The benchmark of the evaluation in `folder`; None where its tasks were those of a file. Raises UserError for a
    folder that is no evaluation, RefusedError for data that no installed benchmark scores."""
    found = recorded_settings(folder)
    if found.get("tasks"):
        return None
    data, where = found.get("data", {}), folder / SETTINGS
    benchmark = _first("package", data.get("package"))
    if benchmark is None:
        what = f"belongs to the data of {data.get('package')} {data.get('version')}: no benchmark of these is installed"
        raise RefusedError(what, where=str(where), remedy="install the folder of rods/evaluation that scores them")
    benchmark.check_data(data, where)
    return benchmark


def _first(field: str, value: Any) -> Benchmark | None:
    return next((_made(name, said) for name, said in _declared().items() if said[field] == value), None)


def _declared() -> Mapping[str, Mapping[str, Any]]:
    return declared("rods.evaluation", "benchmark.toml")


def _made(name: str, said: Mapping[str, Any]) -> Benchmark:
    made: Benchmark = named_function(said["benchmark"], where=f"benchmark {name!r}")()
    return made
