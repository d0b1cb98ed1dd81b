"""A run folder: what its creator wrote once (config.toml, manifest.json, tasks.jsonl), by how much
it was extended since (extensions.jsonl), and who may start with it.

Folds are elsewhere; this is what all processes of a run share.
"""

import gzip
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import rods
from rods.buffers.log.disk import replace, sync_file
from rods.buffers.log.parts import segments
from rods.buffers.log.record_bytes import Record, record
from rods.buffers.log.shapes import fault_of
from rods.buffers.log.tail import read
from rods.buffers.log.writer import LogWriter
from rods.buffers.run import runfolder
from rods.buffers.run.heartbeat import Heartbeat, ProcessLocation, read_heartbeat
from rods.buffers.run.locks import Ownership
from rods.canonical import JsonObject, content_id, without
from rods.config import PROTOCOL, Config, identity_diff, parse_config, read_config
from rods.environments import addressed
from rods.environments.loading import Environments
from rods.episode.drivers import Job
from rods.errors import CorruptLogError, RefusedError, UserError
from rods.extension import Door
from rods.files import read_regular
from rods.stored_tasks import Columns, Tasks, TasksById
from rods.tasks import HELD_OUT_SPLITS, AnyTask

if TYPE_CHECKING:
    from rods.players import Players

# What is read of the manifest.
FAULT = fault_of(
    {
        "identity": "object",
        "tasks": {"sha256": "text"},
        "environments": {"*": "text"},
        "warnings": ["text"],
    }
)


# held-out tasks beside those of a run (004 Appendix G: contamination), the same for the same
# configuration as long as what is installed is the same. May raise UserError
GUARDED: Door[Callable[[Config], Sequence[AnyTask]]] = Door("guarded")


# while it is open, a process (by name) may play episodes of the run (001)
PLAYING: Door[Callable[["Run", str, Heartbeat | None], AbstractContextManager[None]]] = Door(
    "playing"
)


def guarded_by(config: Config) -> list[AnyTask]:
    """What all features want guarded in a run with this configuration."""
    return [task for tasks in GUARDED for task in tasks(config)]


@dataclass(frozen=True)
class Run:
    """An existing run folder. `config` is the recorded identity, as long as its latest extension
    says, with the operation of this start, and `environments` are made as its operation says;
    nothing is started until one is asked for. `times_extended` counts those that `config` knows."""

    path: Path
    config: Config
    manifest: JsonObject
    tasks: Tasks = field(repr=False)  # training and held-out, in the order of tasks.jsonl
    environments: Environments = field(repr=False)
    times_extended: int = 0

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def observations_log(self) -> Path:
        return self.path / runfolder.OBSERVATIONS

    @property
    def pool_log(self) -> Path:
        return self.path / runfolder.POOL

    @property
    def seeds_log(self) -> Path:
        return self.path / runfolder.SEEDS

    @property
    def rejected_log(self) -> Path:
        return self.path / runfolder.REJECTED

    @property
    def expanded_log(self) -> Path:
        """All parts of the log of variants: a name with a star, which stands for an epoch."""
        return self.path / runfolder.EXPANDED

    def refused(self, what: str, remedy: str) -> RefusedError:
        """The error for what may not be done in it."""
        return RefusedError(what, where=self.path, remedy=remedy)

    @property
    def newest_expanded(self) -> int:
        """The highest epoch that a part of the log of variants is called after; 0 without parts."""
        parts = segments(self.expanded_log)
        name = parts[-1].name if parts else runfolder.expanded_segment(0)
        return int(name.removeprefix(runfolder.EXPANDED.partition("*")[0]).partition(".")[0])

    def writer(self, log: Path, epoch: int | None = None) -> LogWriter:
        """The writer of a log of the run; of the log of variants, that of the part of `epoch`. The
        caller owns it."""
        path = log if epoch is None else self.path / runfolder.expanded_segment(epoch)
        return LogWriter(path, log=log, part_bytes=self.config.operation.log_part_bytes)

    def sync(self, *files: Path) -> None:
        """Makes what is in these files durable, whoever wrote it. Called before a record is written
        that names what stands there."""
        for file in files:
            sync_file(file)

    def write_tracker(self, content: Any) -> None:
        """Replaces tracker.json."""
        replace(self.path / runfolder.TRACKER, orjson.dumps(content) + b"\n")

    def heartbeat_of(self, process: str) -> JsonObject:
        """What `process` has last said of itself; empty where it never has."""
        return read_heartbeat(self.path, process)

    def trace_file(self, step: int, attempt: int) -> Path:
        """Where the traces of a step are kept."""
        return self.path / runfolder.TRACES / f"step_{step:08d}.a{attempt}.jsonl.gz"

    def keep_traces(self, step: int, attempt: int, traces: Sequence[Mapping[str, object]]) -> None:
        """Writes one step's rollouts, an object a line, then deletes the oldest steps beyond
        `operation.trace_bytes`. They are for people; recovery never needs them, so they are not
        fsynced."""
        if not traces:
            return
        path = self.trace_file(step, attempt)
        path.parent.mkdir(exist_ok=True)
        lines = b"".join(orjson.dumps(trace) + b"\n" for trace in traces)
        path.write_bytes(gzip.compress(lines, compresslevel=3, mtime=0))
        total = 0
        for file in sorted(path.parent.glob("step_*.jsonl.gz"), reverse=True):
            total += file.stat().st_size
            if total > self.config.operation.trace_bytes:
                file.unlink()

    @cached_property
    def players(self) -> "Players":
        """Who plays and judges its tasks."""
        # with the client of language models, which few commands need
        from rods.players import Players

        return Players(self.environments, self.config)

    @contextmanager
    def playing(self, process: str, heartbeat: Heartbeat | None = None) -> Iterator[None]:
        """While this is open, `process` can play episodes whoever takes part in them; how things
        stand is noted in `heartbeat`. Raises UserError where somebody who plays cannot be asked."""
        with ExitStack() as stack:
            for opened in PLAYING:
                stack.enter_context(opened(self, process, heartbeat))
            yield

    def episode(self, task: AnyTask) -> Job:
        """An episode of `task` as it is scored, and as gates play it."""
        return self.players.scored(task, self.config)

    @cached_property
    def training(self) -> TasksById:
        """The tasks given at the start that are trained on, by id."""
        return self.tasks.of_splits(["train"]).by_id

    @cached_property
    def held_out(self) -> Tasks:
        return self.tasks.of_splits(HELD_OUT_SPLITS)

    @property
    def guarded(self) -> list[AnyTask]:
        """What no variant and no drawn task may match: the held-out tasks, and those that
        features add. Raises RefusedError where these are others than at the run's creation."""
        return [*self.held_out, *self._added]

    @cached_property
    def _added(self) -> list[AnyTask]:
        added = guarded_by(self.config)
        if guard_hash(added) != self.manifest.get("guarded"):
            raise self.refused(
                "the guarded tasks of features are others than those that the run was created with",
                "install their version of then, or start a new run",
            )
        return added

    @staticmethod
    def open(path: Path, config: Config | None = None, *, anew: bool = False) -> "Run":
        """Opens a run folder. With `config` this start's operation is taken from there and its
        identity must be the recorded one; RefusedError shows the differences. `anew`: every task is
        read, whatever is kept of them."""
        if not runfolder.exists(path):
            raise UserError(
                "is not a run folder",
                where=path,
                remedy=f"`rods up {path} --config FILE` makes one, in Python config=FILE",
            )
        manifest = _manifest(path)
        identity = without(manifest["identity"], "protocol")
        recorded = parse_config(identity, where=str(path / runfolder.MANIFEST))
        if not (path / runfolder.CONFIG).exists():
            raise UserError(
                "is missing", where=path / runfolder.CONFIG, remedy="restore it from a copy"
            )
        written = read_config(path / runfolder.CONFIG)
        _same(recorded, written, path, "config.toml was edited: ")
        extended = extended_records(path)
        if extended:
            last = extended[-1]
            length = {
                "training": {"steps": last.get("steps")},
                "curriculum": {"stages": last.get("stages")},
            }
            recorded = recorded.lasting_as(
                parse_config(length, where=str(path / runfolder.EXTENSIONS))
            )
        if config is not None:
            _same(recorded, config, path, "")
        config = config or written.lasting_as(recorded)
        environments = Environments(config.operation.sandbox, path)
        kept = path / ("" if anew else runfolder.TASK_COLUMNS)
        sha256 = manifest["tasks"].get("sha256")
        tasks = Tasks(Columns.open(path / runfolder.TASKS, sha256, kept))
        return Run(path, config, manifest, tasks, environments, len(extended))

    def log_start(self, process: str, **facts: Any) -> None:
        """Appends a record to operation.<process>.jsonl: where `process` runs, its operation half,
        versions, `facts`. The caller owns the process's other logs, so this one has no other
        writer. Never pass a secret."""
        entry = record(
            "started",
            process=process,
            time=round(time.time(), 6),  # tells two starts of one process apart
            **asdict(ProcessLocation.here()),
            command=sys.argv,
            folder=str(Path.cwd()),
            versions={"rods": rods.__version__, "python": platform.python_version()},
            operation=self.config.operation.model_dump(mode="json"),
            **facts,
        )
        self.log_operation(process, [entry])

    def log_operation(self, process: str, records: list[Record]) -> None:
        """Appends to operation.<process>.jsonl; for `process` alone."""
        with closing(self.writer(self.path / runfolder.operation(process))) as writer:
            writer.append(records)

    def environment_records(self) -> list[JsonObject]:
        """What is on record of each environment: `name`, `hash`, `parameters`."""
        parameters: JsonObject = self.manifest.get("parameters", {})
        return [
            {"name": name, "hash": version, "parameters": parameters.get(name, {})}
            for name, version in self.manifest["environments"].items()
        ]

    def check_environments(self) -> None:
        """Raises RefusedError when an installed environment is not the version that the run was
        created with. The file of a generated world is looked at, and no process started: its
        address covers all that it is."""
        for name, recorded in self.manifest["environments"].items():
            if addressed.address_of(name) is not None:
                addressed.source_of(name, self.environments.folders)
                continue
            installed = self.environments.load(name).hash
            if installed != recorded:
                raise self.refused(
                    f"environment {name!r} is version {installed}, the run was created with "
                    f"{recorded}",
                    f"install that version, or go on with what still holds in a new run: `rods "
                    f"trainer fork {self.path} NEW`",
                )


class OwnedLog(Ownership):
    """The right to write a log of a run, and its `writer`."""

    def __init__(self, run: Run, path: Path, process: str, beside: Ownership | None = None) -> None:
        """`beside`: what the process owns already, and beats for. Raises also what opening the log
        raises, and RefusedError where the run was extended meanwhile."""
        super().__init__(run.path, path.name, process, beside.heartbeat if beside else None)
        try:
            # a folder that is moved meanwhile looks like logs that have lost their end
            with self.held():
                # from here on nobody extends it
                if len(extended_records(run.path)) != run.times_extended:
                    raise run.refused(
                        "the run was extended while this process started",
                        "start the same command again",
                    )
                self.writer = run.writer(path)
        except BaseException:
            self.release()
            raise

    def refused(self, what: str, remedy: str) -> RefusedError:
        """The error for what may not be written there."""
        return RefusedError(what, where=self.writer.path, remedy=remedy)

    def close(self) -> None:
        self.writer.close()
        self.release()


def guard_hash(added: Sequence[AnyTask]) -> str | None:
    """What the manifest says of guarded tasks that extensions add."""
    return content_id(sorted(task.id for task in added)) if added else None


def extended_records(path: Path) -> list[Record]:
    """The extensions on record of the run at `path`, in order. Raises UserError for a file that is
    damaged."""
    try:
        return list(read(path / runfolder.EXTENSIONS))
    except CorruptLogError as error:
        raise UserError(
            f"cannot be read ({error.what})",
            where=path / runfolder.EXTENSIONS,
            remedy="restore it from a copy",
        ) from error


def _manifest(path: Path) -> JsonObject:
    file = path / runfolder.MANIFEST
    try:
        manifest = orjson.loads(read_regular(file))
        if not isinstance(manifest, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot be read ({error})", where=file, remedy="restore it from a copy"
        ) from error
    if manifest.get("protocol") != PROTOCOL:
        raise RefusedError(
            f"the run folder has protocol {manifest.get('protocol')}, this version writes "
            f"{PROTOCOL}",
            where=file,
            remedy="use the version of RODS named in the manifest under `versions`",
        )
    if what := FAULT(manifest):
        raise UserError(f"manifest{what}", where=file, remedy="restore it from a copy")
    return manifest


def _same(recorded: Config, asked: Config, path: Path, why: str) -> None:
    differences = identity_diff(recorded.identity(), asked.identity())
    if differences:
        longer = not why and recorded.lasting_as(asked).identity() == asked.identity()
        other = f"start a new run from this one with `rods trainer fork {path} NEW --config FILE`"
        what = f"{why}the run was created with another configuration: " + "; ".join(differences)
        raise RefusedError(
            what,
            where=path,
            remedy=f"use the recorded one, or "
            f"{f'`rods trainer extend {path} --config FILE`' if longer else other}",
        )
