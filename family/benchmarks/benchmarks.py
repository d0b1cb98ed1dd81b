"""What a benchmark is, and benchmarks by name: each is a folder of rods/family/benchmarks with a
benchmark.toml, and imported when it is played. The tasks of a file are one without a folder
(rods.family.benchmarks.task_file).

benchmark = "…"      "package.module:name" of the class default = true       of the one that is
played where none is named [verbs]              of `rods`: what fetches its data, say; function
(below rods.family.benchmarks) and line of help
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from rods.calls import Call
from rods.environments.registry import declared
from rods.episode.model_thread import ModelThread
from rods.errors import RefusedError, UserError
from rods.family.benchmarks.episodes import Maker, Slots
from rods.family.benchmarks.folder import (
    SETTINGS,
    Episode,
    Form,
    Part,
    Score,
    Settings,
    recorded_settings,
)
from rods.family.benchmarks.folder import Protocol as PlayedIn
from rods.family.benchmarks.task_file import TaskFile
from rods.functions import named_function
from rods.tasks import AnyTask

NEEDS = "encoder", "search"
# policies whose scores are known (rods.family.benchmarks.known)
Known = Literal["nothing", "truth", "fault"]


class Outputs(NamedTuple):
    """Files of outputs that exist: a trainer's traces, or results; and whether each states the data
    it belongs to."""

    traces: bool
    files: Sequence[Path]
    stated: bool


class Benchmark(Protocol):
    """Items with a protocol and a verdict of their own."""

    name: str  #: of its folder; result files lie in a folder called so
    kinds: Sequence[str]  #: of its items, in the order of reports
    measures: Sequence[str]  #: of its scores; the first is the verdict
    protocols: Sequence[PlayedIn]  #: in which it is played; the first where none is asked for
    part: Part  #: of its items, that is played where none is asked for
    parts: Mapping[Part, str]  #: that reports tell apart, and their headings

    def tasks(self) -> list[AnyTask]:
        """All items."""

    def kind(self, task: AnyTask) -> str: ...

    def identifier(self, task: AnyTask) -> str:
        """What journals and result files call an item."""

    def identity(self, tasks: Sequence[AnyTask]) -> dict[str, Any]:
        """What evaluation.json says of data and environment of `tasks`, which are played. Raises
        UserError for those that are of other versions than the ones installed."""

    def check_data(self, stated: Mapping[str, Any], where: Path) -> None:
        """Raises RefusedError where `stated` are not the data that it scores."""

    def about(self) -> str:
        """Its data and environment, in a line."""

    def maker(self, settings: Settings) -> Maker:
        """Raises UserError for settings that it cannot be played in."""

    def expected(self, settings: Settings) -> int:
        """How many items an evaluation has."""

    def score(self, episode: Episode) -> Score: ...

    def known(self, task: AnyTask, turn: int, policy: Known) -> Sequence[Call] | str | None:
        """The calls that `policy` makes in a turn of an item, or its answer: none at all, the
        ground truth, or with a fault that fails the item. None: nobody knows a ground truth."""

    def due(self, task: AnyTask, policy: Known, form: Form) -> tuple[Mapping[str, float], str]:
        """The scores that `policy` must get, and why where they are not 0, 1 and 0; no scores: none
        are made."""


@runtime_checkable
class Summed(Protocol):
    """A benchmark that makes further figures of the scores."""

    def figures(self, verdicts: Mapping[str, float], whole: bool) -> Mapping[str, float]:
        """By name, of the mean verdict of each kind of items that was played; `whole`: with all of
        its items."""


@runtime_checkable
class Chained(Protocol):
    """A benchmark in which some items go on from what others have left. What is played for others
    alone has a score without measures."""

    def before(self, task: AnyTask) -> AnyTask | None:
        """The item that `task` goes on from."""


@runtime_checkable
class Talking(Protocol):
    """A benchmark whose user a model plays, behind an endpoint of its own. Where the settings name
    none, a script plays it: for policies with known scores."""

    user: str  #: whom it plays
    talking: Sequence[str]  #: the kinds of items that have one


@runtime_checkable
class Needing(Protocol):
    """A benchmark some of whose items need an encoder of texts, behind an endpoint of its own, or a
    search of the web, with the user's key. Where the settings name none, these are played by
    policies with known scores alone."""

    needs: Mapping[str, Sequence[str]]  #: their kinds, by "encoder" and "search"


@runtime_checkable
class Listening(Protocol):
    """The maker of such a benchmark: it asks the user's model, or the encoder, through `line`,
    which is there while it plays."""

    line: ModelThread | None


@runtime_checkable
class Searching(Protocol):
    """The maker of a benchmark whose tools search the web."""

    def search_by(self, key: str, url: str, patience: float) -> None:
        """Before it plays: searches are made with this key, there (default: the benchmark's own),
        and tried for so many seconds. Raises UserError."""


def chosen(benchmark: Benchmark, settings: Settings) -> list[AnyTask]:
    """The items of an evaluation, each after the one that it goes on from."""
    found: dict[str, AnyTask] = {}
    for task in settings.choose(benchmark.tasks(), benchmark.kind):
        chain: list[AnyTask] = []
        item: AnyTask | None = task
        while item is not None and item.id not in found:
            chain.append(item)
            item = benchmark.before(item) if isinstance(benchmark, Chained) else None
        found |= {item.id: item for item in reversed(chain)}
    return list(found.values())


def needing(benchmark: Benchmark, need: str) -> Sequence[str]:
    """The kinds of its items that have this need."""
    return benchmark.needs.get(need, ()) if isinstance(benchmark, Needing) else ()


def kinds(benchmark: Benchmark, given: Sequence[str] = ()) -> tuple[str, ...]:
    """Those that can be played with what is given of what some need."""
    lacking = {kind for need in NEEDS if need not in given for kind in needing(benchmark, need)}
    return tuple(kind for kind in benchmark.kinds if kind not in lacking)


def slots(
    benchmark: Benchmark, tasks: Sequence[AnyTask], samples: int, done: Iterable[Episode] = ()
) -> Slots:
    """The slots of `tasks` that are not `done`, in the order of samples."""
    done = list(done)
    keys = {episode.key for episode in done}
    earlier = dict[str, str]()
    for task in tasks:
        if isinstance(benchmark, Chained) and (before := benchmark.before(task)) is not None:
            earlier[task.id] = benchmark.identifier(before)
    left = [
        (task, sample)
        for sample in range(samples)
        for task in tasks
        if (benchmark.identifier(task), sample) not in keys
    ]
    return Slots(left, earlier, done)


@runtime_checkable
class Packaged(Protocol):
    """A benchmark with result files of its own format, and a scorer of its own that reads them."""

    name: str

    def outputs(self, path: Path) -> Outputs:
        """What lies at `path`. Raises UserError for nothing that it reads."""

    def recorded(
        self, path: Path, tasks: Mapping[str, AnyTask], form: Form
    ) -> Iterator[tuple[str, Any, str]]:
        """Outputs that lie at `path`: (id of the task, result, end). Raises UserError,
        RefusedError."""

    def write(self, folder: Path, settings: Settings, episodes: Iterable[Episode]) -> list[Path]:
        """Writes one sample's episodes as result files."""

    def scored(
        self, samples: Sequence[tuple[int, Sequence[Path]]], form: Form, package: Path | None
    ) -> "Scores":
        """The verdicts of its scorer on such files, by id and sample. `package`: the file of
        another scorer. Raises RefusedError for one of another version, UserError for none."""


# None: the scorer lacks what it would need for this one
Scores = dict[tuple[str, int], bool | None]
declared_benchmarks = partial(declared, "rods.family.benchmarks", "benchmark.toml")


def opened(folder: Path) -> tuple[dict[str, Any], Settings, Benchmark]:
    """The content of the evaluation.json in `folder`, the settings in it, and the benchmark whose
    items they are about. Raises UserError for a folder that is no evaluation, RefusedError for data
    that no installed benchmark scores."""
    content, settings = recorded_settings(folder)
    if "tasks" in content:
        return content, settings, TaskFile(content["tasks"])
    if (name := content.get("benchmark")) not in declared_benchmarks():
        remedy = "install the folder of rods/family/benchmarks that scores them"
        raise RefusedError(
            f"is of benchmark {name!r}, which is not installed", where=str(folder), remedy=remedy
        )
    benchmark = named(str(name))
    benchmark.check_data(content["data"], folder / SETTINGS)
    return content, settings, benchmark


def named(name: str = "", where: str = "--benchmark") -> Benchmark:
    """The benchmark called `name`; without a name the default one. Raises UserError, about what
    stands at `where`."""
    known = declared_benchmarks()
    name = name or next((name for name, said in known.items() if said.get("default")), "")
    if name not in known:
        what = f"no benchmark {name!r} is installed" if name else "no benchmark is named"
        remedy = (
            f"choose from {', '.join(known)}" if known else "name your own tasks by --tasks FILE"
        )
        raise UserError(what, where=where, remedy=remedy)
    return _made(name, known[name]["benchmark"])


@cache
def _made(name: str, kind: str) -> Benchmark:
    """Made once a process, since its items are."""
    made: Benchmark = named_function(kind, where=f"benchmark {name!r}")()
    return made


def packaged(benchmark: Benchmark, where: Path) -> Packaged:
    """`benchmark`, where it has a scorer of its own. Raises UserError."""
    if not isinstance(benchmark, Packaged):
        remedy = "a benchmark's scorer knows its own tasks alone"
        raise UserError("is no evaluation on a benchmark", where=str(where), remedy=remedy)
    return benchmark
