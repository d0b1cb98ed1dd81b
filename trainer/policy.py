"""The contract between a run and the policy that is trained in it.

A policy module offers `train(run: TrainingRun) -> None` and drives the run, never the other way
round, because TRL owns its own loop:

    run.begin(policy)  # loads the resumed checkpoint, or saves the untrained policy as step 0
    while run.stopping is None:
        batch = run.next_batch()  # merges first where an epoch begins; may raise TrainingStopped
        groups = play(batch)  # a group a slot, in order
        # or, where steps are refilled (`rollouts.refill`), with `play` called for each round:
        # batch, groups = run.roll_out(batch, play)
        run.record(batch, groups, traces)  # durable before the update that it describes
        update the weights
        run.after_update(update)  # checkpoints when one is due

`run.stopping` turns from None into a reason only between two steps: inside `begin`, `after_update`
and `next_batch`, and before the first step inside `preparing`; so a step is never torn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

from rods import interfaces
from rods.canonical import JsonMapping, content_id, frozen
from rods.config import Stage
from rods.episode.rewards import RANGES
from rods.errors import RodsError
from rods.interfaces import Interface
from rods.observations import Group, Role, Rollout
from rods.tasks import AnyTask

Stopping = Literal["finished", "signal", "step_limit"]


class TrainingStopped(RodsError):
    """Raised where the run stops before another batch exists: by `preparing`, `next_batch`, and
    `begin` while it waits for the daemon. Policies do not catch it."""

    def __init__(self, reason: Stopping) -> None:
        self.reason: Stopping = reason
        super().__init__(reason)


@frozen
class BatchSlot:
    """One place in a batch. Its group is `groups[index]` of the step. `role` retest: the task is
    retired."""

    index: int
    task: AnyTask
    role: Role = "active"


@dataclass(frozen=True)
class Batch:
    """The tasks of one step: `training.batch_tasks` slots, behind them those that refill it; a task
    may occur twice. `step` counts from 1, `epoch` from 0, `stage` from 1; `rules` is the stage's
    configuration. `traced`: this step's traces are kept. `dialect` and `interface_inputs` (what
    extensions know of this step) make `interface`. Picklable: rank 0 broadcasts it."""

    step: int
    epoch: int
    stage: int
    rules: Stage
    slots: tuple[BatchSlot, ...]
    order_hash: str
    traced: bool = False
    dialect: str = "compact"
    interface_inputs: JsonMapping = field(default_factory=dict)

    def hash(self) -> str:
        """The content id of the epoch's order, the step, its slots and what they show; the
        processes compare it."""
        slots = [[slot.task.id, slot.role] for slot in self.slots]
        return content_id([self.order_hash, self.step, slots, self.interface.version])

    @cached_property
    def interface(self) -> Interface:
        """What its episodes are shown. Its version and its lineage are part of their groups."""
        return interfaces.load(self.rules, self.dialect, self.interface_inputs)

    @property
    def tasks(self) -> list[AnyTask]:
        """Those of its slots, in order."""
        return [slot.task for slot in self.slots]

    def group(self, slot: BatchSlot, rollouts: Sequence[Rollout]) -> Group:
        """The group that these rollouts of the slot's task make."""
        kind = self.rules.reward
        interface = self.interface
        lineage = "" if interface.lineage == interface.version else interface.lineage
        return Group(
            task=slot.task.id,
            stage=self.stage,
            interface=interface.version,
            reward=kind,
            range=RANGES[kind],
            rollouts=tuple(rollouts),
            role=slot.role,
            lineage=lineage,
        )


class Policy(Protocol):
    """What a run needs of a policy: its files, from which training continues exactly where it
    stopped (weights, optimizer, schedule), and its score on validation tasks."""

    def save(self, folder: Path) -> None:
        """Writes its files into the empty `folder`. The caller fsyncs and hashes them."""

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote. Raises UserError when the files do not fit the
        configuration."""

    def validate(self, tasks: Sequence[AnyTask]) -> list[float | None]:
        """Progress of one greedy rollout a task, without training aids; None for an infrastructure
        failure."""
