"""Which groups refill a step (`rollouts.refill`, the dynamic sampling of DAPO, arXiv 2503.14476
§3.2): functions of the step's groups and of the epoch's order alone.

A group whose rollouts were all rewarded alike gives no rollout an advantage. Behind a step's batch,
rounds of groups of other tasks are rolled out, each with as many as places are still without a
group that disagrees. All groups are observations; the update is computed on those that are not
`replaced`, as many as the batch has."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from rods.canonical import keyed_random
from rods.observations import Group
from rods.rules.order import EpochSlot


def further(
    random_seed: int, step: int, slots: Sequence[EpochSlot], groups: Sequence[Group], size: int
) -> list[EpochSlot]:
    """The slots of the next round behind `groups`, those of the step so far, whose batch has `size`
    of them: active tasks of the epoch (`slots`, in order) that the step has not met, from a place
    in that order on which is keyed by the step. Fewer than are wanted where there are no more."""
    missing = size - sum(group.varied for group in groups)
    met = {group.task for group in groups}
    start = keyed_random(random_seed, "refill", step).randrange(max(1, len(slots)))
    around = chain(islice(slots, start, None), islice(slots, start))
    return list(
        islice(
            (slot for slot in around if slot.role == "active" and slot.task_id not in met), missing
        )
    )


def marked(groups: Sequence[Group], size: int) -> list[Group]:
    """`groups`, each with whether it is `replaced`: those behind the first `size` that do not
    disagree either, and of the first `size` such ones, in order, as many as others stand in for."""
    spare = sum(group.varied for group in groups[size:])
    alike = (index for index, group in enumerate(groups[:size]) if not group.varied)
    replaced = {
        *islice(alike, spare),
        *(index for index in range(size, len(groups)) if not groups[index].varied),
    }
    return [replace(group, replaced=index in replaced) for index, group in enumerate(groups)]


def derived(
    random_seed: int,
    step: int,
    slots: Sequence[EpochSlot],
    groups: Sequence[Group],
    size: int,
    rounds: int,
) -> Iterator[str]:
    """The tasks that the rules give behind the first `size` of a recorded step's `groups`, in at
    most `rounds`."""
    end = size
    for _ in range(rounds):
        yield from (
            more := [slot.task_id for slot in further(random_seed, step, slots, groups[:end], size)]
        )
        end += len(more)
