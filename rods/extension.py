"""What a feature may add to the core: the contract of a folder of `family/`, and of packages that
others install.

The core loops over `extensions()` and names none of them. An extension is a package below
`rods.family` with a module `extension` that has an `EXTENSION`, or an entry point of the group
`rods_extensions`. Extensions do not know each other.

Methods of `Extension` return what the core does without the feature. A module `extension` imports
only `rods` when it is loaded, and what belongs to a process (daemon, trainer, console) inside the
methods that this process calls."""

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

from pydantic import BaseModel, ConfigDict, create_model

FAMILY = "rods.family"
GROUP = "rods_extensions"  # of entry points, for extensions that come with other packages

Record = Mapping[str, Any]
Told = Literal["status", "checkpoint", "gauges", "shares"]  # where something is told of a fold
#: by a pick's id: how much likelier its variants' functions are than others, by name
Preferring = Callable[[str], Mapping[str, float]]
NOTHING: Mapping[str, Any] = {}


class Section(BaseModel):
    """A table of the configuration: no unknown keys, no other types than those that are written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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


@runtime_checkable
class Contest(EpochNotes, Protocol):
    """Notes by which one variant of a pick comes into the pool. What that takes of rollouts is
    played before the merge; they are on the extension's log, and no observations."""

    wanted: bool  # whether the merge has to wait for `play`
    played: int  # rollouts that are on record for it

    def begin(self, epoch: int, counts: Callable[..., bool]) -> int | None:
        """Reads on, before the merge into `epoch`; `counts`: whether no start has dropped a record.
        The `expanded_seq` on record for the merge."""

    def sifted(
        self, candidates: Sequence[Any], budget: int, refuse: Callable[[Any], Any]
    ) -> tuple[Any, Any]:
        """The candidates that a merge with room for so many decides about, and by seq why
        (`Refusal`) some are refused. `refuse(content)`: the task, or why any merge refuses it.
        Raises Damage where the log says otherwise."""

    def play(self, at: Record, play: Callable[..., Any]) -> None:
        """Puts on record for the merge `at` what `play(at, tasks, rollouts, random_seed)` gives: of
        each so many."""


class Aims(Protocol):
    """Says of every pick of a run where its variants are to go from their seed, and leads them
    there. Tasks below the boundary are candidates then, too."""

    def picks(
        self, ranked: Sequence[Any], active: Mapping[str, Any], within: Callable[..., Any]
    ) -> Sequence[Any]:
        """The picks of a step (rods.rules.selection.Pick), best first, each with its `why.aim`,
        JSON: of the candidates `ranked`, tasks of the pool `active` (TaskFacts). `within(ranked)`
        has those that quotas leave."""

    def target(self, environment: Any, given: Any, aim: Record) -> Any:
        """The assignment of an attempt (rods.daemon.authors.base) as the pick's `aim` has it: with
        another profile to write, or another seed, and `aim` for the variant's provenance.
        `given.profile` is the seed's. Raises ComposeError where nothing leads there."""


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


class Copies(Protocol):
    """Takes checkpoints elsewhere while training goes on. Nothing that goes wrong there is
    raised."""

    def saved(self, policy: Path) -> None:
        """A checkpoint with this policy counts now, which later ones may remove; at a start: the
        one it resumes."""

    def close(self, ended: bool, waiting: Callable[[], bool]) -> None:
        """The trainer leaves: at its own end, so that what is left is done while `waiting()`, asked
        again and again, holds, or because it has to."""


class Extension:
    """One feature. `name` is that of its folder."""

    name: ClassVar[str]
    # among extensions that touch the same thing: lower ones are asked first
    order: ClassVar[int] = 0
    #: fields that records of rollouts may have, with what raises ValueError for a value that none
    #: can be
    rollout_fields: ClassVar[Mapping[str, Callable[[Any], None]]] = {}
    #: verbs of `rods`, by name: module of its folder and function ("": a noun, below which others
    #: stand, as "data" in "data draw"), what help says, and of what stands at the top its heading
    #: (console/verbs.toml)
    verbs: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    training_verbs: ClassVar[Mapping[str, tuple[str, str]]] = {}  # of `rods-train`, as `verbs`
    #: its logs in the run folder, and of each kind of record in them the fields that are its key
    logs: ClassVar[tuple[str, ...]] = ()
    record_keys: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # kind → what its fields hold (rods/buffers/log/shapes.py)
    record_shapes: ClassVar[Mapping[str, Any]] = {}
    shares: ClassVar[bool] = False  # whether `told` tells `shares`
    #: of the closing records of steps (`StepFold.closing`) and of those that open epochs
    #: (`epoch_notes`): name → shape
    step_fields: ClassVar[Mapping[str, Any]] = {}
    epoch_fields: ClassVar[Mapping[str, Any]] = {}
    #: sections of the configuration with their defaults: of its identity half, `[key]` in TOML, and
    #: of `[operation]`
    sections: ClassVar[Mapping[str, Section]] = {}
    operation: ClassVar[Mapping[str, Section]] = {}
    #: names that `interface` of a curriculum stage may have because this extension makes them
    interfaces: ClassVar[frozenset[str]] = frozenset()
    #: further keys and checks of a curriculum stage, and of [curriculum]: classes that `Stage`,
    #: `Curriculum` inherit
    stage: ClassVar[type[Section] | None] = None
    curriculum: ClassVar[type[Section] | None] = None
    #: environments by name, or, from "/" or "." on, by how a name ends: `module:function` that
    #: makes one, of the name where it is found by its ending. Tasks from anywhere may name them:
    #: none runs code that the name leads to
    environments: ClassVar[Mapping[str, str]] = {}
    # of these environments' data, by name, for data cards
    licences: ClassVar[Mapping[str, str]] = {}
    #: values of `operation.compute` -> `module:function` of run and held-out index that has the
    #: places
    computes: ClassVar[Mapping[str, str]] = {}
    #: values of `policy.warm_start` of nano -> the module with their `demonstrations`, `RECIPE`,
    #: `PIECES` and `ENTRIES`
    warm_starts: ClassVar[Mapping[str, str]] = {}

    def fold(self, config: Any) -> StepFold | None:
        """A new fold over the steps of a run with this configuration; None where it needs none.
        Snapshots keep its state, as long as `fold_key` stays the same."""
        return None

    def fold_key(self, config: Any) -> Any:
        """The settings that the fold depends on, as JSON."""
        return None

    def preferences(self, fold: Any, config: Any) -> Preferring | None:
        """How the functions are weighed of variants that are picked after the fold's latest step;
        None: all alike. A weight is above 0; what has none has 1, and `giver → taker` is a function
        that feeds another. What it reads of the fold it keeps, for that goes on. The weights are on
        record with the pick, under the extension's name."""
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

    def sizes(self, fold: Any, tasks: Sequence[str], config: Any) -> Sequence[int] | None:
        """How many rollouts each slot of the next step has, whose tasks have these ids, by the fold
        as it stands; None: `rollouts.rollouts_per_task` each. All together are as many as that
        gives."""
        return None

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
        by name for dashboards; `shares`, under the extension's name, of each of several things how
        often it goes well, 0 to 1, and of how many times, for `rods inspect RUN --NAME` and the
        page, which show them over the steps."""
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

    def copies(self, run: Any) -> Copies | None:
        """Who takes the checkpoints of a run elsewhere, for the trainer that has just become its
        owner; None: none."""
        return None

    def run_notes(self, run: Any) -> Sequence[str]:
        """What `rods status` and the page say of files of its own in the run's folder, a sentence a
        line."""
        return ()

    def compared(self, run: Any) -> Sequence[Record]:
        """Tables of files of its own in the run's folder, which the page shows beside those of
        other runs: each with a `title`, by which they find together, the file that is its `source`,
        sentences as `notes`, and `rows` with a `name` and estimates of `start`, `end` and
        `difference` (rods.evaluation.scoring.Estimate). Bounded, whatever lies there; a file that
        cannot be read is a note."""
        return ()

    def aims(self, config: Any) -> Aims | None:
        """Where variants go from their seeds; None: they have their root's shape. At most one
        extension says so."""
        return None

    def held(self, task: Any) -> int:
        """How many of the checks of `task`, one that this extension `varies`, hold when nothing has
        been done."""
        return 0

    def solution(self, task: Any) -> Sequence[Any] | None:
        """Calls that do what `task` asks for, where this extension knows them."""
        return None


@cache
def extensions() -> tuple[Extension, ...]:
    """All extensions that are installed, by `order`, then name."""
    known: dict[str, Extension] = {}
    try:
        folders = importlib.import_module(FAMILY).__path__
    except ModuleNotFoundError:
        folders = []
    for folder in pkgutil.iter_modules(folders):
        name = f"{FAMILY}.{folder.name}"
        try:
            known[folder.name] = importlib.import_module(f"{name}.extension").EXTENSION
        except ModuleNotFoundError as error:
            # what it needs is missing, not the extension
            if error.name not in (name, f"{name}.extension"):
                raise
    for point in entry_points(group=GROUP):
        known[point.name] = point.load()
    return tuple(sorted(known.values(), key=lambda extension: (extension.order, extension.name)))


def _given(part: Callable[[Extension], Any]) -> dict[str, Any]:
    """What the extensions give that give anything, by name."""
    parts = {extension.name: part(extension) for extension in extensions()}
    return {name: given for name, given in parts.items() if given is not None}


def aims_of(config: Any) -> Aims | None:
    """Where variants of a run with this configuration go from their seeds (`Extension.aims`)."""
    return next(iter(_given(lambda extension: extension.aims(config)).values()), None)


def aim_words(provenance: Record) -> str:
    """Where a variant went from its seed, such as "harder by chain"; "" where its provenance says
    nothing of it."""
    aim = provenance.get("aim")
    parts = [aim.get("direction"), aim.get("operator")] if isinstance(aim, dict) else []
    return " by ".join(str(part) for part in parts if part)


def guarded_by(config: Any) -> list[Any]:
    """What all extensions want guarded in a run with this configuration (`Extension.guarded`)."""
    return [task for extension in extensions() for task in extension.guarded(config)]


def new_folds(config: Any) -> dict[str, StepFold]:
    """The folds of all extensions for a run with this configuration, by the extension's name."""
    return _given(lambda extension: extension.fold(config))


def preferring(folds: Mapping[str, StepFold], config: Any) -> dict[str, Preferring]:
    """How functions are weighed after the latest step of `folds`, by the extension's name."""
    return _given(lambda extension: extension.preferences(folds.get(extension.name), config))


def preferred(parts: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The weights of all extensions as one: of what several weigh the product."""
    names = {name for part in parts.values() for name in part}
    return {
        name: math.prod(part.get(name, 1.0) for part in parts.values()) for name in sorted(names)
    }


def shown_next(
    folds: Mapping[str, StepFold], opened: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """What the interfaces of the next step are told, by the extension's name; `opened`: what its
    epoch has fixed."""
    return _given(
        lambda extension: extension.shown(folds.get(extension.name), opened.get(extension.name))
    )


def sizes_of(folds: Mapping[str, StepFold], tasks: Sequence[str], config: Any) -> tuple[int, ...]:
    """How many rollouts each slot of the next step has (`Extension.sizes`); empty: all the same."""
    parts = _given(lambda extension: extension.sizes(folds.get(extension.name), tasks, config))
    return tuple(next(iter(parts.values()), ()))


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


def contest_of(notes: Mapping[str, EpochNotes]) -> Contest | None:
    """The one among `notes`; at most one extension has one."""
    return next((note for note in notes.values() if isinstance(note, Contest)), None)


def opened_by(notes: Mapping[str, EpochNotes], closing: Record) -> dict[str, Any]:
    """What the epoch with this closing record has fixed for its steps, by the extension's name."""
    return {name: note.opened(closing) for name, note in notes.items()}


def compared_in(run: Any) -> list[Record]:
    """The tables of all extensions (`Extension.compared`)."""
    return [table for extension in extensions() for table in extension.compared(run)]


def added_fields(record: Record) -> dict[str, Any]:
    """The fields of a rollout's record that extensions add. Raises ValueError naming the one at
    fault."""
    fields = {}
    for extension in extensions():
        for name, check in extension.rollout_fields.items():
            if value := record.get(name):
                check(value)
                fields[name] = value
    return fields


def extended(core: type[Section], name: str, part: Literal["stage", "curriculum"]) -> type[Section]:
    """The class `core` with the keys and checks that extensions add to this part of the
    configuration."""
    more = [kind for extension in extensions() if (kind := getattr(extension, part)) is not None]
    bases: Any = (*more, core)
    made: Any = create_model(name, __base__=bases, __module__=core.__module__, __doc__=core.__doc__)
    return cast(type[Section], made)


def with_sections(
    half: Literal["sections", "operation"],
) -> Callable[[type[Section]], type[Section]]:
    """Decorates the class of one half of the configuration: adds the sections that extensions bring
    to it."""
    added = [getattr(extension, half) for extension in extensions()]
    more: dict[str, Any] = {
        key: (type(default), default) for sections in added for key, default in sections.items()
    }

    def made(core: type[Section]) -> type[Section]:
        return create_model(
            core.__name__, __base__=core, __module__=core.__module__, __doc__=core.__doc__, **more
        )

    return made
