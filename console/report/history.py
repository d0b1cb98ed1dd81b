"""What the report is made of: a run's history from the columns of its follower (console.follower).

Only live records count: a restart of the trainer takes back the steps and epochs beyond its checkpoint.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.follower import COUNTS, DECISIONS, DYNAMICS, Follower
from console.versions import InterfaceVersion
from evaluation.heldout import scored
from rods.config import Config
from rods.faults import LABELS
from rods.observations import ROLES, Dynamics, Update
from rods.rules.difficulty import Faced
from rods.tasks import TASK_TYPES, AnyTask

NONE = -1  # in place of a step
Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Groups:
    """One entry a group of the pool's tasks, in order. `task` is its number, `mean` and `variance` are of the progress
    reward over valid rollouts in [0, 1] (NaN for a truncated group), `zone` indexes `ZONES`, `generated` says whether
    the task is a variant."""

    step: Integers
    epoch: Integers
    task: Integers
    mean: Floats
    variance: Floats
    zone: Integers
    generated: Flags
    retest: Flags

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True)
class EpochRow:
    """The pool as one merge left it. `step` is the last step before it; `injected` counts variants, `retired` them by
    rule."""

    number: int
    step: int
    originals: int
    generated: int
    revived: int
    refused: int
    staged: int  # accepted and still waiting after this merge
    injected: int
    retired: Counter[str]


@dataclass(frozen=True, slots=True)
class Variants:
    """One entry an accepted variant, in order: its number, that of its seed, its generation, its type (an index of
    `TASK_TYPES`), the step of the pick; `injected` the last step before the merge that injected it, `NONE` while it
    waits."""

    task: Integers
    seed: Integers
    generation: Integers
    type: Integers
    picked: Integers
    injected: Integers

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True, slots=True)
class Landing:
    """How variants came into the pool: `first` the first counted mean of each that was rolled out, `delays` the steps
    between pick and injection, and `moves`, for each seed that was rolled out again after the injection, its mean
    reward then minus its mean at the pick."""

    first: Floats
    delays: Floats
    moves: Floats


@dataclass(frozen=True, slots=True)
class Example:
    """A variant beside its seed. `injected` as in `Variants`, None while it waits."""

    seed: AnyTask
    variant: AnyTask
    picked: int
    injected: int | None
    generation: int


@dataclass(frozen=True, slots=True)
class History:
    """A whole run. `originals` and `held_out` count the tasks that were given; `picks` counts seeds by task type;
    `failures` counts rejected candidates by (stage, error type); `labels` the turns of an epoch's rollouts by what
    became of them; `dynamics` and `updates` say by step how the turns went and what the update has shown, `versions`
    what the policy was shown, `difficulty` what the steps' drawn tasks came to, which are not among the `groups`.
    `accepted` counts variants, `authors` wrote them: models by their names, or `procedural`; `examples`: an injected
    one of each type."""

    name: str
    config: Config
    originals: int
    held_out: int
    groups: Groups
    epochs: tuple[EpochRow, ...]
    accepted: int
    authors: list[str]
    landing: Landing
    examples: tuple[Example, ...]
    picks: Counter[str]
    failures: Counter[tuple[str, str]]
    attempts: int
    labels: dict[int, Counter[str]]
    dynamics: dict[int, Dynamics]
    updates: dict[int, Update]
    versions: tuple[InterfaceVersion, ...]
    difficulty: tuple[Faced, ...] = ()
    heldout: dict[str, Any] | None = None

    @property
    def simulated(self) -> bool:
        """Whether the policy has no weights: such a run shows how the loop works, never that the method helps."""
        return self.config.policy.kind == "simulated"


def recorded(one: Follower) -> History:
    """What the run that `one` follows has recorded up to now. Raises CorruptLogError for a damaged log."""
    with one.whole():
        groups, variants = _groups(one), _variants(one)
        return History(
            name=one.run.name,
            config=one.run.config,
            originals=sum(task.split == "train" for task in one.run.tasks),
            held_out=sum(task.split != "train" for task in one.run.tasks),
            groups=groups,
            epochs=_epochs(one),
            accepted=len(variants),
            authors=sorted(one.authors),
            landing=_landing(groups, variants),
            examples=_examples(one, variants),
            picks=one.progress.picks.copy(),
            failures=Counter({key: kind.count for key, kind in one.progress.failures.items()}),
            attempts=one.attempt,
            labels=_labels(one),
            dynamics=_dynamics(one),
            updates=_updates(one),
            versions=tuple(one.versions.found),
            difficulty=_difficulty(one),
            heldout=scored(one.path),
        )


def _groups(one: Follower) -> Groups:
    """Views of the follower's columns where all groups are of the pool, which only grow by new rows."""
    table, progress = one.groups, one.groups if one.progress_only is None else one.progress_only
    drawn = table["role"] == ROLES.index("drawn")
    rows = np.flatnonzero(~drawn) if drawn.any() else slice(None)
    step, task = table["step"][rows], table["task"][rows]
    return Groups(
        step=step,
        epoch=_epoch_of(one, step),
        task=task,
        mean=progress["mean"][rows],
        variance=progress["variance"][rows],
        zone=table["zone"][rows],
        generated=task >= one.originals,
        retest=table["role"][rows] == ROLES.index("retest"),
    )


def _epoch_of(one: Follower, steps: Integers) -> Integers:
    """The epoch of each of `steps`, which are live."""
    epochs: Integers = one.steps["epoch"][np.searchsorted(np.ascontiguousarray(one.steps["step"]), steps)]
    return epochs


def _epochs(one: Follower) -> tuple[EpochRow, ...]:
    """One row an `epoch` record, with the decisions before it."""
    table = one.epochs
    merges = np.searchsorted(np.ascontiguousarray(table["seq"]), one.decisions["seq"])
    kind, rule = one.decisions["kind"], one.decisions["rule"]
    injected = np.bincount(merges[kind == DECISIONS.index("injected")], minlength=len(table)).tolist()
    retired: list[Counter[str]] = [Counter() for _ in range(len(table))]
    left = kind == DECISIONS.index("retired")
    for place, count in zip(*_counted(merges[left] * len(one.rules) + rule[left]), strict=True):
        merge, number = divmod(place, len(one.rules))
        retired[merge][one.rules[number]] = count
    columns = (table[name].tolist() for name in ("epoch", "step", *COUNTS, "staged"))
    return tuple(EpochRow(*row) for row in zip(*columns, injected, retired, strict=True))


def _counted(places: Integers) -> tuple[list[int], list[int]]:
    """Distinct values and how often each is there."""
    values, counts = np.unique(places, return_counts=True)
    return values.tolist(), counts.tolist()


def _variants(one: Follower) -> Variants:
    """The latest record of each variant."""
    table = one.variants
    latest = one.newest_variant.rows(len(one.ids))[table["task"]] == np.arange(len(table))
    rows = np.flatnonzero(latest & (table["type"] >= 0))
    injected = np.full(len(one.ids), NONE, np.int32)
    inside = one.decisions["kind"] == DECISIONS.index("injected")
    injected[one.decisions["task"][inside]] = one.decisions["step"][inside]
    task, seed, generation, kind, picked = (
        table[name][rows] for name in ("task", "seed", "generation", "type", "step")
    )
    return Variants(task, seed, generation, kind, picked, injected[task])


def _examples(one: Follower, variants: Variants) -> tuple[Example, ...]:
    """Of each type the latest injected variant that can be read, or else one that waits: the policy was at its best
    then."""
    known = (variants.seed < one.originals) | (one.newest_variant.rows(len(one.ids))[variants.seed] >= 0)
    found = []
    for kind in range(len(TASK_TYPES)):
        of_kind = known & (variants.type == kind)
        inside = of_kind & (variants.injected != NONE)
        for row in np.flatnonzero(inside if inside.any() else of_kind)[::-1].tolist():
            seed, variant = one.content(int(variants.seed[row])), one.content(int(variants.task[row]))
            if seed is None or variant is None:
                continue
            injected = int(variants.injected[row])
            when = int(variants.picked[row]), None if injected == NONE else injected
            found.append(Example(seed, variant, *when, int(variants.generation[row])))
            break
    return tuple(found)


def _labels(one: Follower) -> dict[int, Counter[str]]:
    """Those of all turns, by epoch."""
    table = one.labels
    found: dict[int, Counter[str]] = {}
    epochs = _epoch_of(one, table["step"])
    counts = np.column_stack([table[label] for label in LABELS])
    for epoch in np.unique(epochs).tolist():
        totals = counts[epochs == epoch].sum(axis=0).tolist()
        found[epoch] = Counter({label: count for label, count in zip(LABELS, totals, strict=True) if count})
    return found


def _dynamics(one: Follower) -> dict[int, Dynamics]:
    rows = np.flatnonzero(one.steps["turns"])
    columns = (one.steps[name][rows].tolist() for name in ("step", *DYNAMICS))
    return {step: Dynamics(*went) for step, *went in zip(*columns, strict=True)}


def _updates(one: Follower) -> dict[int, Update]:
    columns = (one.updates[name].tolist() for name in ("step", "entropy", "norm"))
    return {step: Update(*map(_known, said)) for step, *said in zip(*columns, strict=True)}


def _difficulty(one: Follower) -> tuple[Faced, ...]:
    rows = np.flatnonzero(one.steps["drawn"])
    columns = (one.steps[name][rows].tolist() for name in ("step", "difficulty", "drawn", "earned"))
    return tuple(
        Faced(step, int(value), tasks, _known(mean)) for step, value, tasks, mean in zip(*columns, strict=True)
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


class Means:
    """The mean reward of the counted groups, to look up by task and step."""

    def __init__(self, groups: Groups) -> None:
        counted = np.flatnonzero(~np.isnan(groups.mean))
        places = _place(groups.task[counted], groups.step[counted])
        order = np.argsort(places, kind="stable")
        self._places, self._rows, self._mean = places[order], counted[order], groups.mean

    def behind(self, task: Integers, step: Integers) -> Floats:
        """That of each task's first group behind the step; NaN where there is none."""
        return self._at(np.searchsorted(self._places, _place(task, step), "right"), task)

    def until(self, task: Integers, step: Integers) -> Floats:
        """That of its last group up to the step."""
        return self._at(np.searchsorted(self._places, _place(task, step), "right") - 1, task)

    def _at(self, found: Integers, task: Integers) -> Floats:
        inside = (found >= 0) & (found < len(self._places))
        there = np.flatnonzero(inside)
        there = there[self._places[found[there]] >> 32 == task[there]]
        means = np.full(len(task), np.nan)
        means[there] = self._mean[self._rows[found[there]]]
        return means


def _place(task: Integers, step: Integers) -> Integers:
    places: Integers = (task.astype(np.int64) << 32) + step
    return places


def _landing(groups: Groups, variants: Variants) -> Landing:
    means = Means(groups)
    first = means.behind(variants.task, np.zeros(len(variants), np.int32))
    inside = np.flatnonzero(variants.injected != NONE)
    seed, picked, injected = variants.seed[inside], variants.picked[inside], variants.injected[inside]
    moves = means.behind(seed, injected) - means.until(seed, picked)
    return Landing(first[~np.isnan(first)], (injected - picked).astype(float), moves[~np.isnan(moves)])
