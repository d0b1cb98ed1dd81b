"""What a benchmark is: a class that a folder of rods/family/benchmarks declares
(rods.family.benchmarks.benchmarks), and what is played of one."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject
from rods.environments.base import Environment, reference
from rods.errors import RefusedError
from rods.family.benchmarks import folder
from rods.family.benchmarks.episodes import Maker, Slots
from rods.family.benchmarks.folder import Documents, Episode, Form, Part, Score, Settings
from rods.tasks import AnyTask, Task

# What some items are played with beside the policy: a model that plays their user, an encoder of
# texts, a search of the web. Where the command line names none, these items are left out.
Need = Literal["user", "encoder", "search"]
# None: the scorer lacks what it would need for this one
Scores = dict[tuple[str, int], bool | None]


class Benchmark(ABC):
    """Items with a protocol and a verdict of their own. What is not abstract holds of items of a
    pinned package, whose provenance has their `id` and `kind`."""

    name: str  #: of its folder; result files lie in a folder called so
    title: str  #: for people
    kinds: Sequence[str]  #: of its items, in the order of reports
    measures: Sequence[str] = ("official",)  #: of its scores; the first is the verdict
    #: in which it is played; the first where none is asked for
    protocols: Sequence[folder.Protocol] = ("official",)
    forms: Sequence[Form] = ("prompt", "native")  #: in which calls can be made
    documents: Sequence[Documents] = ("full",)  #: in which its tools can be shown
    part: Part = "all"  #: of its items, that is played where none is asked for
    parts: Mapping[Part, str] = {"all": "all items"}  #: that reports tell apart, and headings
    needs: Mapping[Need, Sequence[str]] = {}  #: the kinds of items that need something
    makes: type[Maker]  #: its jobs

    @property
    def data(self) -> Mapping[str, str]:
        """What scores belong to: package, version, hash."""
        raise NotImplementedError

    @property
    def environment(self) -> str:
        """The hash of what its items are played in."""
        raise NotImplementedError

    @property
    def by_id(self) -> Mapping[str, AnyTask]:
        """All that is played of it, by identifier."""
        raise NotImplementedError

    def tasks(self) -> list[AnyTask]:
        """All items."""
        return [*self.by_id.values()]

    def kind(self, task: AnyTask) -> str:
        return str(task.provenance["kind"])

    def identifier(self, task: AnyTask) -> str:
        """What journals and result files call an item."""
        return str(task.provenance["id"])

    def before(self, task: AnyTask) -> AnyTask | None:
        """The item that `task` goes on from. What is played for others alone has a score without
        measures."""
        return None

    def identity(self, tasks: Sequence[AnyTask]) -> JsonObject:
        """What evaluation.json says of data and environment of `tasks`, which are played. Raises
        UserError for those that are of other versions than the ones installed."""
        return {"benchmark": self.name, "data": self.data, "environment": self.environment}

    def about(self) -> str:
        """Its data and environment, in a line."""
        data = self.data
        return (
            f"{self.title}, data of {data['package']} {data['version']} "
            f"(sha256 {data['sha256'][:12]}…), environment {self.environment}"
        )

    def maker(self, settings: Settings) -> Maker:
        """Raises UserError for settings that it cannot be played in."""
        return self.makes(self, settings)

    def expected(self, settings: Settings) -> int:
        """How many items an evaluation has."""
        return len(chosen(self, settings))

    @abstractmethod
    def score(self, episode: Episode) -> Score: ...

    def calls(self, task: Task) -> Sequence[Sequence[Call]]:
        """The ground truth's calls of an item, turn by turn."""
        return task.calls


@runtime_checkable
class Packaged(Protocol):
    """A benchmark with result files of its own format, and a scorer of its own that reads them."""

    name: str

    def outputs(self, path: Path) -> Mapping[Path, bool]:
        """The result files at `path`, and whether each states the data that it belongs to. Raises
        UserError where there is none."""

    def recorded(
        self, path: Path, tasks: Mapping[str, AnyTask], form: Form
    ) -> Iterator[tuple[str, Any, str]]:
        """Outputs that lie at `path`: (id of the task, result, end). Raises UserError,
        RefusedError."""

    def write(self, folder: Path, settings: Settings, episodes: Iterable[Episode]) -> list[Path]:
        """Writes one sample's episodes as result files."""

    def scored(self, samples: Sequence[tuple[int, Sequence[Path]]], form: Form) -> Scores:
        """The verdicts of its scorer on such files, by id and sample."""


def check_data(stated: JsonMapping, ours: JsonMapping, where: Path) -> None:
    """Raises RefusedError where what is `stated` are not the data that are scored here."""
    if {key: stated.get(key) for key in ours} != ours:
        theirs = f"{stated.get('package')} {stated.get('version')}"
        scored = f"{ours['package']} {ours['version']}"
        raise RefusedError(
            f"belongs to the data of {theirs}; this program scores {scored}, whose items differ",
            where=where,
            remedy="score it with the data that made it; scores of different data are never mixed",
        )


def item(
    world: Environment, name: str, script: Sequence[str], data: Mapping[str, str], **about: Any
) -> Task:
    """The task of an item called `name`, without calls that would be right turn by turn."""
    version = f"{data['package']} {data['version']}"
    return Task(
        reference(world),
        "base",
        tuple(script),
        ((),) * len(script),
        tuple(world.tools()),
        state={"entry": name},
        split="test",
        provenance={"id": name, "version": version, **about},
    )


def chosen(benchmark: Benchmark, settings: Settings) -> list[AnyTask]:
    """The items of an evaluation, each after the one that it goes on from."""
    by_id: dict[str, AnyTask] = {}
    for task in settings.choose(benchmark.tasks(), benchmark.kind):
        chain: list[AnyTask] = []
        link: AnyTask | None = task
        while link is not None and link.id not in by_id:
            chain.append(link)
            link = benchmark.before(link)
        by_id |= {link.id: link for link in reversed(chain)}
    return list(by_id.values())


def kinds(benchmark: Benchmark, available: Sequence[Need]) -> tuple[str, ...]:
    """Those that can be played with what is `available` of what some need."""
    lacking = {kind for need, of in benchmark.needs.items() if need not in available for kind in of}
    return tuple(kind for kind in benchmark.kinds if kind not in lacking)


def slots(
    benchmark: Benchmark, tasks: Sequence[AnyTask], samples: int, done: Iterable[Episode] = ()
) -> Slots:
    """The slots of `tasks` that are not `done`, in the order of samples."""
    done = list(done)
    keys = {episode.key for episode in done}
    earlier = {
        task.id: benchmark.identifier(before)
        for task in tasks
        if (before := benchmark.before(task)) is not None
    }
    left = [
        (task, sample)
        for sample in range(samples)
        for task in tasks
        if (benchmark.identifier(task), sample) not in keys
    ]
    return Slots(left, earlier, done)
