"""The types of all doors, for features: a module `extension` says `PROVIDES: "Provides"`, and mypy
holds it to them. Nothing imports this when the product runs.

Each is what the `Door` of the same name has where it stands."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypedDict

from rods.buffers.audit.rederivation import Findings
from rods.buffers.folds.slot_sources import TaskSource
from rods.buffers.log.record_bytes import Shape
from rods.buffers.merging.merger import EpochNotes
from rods.buffers.run.heartbeat import Heartbeat
from rods.buffers.run.run import Run
from rods.canonical import Json, JsonMapping
from rods.config import Config, DrawnSlots, Section
from rods.console.progress import Components
from rods.daemon.authors.base import TaskKind
from rods.daemon.writers import Beside, DaemonWork
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.episode.engine import Trace
from rods.gates.ground_truth import OpenTasks
from rods.interfaces import InterfaceLayer
from rods.players import Player
from rods.rules.step_folds import StepFold
from rods.tasks import AnyTask, OpenTask


class Provides(TypedDict, total=False):
    """What a feature provides, by the name of the door."""

    audits: Callable[[Run, Findings, bool], None]
    components: Components
    computes: Mapping[str, str]
    config_checks: Callable[[Config], None]
    curriculum: type[Section]
    daemon_work: Callable[[Beside], DaemonWork | None]
    difficulties: Callable[[AnyTask], float | None]
    drawn_slots: DrawnSlots
    episode_fields: Callable[[Trace, Config, int], JsonMapping]
    epoch_fields: Mapping[str, Shape | str]
    epoch_notes: Callable[[Run, bool], EpochNotes | None]
    findings: tuple[str, ...]
    guarded: Callable[[Config], Sequence[AnyTask]]
    interfaces: InterfaceLayer
    kinds: Callable[[], TaskKind[OpenTask]]
    logs: tuple[str, ...]
    open_tasks: OpenTasks
    operation: Mapping[str, Section]
    players: Callable[[Environments, Config | None], Player]
    playing: Callable[[Run, str, Heartbeat | None], AbstractContextManager[None]]
    record_keys: Mapping[str, tuple[str, ...]]
    record_shapes: Mapping[str, Shape]
    rollout_fields: Mapping[str, Callable[[Json], None]]
    run_environments: Callable[[Config, Environments], Sequence[Environment]]
    sections: Mapping[str, Section]
    stage: type[Section]
    stand_ins: str
    step_fields: Mapping[str, Shape | str]
    step_folds: Callable[[Config], StepFold | None]
    tables: Callable[[Path], Iterable[JsonMapping]]
    task_sources: Callable[[Run, bool], TaskSource]
    training_verbs: Mapping[str, tuple[str, str]]
    verbs: Mapping[str, tuple[str, ...]]
