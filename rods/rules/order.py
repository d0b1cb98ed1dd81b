"""The order of an epoch, its batches, and what refills a batch: keyed, so that it depends on
nothing but its arguments.

Refilling (`rollouts.refill`) is the dynamic sampling of DAPO (arXiv 2503.14476 §3.2). A group whose
rollouts were all rewarded alike gives no rollout an advantage. Behind a step's batch, rounds of
groups of other tasks are rolled out, each with as many as places are still without a group that
disagrees. All groups are observations; the update is computed on those that are not `replaced`, as
many as the batch has."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, cycle, islice
from typing import NamedTuple, TypeVar

from rods.canonical import canonical, content_id, keyed_random
from rods.config import DRAWN_SLOTS, Config
from rods.observations import Group, Role

Item = TypeVar("Item")


class EpochSlot(NamedTuple):
    """One slot of an epoch: a task, and whether it is there as an active task or to be
    re-tested."""

    task_id: str
    role: Role


def keyed_order(random_seed: int, epoch: int, ids: Iterable[str]) -> list[str]:
    """`ids` in the visiting order of `epoch`. Each has its own key: one that comes or goes moves no
    others."""
    return sorted(
        ids,
        key=lambda id: (hashlib.sha256(canonical([random_seed, "order", epoch, id])).digest(), id),
    )


def slots(
    random_seed: int, epoch: int, active: Iterable[str], retests: Iterable[str]
) -> tuple[EpochSlot, ...]:
    """The epoch's slots in visiting order: active tasks and re-tests, mixed."""
    roles: dict[str, Role] = {**dict.fromkeys(active, "active"), **dict.fromkeys(retests, "retest")}
    return tuple(
        EpochSlot(task_id, roles[task_id]) for task_id in keyed_order(random_seed, epoch, roles)
    )


def order_hash(slots: Sequence[EpochSlot]) -> str:
    """What the `epoch` record, a checkpoint and all ranks compare: a hash of tasks and roles in
    order."""
    return content_id([list(slot) for slot in slots])


def steps_per_epoch(slots: int, batch_tasks: int) -> int:
    """How many rollout batches an epoch of `slots` slots has."""
    return -(-slots // batch_tasks)


def epoch_steps(config: Config, slots: int) -> int:
    """How many steps an epoch of a run has, whose batches may hold drawn tasks beside those of the
    pool, or nothing else."""
    if config.pool_slots:
        return steps_per_epoch(slots, config.pool_slots)
    return min(tasks.epoch_steps(config) for tasks in DRAWN_SLOTS if tasks.slots(config))


def batch(items: Sequence[Item], batch_tasks: int, index: int) -> list[Item]:
    """The `index`-th batch (from 0) of an epoch; the last one is filled from the front of the same
    order."""
    if not 0 <= index * batch_tasks < len(items):
        raise IndexError(f"batch {index} of an epoch of {steps_per_epoch(len(items), batch_tasks)}")
    return places(items, index * batch_tasks, batch_tasks)


def places(items: Sequence[Item], start: int, count: int) -> list[Item]:
    """`count` of `items` from place `start` (from 0) on; behind the last one from the front
    again. However many `items` there are, no more than `count` of them are copied."""
    return list(islice(chain(items[start : start + count], cycle(items)), count))


def refilling(
    random_seed: int, step: int, slots: Sequence[EpochSlot], groups: Sequence[Group], size: int
) -> list[EpochSlot]:
    """The slots of a step's next round. `groups` are those that it has, the first `size` its batch.
    For each group that is still missing, since one does not disagree, an active task of the epoch
    (`slots`) that the step has not met, from a place keyed by the step on, as long as there are."""
    missing = size - sum(group.disagrees for group in groups)
    met = {group.task for group in groups}
    start = keyed_random(random_seed, "refill", step).randrange(max(1, len(slots)))
    around = chain(islice(slots, start, None), islice(slots, start))
    return list(
        islice(
            (slot for slot in around if slot.role == "active" and slot.task_id not in met), missing
        )
    )


def with_replaced(groups: Sequence[Group], size: int) -> list[Group]:
    """`groups`, each with whether it is `replaced`: of the first `size` (the batch) as many that do
    not disagree as later groups do, in order; of the later groups all that do not."""
    spare = sum(group.disagrees for group in groups[size:])
    alike = (index for index, group in enumerate(groups[:size]) if not group.disagrees)
    replaced = {
        *islice(alike, spare),
        *(index for index in range(size, len(groups)) if not groups[index].disagrees),
    }
    return [replace(group, replaced=index in replaced) for index, group in enumerate(groups)]
