"""What the report is made of: a run's history from the columns of its follower (rods.console.follower).

Only live records count: a restart of the trainer takes back the steps and epochs beyond its checkpoint.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rods.console.columns import Columns
from rods.console.follower import COUNTS, DECISIONS, DYNAMICS, Follower
from rods.evaluation.heldout import scored
from rods.faults import LABELS
from rods.observations import ROLES, Dynamics, Update
from rods.tasks import TASK_TYPES

NONE = -1  # in place of a step
Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Flags = NDArray[np.bool_]


class Faced(NamedTuple):
    """What a step's drawn tasks came to; `mean`: of their rewards, −1 to 1, None where no rollout says anything."""

    step: int
    difficulty: int
    tasks: int
    mean: float | None


class Groups:
    """One entry a group of the pool's tasks, in order: views of the follower's columns where all groups are of the
    pool. `task` is its number, `mean` and `variance` are of the progress reward over valid rollouts in [0, 1] (NaN for
    a truncated group), `zone` indexes `ZONES`, `generated` says whether the task is a variant."""

    def __init__(self, follower: Follower) -> None:
        table, progress = follower.groups, follower.progress_only or follower.groups
        drawn = table["role"] == ROLES.index("drawn")
        rows = np.flatnonzero(~drawn) if drawn.any() else slice(None)
        self.step: Integers = table["step"][rows]
        self.epoch = _epoch_of(follower, self.step)
        self.task: Integers = table["task"][rows]
        self.mean: Floats = progress["mean"][rows]
        self.variance: Floats = progress["variance"][rows]
        self.zone: Integers = table["zone"][rows]
        self.generated: Flags = self.task >= follower.originals
        self.retest: Flags = table["role"][rows] == ROLES.index("retest")

    def __len__(self) -> int:
        return len(self.step)


class EpochRow(NamedTuple):
    """The pool as one merge left it, after `step`. `injected` counts variants, `retired` them by rule, `staged` those
    that still wait."""

    number: int
    step: int
    originals: int
    generated: int
    revived: int
    refused: int
    staged: int
    injected: int
    retired: Counter[str]


class Variants(NamedTuple):
    """Columns of the accepted variants, in order: number, that of the seed, generation, type (an index of
    `TASK_TYPES`), step of the pick, and `injected`, the last step before the merge that injected it (`NONE` while it
    waits)."""

    task: Integers
    seed: Integers
    generation: Integers
    type: Integers
    picked: Integers
    injected: Integers


class Landing(NamedTuple):
    """How variants came into the pool: `first` the first counted mean of each that was rolled out, `delays` the steps
    between pick and injection, and `moves`, for each seed that was rolled out again after the injection, its mean
    reward then minus its mean at the pick."""

    first: Floats
    delays: Floats
    moves: Floats


class History:
    """A whole run, as `follower` knows it. `originals` and `held_out` count the tasks that were given; `picks` counts
    seeds by task type, `rejected` candidates, `labels` turns by what became of them in each of the epochs `labelled`;
    `dynamics` and `updates` say by step how the turns went and what the update has shown, `versions` what the policy
    was shown, `difficulty` what the steps' drawn tasks came to, which are not among the `groups`. `accepted` counts
    variants, `authors` wrote them: models by their names, or `procedural`; `examples`: an injected one of each type."""

    def __init__(self, follower: Follower) -> None:
        run, totals, steps, variants = follower.run, follower.totals, follower.steps, _variants(follower)
        self.name, self.config = run.name, run.config
        self.originals, self.held_out = len(run.training), len(run.held_out)
        self.groups = Groups(follower)
        self.epochs = _epochs(follower)
        self.accepted = len(variants.task)
        self.authors = sorted(follower.authors)
        self.landing = _landing(self.groups, variants)
        self.examples = _examples(follower, variants)
        self.picks = totals.picks.copy()
        self.rejected = sum(kind.count for kind in totals.failures.values())
        self.attempts = follower.state.attempt
        self.labelled, self.labels = _labels(follower)
        self.dynamics = {step: Dynamics(*went) for step, *went in _rows(steps, "step", *DYNAMICS, where="turns")}
        shown = _rows(follower.updates, "step", "entropy", "norm")
        self.updates = {step: Update(_known(entropy), _known(norm)) for step, entropy, norm in shown}
        self.versions = tuple(follower.versions.shown)
        faced = _rows(steps, "step", "difficulty", "drawn", "earned", where="drawn")
        self.difficulty = [Faced(step, int(level), tasks, _known(mean)) for step, level, tasks, mean in faced]
        self.heldout: dict[str, Any] | None = scored(follower.path)


def recorded(follower: Follower) -> History:
    """What the run of `follower` has recorded up to now. Raises CorruptLogError for a damaged log."""
    with follower.whole():
        return History(follower)


def _rows(table: Columns, *names: str, where: str = "step") -> Iterator[tuple[Any, ...]]:
    """These columns of the rows in which `where` is not 0."""
    rows = np.flatnonzero(table[where])
    return zip(*(table[name][rows].tolist() for name in names), strict=True)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _epoch_of(follower: Follower, steps: Integers) -> Integers:
    """The epoch of each of `steps`, which are live."""
    epochs: Integers = follower.steps["epoch"][np.searchsorted(np.ascontiguousarray(follower.steps["step"]), steps)]
    return epochs


def _epochs(follower: Follower) -> tuple[EpochRow, ...]:
    """One row an `epoch` record, with the decisions before it."""
    table, decisions = follower.epochs, follower.decisions
    merges = np.searchsorted(np.ascontiguousarray(table["seq"]), decisions["seq"])
    injected, left = (decisions["kind"] == DECISIONS.index(kind) for kind in ("injected", "retired"))
    counts = np.bincount(merges[injected], minlength=len(table)).tolist()
    retired: list[Counter[str]] = [Counter() for _ in range(len(table))]
    for merge, rule in zip(merges[left].tolist(), decisions["rule"][left].tolist(), strict=True):
        retired[merge][follower.rules[rule]] += 1
    columns = (table[name].tolist() for name in ("epoch", "step", *COUNTS, "staged"))
    return tuple(EpochRow(*row) for row in zip(*columns, counts, retired, strict=True))


def _variants(follower: Follower) -> Variants:
    """The latest record of each variant."""
    table, decisions = follower.variants, follower.decisions
    latest = follower.newest_variant.rows[table["task"]] == np.arange(len(table))
    rows = np.flatnonzero(latest & (table["type"] >= 0))
    injected = np.full(len(follower.ids), NONE, np.int32)
    inside = decisions["kind"] == DECISIONS.index("injected")
    injected[decisions["task"][inside]] = decisions["step"][inside]
    columns = (table[name][rows] for name in ("task", "seed", "generation", "type", "step"))
    return Variants._make([*columns, injected[table["task"][rows]]])


def _examples(follower: Follower, variants: Variants) -> list[dict[str, Any]]:
    """Of each type the latest injected variant that can be read beside its seed, or else one that waits (`injected`
    None): the policy was at its best then."""
    known = (variants.seed < follower.originals) | (follower.newest_variant.rows[variants.seed] >= 0)
    examples = []
    for kind in range(len(TASK_TYPES)):
        of_kind = known & (variants.type == kind)
        inside = of_kind & (variants.injected != NONE)
        for row in np.flatnonzero(inside if inside.any() else of_kind)[::-1].tolist():
            number, origin, generation, _, picked, injected = (int(column[row]) for column in variants)
            seed, variant = follower.content(origin), follower.content(number)
            if seed is not None and variant is not None:
                at = {"picked": picked, "injected": None if injected == NONE else injected, "generation": generation}
                examples.append({"seed": seed.as_json(), "variant": variant.as_json(), **at})
                break
    return examples


def _labels(follower: Follower) -> tuple[list[int], dict[str, Integers]]:
    """The epochs of turns with labels, and how many turns of each had which."""
    table = follower.labels
    epochs, place = np.unique(_epoch_of(follower, table["step"]), return_inverse=True)
    counts: dict[str, Integers] = {label: np.bincount(place, table[label], len(epochs)).astype(int) for label in LABELS}
    return epochs.tolist(), counts


def _landing(groups: Groups, variants: Variants) -> Landing:
    counted = np.flatnonzero(~np.isnan(groups.mean))
    places = _place(groups.task[counted], groups.step[counted])
    order = np.argsort(places, kind="stable")
    places, rows = places[order], counted[order]

    def means(task: Integers, step: Integers, behind: int) -> Floats:
        """The mean of each task's last counted group up to the step (-1), or of its first one behind it (0); NaN where
        there is none."""
        place = np.searchsorted(places, _place(task, step), "right") + behind
        there = np.flatnonzero((place >= 0) & (place < len(places)))
        there = there[places[place[there]] >> 32 == task[there]]
        values = np.full(len(task), np.nan)
        values[there] = groups.mean[rows[place[there]]]
        return values

    first = means(variants.task, np.zeros(len(variants.task), np.int32), 0)
    _, seed, _, _, picked, injected = (column[variants.injected != NONE] for column in variants)
    moves = means(seed, injected, 0) - means(seed, picked, -1)
    return Landing(first[~np.isnan(first)], (injected - picked).astype(float), moves[~np.isnan(moves)])


def _place(task: Integers, step: Integers) -> Integers:
    places: Integers = (task.astype(np.int64) << 32) + step
    return places
