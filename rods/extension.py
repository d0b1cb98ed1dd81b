"""What a feature may add to the core: the contract of a folder of `family/`, and of packages that
others install.

A feature is a package below `rods.family` with a module `extension`, or an entry point of the group
`rods_extensions` that leads to such a module. Its `PROVIDES` says what it brings by the names of
`DOORS`; where it acts in the loop it has an `EXTENSION` as well. The core names no feature, and
features do not know each other.

Methods of `Extension` return what the core does without the feature. A module `extension` imports
only `rods` when it is loaded, and what belongs to a process (daemon, trainer, console) inside the
methods that this process calls."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from rods.errors import UserError

FAMILY = "rods.family"
GROUP = "rods_extensions"  # of entry points, for extensions that come with other packages

# where features come in: a room has the type of each beside its `Door`
DOORS = frozenset(
    {
        "computes",
        "curriculum",
        "epoch_fields",
        "interfaces",
        "logs",
        "operation",
        "record_keys",
        "record_shapes",
        "rollout_fields",
        "sections",
        "stage",
        "stand_ins",
        "step_fields",
        "training_verbs",
        "verbs",
        "warm_starts",
    }
)
T = TypeVar("T")
Record = Mapping[str, Any]
Told = Literal["status", "checkpoint", "gauges"]  # where something is told of a fold
NOTHING: Mapping[str, Any] = {}


class Section(BaseModel):
    """A table of the configuration: no unknown keys, no other types than those that are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Door(Generic[T]):
    """A place where features come in: `Door[Mapping[str, str]]("computes")`."""

    def __init__(self, name: str) -> None:
        if name not in DOORS:
            raise LookupError(f"{name!r} is no door")
        self.name = name

    def providers(self) -> dict[str, T]:
        """What features provide here, by the feature's name, in their order."""
        provided = {feature: provides.get(self.name) for feature, provides in features().items()}
        return {feature: cast(T, value) for feature, value in provided.items() if value is not None}


class StepFold(Protocol):
    """What an extension remembers of the closed steps of a run: a pure function of their
    records."""

    def apply(self, step: int, groups: Sequence[Record]) -> None:
        """Folds a live closed step: the records of its groups, in order, none that damage took."""

    def closing(self, groups: Sequence[Record]) -> dict[str, Any]:
        """The fields of this step's closing record, were it closed with these groups; `verify`
        derives them again. Called before `apply`, and changes nothing."""
        return {}

    def state(self) -> Any:
        """The whole state as JSON, for `load`."""

    def load(self, state: Any) -> None:
        """Replaces the whole state by what `state` returned."""


class EpochNotes(Protocol):
    """What an extension adds to the records that open epochs, from logs of its own."""

    def files(self) -> Iterable[Path]:
        """Those that have to be durable before a record that names what is in them."""

    def poll(self) -> None:
        """Reads its logs on."""

    def fields(self, stage: Any, fixed: Record) -> dict[str, Any]:
        """The fields of an epoch of this stage; `fixed`: those that the first record of the same
        epoch had, if any."""
        return {}

    def opened(self, closing: Record) -> Any:
        """What the epoch with this closing record fixes for its steps. Raises Damage where the logs
        lack it."""
        return None


class DaemonWork(Protocol):
    """Jobs that a daemon does beside picks, one at a time; they wait for no worker."""

    @property
    def written(self) -> int:
        """Records on its logs: a number that grows whenever work gets done."""

    # the earliest step at which something became due that is not done yet; infinite where all is
    open_at: float

    def due(self, state: Any) -> Sequence[Any]:
        """The jobs due by `state` (rods.buffers.state) and not handed out yet; called in a
        thread."""

    async def work(self, job: Any) -> None:
        """Does one of them. An infrastructure failure ends it without harm: it is due again."""

    def close(self) -> None:
        """Closes its logs."""


class Extension:
    """One feature. `name` is that of its folder."""

    name: ClassVar[str]
    # among extensions that touch the same thing: lower ones are asked first
    order: ClassVar[int] = 0

    def fold(self, config: Any) -> StepFold | None:
        """A new fold over the steps of a run with this configuration; None where it needs none.
        Snapshots keep its state, as long as `fold_key` stays the same."""
        return None

    def fold_key(self, config: Any) -> Any:
        """The settings that the fold depends on, as JSON."""
        return None

    def follows(self, stage: Any) -> bool:
        """Whether what a stage shows the policy follows from the run's records; `verify` derives it
        again then."""
        return False

    def rollout(
        self, trace: Any, task: Any, environments: Any, config: Any, stage: int
    ) -> Mapping[str, Any]:
        """Further fields of the record of an episode (rods.episode.engine.Trace) of `task`, whose
        environment is one of `environments` (rods.environments.loading), in this stage, from 1."""
        return {}

    def epoch_notes(self, run: Any, *, strict: bool = False) -> EpochNotes | None:
        """What the records that open epochs say of this extension; None: nothing."""
        return None

    def shown(self, fold: Any, opened: Any) -> Any:
        """What `interface` is told for the next step, by the fold and `EpochNotes.opened` of the
        open epoch. Can be pickled; None: nothing."""
        return None

    def interface(self, stage: Any, dialect: str, base: Any, shown: Any) -> Any:
        """The interface (rods.interfaces) of a stage, for a policy that reads `dialect`, over
        `base`, the one so far."""
        return base

    def asks(self, config: Any) -> bool:
        """Whether language models are asked beside those that write variants and those that
        play."""
        return False

    def daemon_work(
        self, run: Any, writers: Any, threads: Any, tasks: Callable[[], Sequence[Any]]
    ) -> DaemonWork | None:
        """What a daemon of this run does beside picks; None: nothing. `tasks`: all that are given
        or in the pool."""
        return None

    def verify(self, run: Any, findings: Any, *, replay: bool) -> None:
        """Derives again what this extension alone has on record, and tells `findings` what does not
        fit."""

    def components(self, stage: Any, dialect: str, shown: Any) -> Mapping[str, str]:
        """What comes and goes in a stage's interface and is there with `shown`: what it says or
        does, by name."""
        return {}

    def notes(self, fold: Any) -> Sequence[str]:
        """What `rods status` and the page say of the fold (None: there is none), a sentence a
        line."""
        return ()

    def before(self, shown: Any, closing: Record) -> Any:
        """What `shown` was during the step with this closing record, of what it is after the
        step."""
        return shown

    def cause(self, closing: Record) -> Mapping[str, Any] | None:
        """Why the step with this closing record changed what the next one shows: `component`,
        `reason` and more; None: nothing changed."""
        return None

    def check(self, config: Any, environments: Any) -> Sequence[Any]:
        """The environments that a run needs beside those of its tasks, out of `environments`
        (rods.environments.loading). Raises UserError for what no run can start with."""
        return ()

    def guarded(self, config: Any) -> Sequence[Any]:
        """Held-out tasks beside those of the run, which none of its variants and drawn tasks may
        match. The same for the same configuration, as long as what is installed is the same. Raises
        UserError."""
        return ()

    def validate(self, config: Any) -> None:
        """Raises ValueError for values that do not go together with the rest of the
        configuration."""

    def player(self, environments: Any, config: Any) -> Any:
        """Who plays what the core has no procedure for (rods.players.Player); None: nobody.
        `config` None: defaults."""
        return None

    def slots(self, config: Any) -> int:
        """How many slots of every batch, behind those of the pool, have tasks of this extension."""
        return 0

    def epoch_steps(self, config: Any) -> int:
        """How many steps lie between two merges where it fills all slots, and no pool is gone
        through."""
        raise NotImplementedError(f"{self.name} fills slots and has no length of an epoch")

    def source(self, run: Any, *, strict: bool = False) -> Any:
        """The tasks of these slots (rods.buffers.folds.slot_sources.TaskSource). `strict`: damage
        to their log is an error."""
        raise NotImplementedError(f"{self.name} fills slots and has no source of tasks")

    def told(self, fold: Any, config: Any, where: Told) -> Mapping[str, Any]:
        """What is said of the fold as it stands: `status`, fields of tracker.json and `rods
        status`; `checkpoint`, as JSON, to which a start from there has to come; `gauges`, numbers
        by name for dashboards."""
        return {}

    def difficulty(self, task: Any) -> float | None:
        """How difficult the simulated policy finds a task of this extension, from 0 to 1; None for
        other tasks."""
        return None

    def varies(self, task: Any) -> bool:
        """Whether variants can be written of `task`, an open one. Raises ValueError for an
        unreadable record."""
        return False

    def kinds(self, run: Any) -> Sequence[Any]:
        """The kinds of tasks (`rods.daemon.authors.base.TaskKind`) that this extension `varies`."""
        return ()

    def replayed(self, run: Any, task: Any) -> Sequence[Any] | None:
        """Why an admitted variant that this extension `varies` holds no more
        (`rods.gates.records.Reason`); None where it cannot be run again. Raises InfrastructureError
        where a world or a player broke."""
        return None

    def compared(self, run: Any) -> Sequence[Record]:
        """Tables of files of its own in the run's folder, which the page shows beside those of
        other runs: each with a `title`, by which they find together, the file that is its `source`,
        sentences as `notes`, and `rows` with a `name` and estimates of `start`, `end` and
        `difference` (rods.evaluation.scoring.Estimate). Bounded, whatever lies there; a file that
        cannot be read is a note."""
        return ()

    def held(self, task: Any) -> int:
        """How many of the checks of `task`, one that this extension `varies`, hold when nothing has
        been done."""
        return 0

    def solution(self, task: Any) -> Sequence[Any] | None:
        """Calls that do what `task` asks for, where this extension knows them."""
        return None


@cache
def _modules() -> Mapping[str, Any]:
    """The module `extension` of each feature, by name, in the order of `ORDER`, then name."""
    modules: dict[str, Any] = {}
    try:
        folders = importlib.import_module(FAMILY).__path__
    except ModuleNotFoundError:
        folders = []
    for folder in pkgutil.iter_modules(folders):
        name = f"{FAMILY}.{folder.name}"
        try:
            modules[folder.name] = importlib.import_module(f"{name}.extension")
        except ModuleNotFoundError as error:
            # what it needs is missing, not the extension
            if error.name not in (name, f"{name}.extension"):
                raise
    for point in entry_points(group=GROUP):
        modules[point.name] = point.load()
    return dict(sorted(modules.items(), key=lambda item: (getattr(item[1], "ORDER", 0), item[0])))


@cache
def features() -> Mapping[str, Mapping[str, object]]:
    """What each feature provides, by the names of doors. Raises UserError for another name."""
    provided: dict[str, Mapping[str, object]] = {}
    for name, module in _modules().items():
        provided[name] = getattr(module, "PROVIDES", {})
        if strangers := sorted(provided[name].keys() - DOORS):
            remedy = f"provide under {', '.join(sorted(DOORS))}"
            raise UserError(f"{strangers[0]!r} is no door", where=f"feature {name}", remedy=remedy)
    return provided


def extensions() -> tuple[Extension, ...]:
    """The objects of features that have one, in the same order."""
    objects = (getattr(module, "EXTENSION", None) for module in _modules().values())
    return tuple(extension for extension in objects if extension is not None)


def _given(part: Callable[[Extension], Any]) -> dict[str, Any]:
    """What the extensions give that give anything, by name."""
    parts = {extension.name: part(extension) for extension in extensions()}
    return {name: given for name, given in parts.items() if given is not None}


def guarded_by(config: Any) -> list[Any]:
    """What all extensions want guarded in a run with this configuration (`Extension.guarded`)."""
    return [task for extension in extensions() for task in extension.guarded(config)]


def new_folds(config: Any) -> dict[str, StepFold]:
    """The folds of all extensions for a run with this configuration, by the extension's name."""
    return _given(lambda extension: extension.fold(config))


def shown_next(
    folds: Mapping[str, StepFold], opened: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """What the interfaces of the next step are told, by the extension's name; `opened`: what its
    epoch has fixed."""
    return _given(
        lambda extension: extension.shown(folds.get(extension.name), opened.get(extension.name))
    )


def told_of(folds: Mapping[str, StepFold], config: Any, where: Told = "status") -> dict[str, Any]:
    """What all extensions tell there of their folds (`Extension.told`)."""
    parts = (extension.told(folds.get(extension.name), config, where) for extension in extensions())
    return {name: value for part in parts for name, value in part.items()}


def closing_fields(folds: Mapping[str, StepFold], groups: Sequence[Record]) -> dict[str, Any]:
    """What extensions add to the closing record of a step with these groups."""
    return {key: value for fold in folds.values() for key, value in fold.closing(groups).items()}


def epoch_notes(run: Any, *, strict: bool = False) -> dict[str, EpochNotes]:
    """What extensions say in the records that open this run's epochs, by the extension's name."""
    return _given(lambda extension: extension.epoch_notes(run, strict=strict))


def opened_by(notes: Mapping[str, EpochNotes], closing: Record) -> dict[str, Any]:
    """What the epoch with this closing record has fixed for its steps, by the extension's name."""
    return {name: note.opened(closing) for name, note in notes.items()}


def compared_in(run: Any) -> list[Record]:
    """The tables of all extensions (`Extension.compared`)."""
    return [table for extension in extensions() for table in extension.compared(run)]
