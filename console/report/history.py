"""What the report is made of: a run's history from the columns of its follower
(rods.console.follower).

Only live records count: a restart of the trainer takes back the steps and epochs beyond its
checkpoint.
"""

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
    """What a step's drawn tasks came to; `mean`: of their rewards, −1 to 1, None where no rollout
    says anything."""

    step: int
    difficulty: int
    tasks: int
    mean: float | None


class Groups:
    """One entry a group of the pool's tasks, in order: views of the follower's columns where all
    groups are of the pool. `task` is its number, `mean` and `variance` are of the progress reward
    over valid rollouts in [0, 1] (NaN for a truncated group), `zone` indexes `ZONES`, `generated`
    says whether the task is a variant."""

    def __init__(self, follower: Follower) -> None:
        table = follower.groups
        progress = follower.progress_only or follower.groups
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


class Landing(NamedTuple):
    """How variants came into the pool: `first` the first counted mean of each that was rolled out,
    `delays` the steps between pick and injection, and `moves`, for each seed that was rolled out
    again after the injection, its mean reward then minus its mean at the pick."""

    first: Floats
    delays: Floats
    moves: Floats


class History:
    """A whole run, as `follower` knows it. `epochs` are columns of the pool as each merge left it,
    after `step`: `injected` and the other counts are of variants, `staged` those that still wait;
    `retired` is such a column for each rule. `originals` and `held_out` count the tasks that were
    given; `picks` counts seeds by task type, `rejected` candidates, `labels` turns by what became
    of them in each of the epochs `labelled`; `dynamics` and `updates` say by step how the turns
    went and what the update has shown, `versions` what the policy was shown, `difficulty` what the
    steps' drawn tasks came to, which are not among the `groups`. `accepted` counts variants,
    `authors` wrote them: models by their names, or `procedural`; `examples`: an injected one of
    each type."""

    def __init__(self, follower: Follower) -> None:
        run = follower.run
        totals = follower.totals
        steps = follower.steps
        (rows, injected) = _variants(follower)
        self.name = run.name
        self.config = run.config
        self.originals = len(run.training)
        self.held_out = len(run.held_out)
        self.groups = Groups(follower)
        self.epochs, self.retired = _epochs(follower)
        self.accepted = len(rows)
        self.authors = sorted(follower.authors)
        self.landing = _landing(self.groups, follower.variants, rows, injected)
        self.examples = _examples(follower, rows, injected)
        self.picks = totals.picks.copy()
        self.rejected = sum(count for count, _ in totals.failures.values())
        self.attempts = follower.state.attempt
        of_epoch, place = np.unique(
            _epoch_of(follower, follower.labels["step"]), return_inverse=True
        )
        self.labelled: list[int] = of_epoch.tolist()
        of_labels = ((label, follower.labels[label]) for label in LABELS)
        self.labels = {
            label: np.bincount(place, turns, len(of_epoch)).astype(int)
            for label, turns in of_labels
        }
        self.dynamics = {
            step: Dynamics(*went) for step, *went in _rows(steps, "step", *DYNAMICS, where="turns")
        }
        shown = _rows(follower.updates, "step", "entropy", "norm")
        self.updates = {
            step: Update(_known(entropy), _known(norm)) for step, entropy, norm in shown
        }
        self.versions = tuple(follower.versions.shown)
        faced = _rows(steps, "step", "difficulty", "drawn", "earned", where="drawn")
        self.difficulty = [
            Faced(step, int(level), tasks, _known(mean)) for step, level, tasks, mean in faced
        ]
        self.heldout: dict[str, Any] | None = scored(follower.path)


def recorded(follower: Follower) -> History:
    """What the run of `follower` has recorded up to now. Raises CorruptLogError for a damaged
    log."""
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
    epochs: Integers = follower.steps["epoch"][
        np.searchsorted(np.ascontiguousarray(follower.steps["step"]), steps)
    ]
    return epochs


def _epochs(follower: Follower) -> tuple[dict[str, Integers], dict[str, Integers]]:
    """One row an `epoch` record, with the decisions before it: what the merge left, and what it
    retired, by rule."""
    table = follower.epochs
    decisions = follower.decisions
    merges = np.searchsorted(np.ascontiguousarray(table["seq"]), decisions["seq"])

    def counted(kind: str, rules: Flags | bool = True) -> Integers:
        return np.bincount(
            merges[(decisions["kind"] == DECISIONS.index(kind)) & rules], minlength=len(table)
        )

    left = {name: table[name] for name in ("epoch", "step", *COUNTS, "staged")} | {
        "injected": counted("injected")
    }
    rules = enumerate(follower.rules)
    return left, {rule: counted("retired", decisions["rule"] == number) for number, rule in rules}


def _variants(follower: Follower) -> tuple[Integers, Integers]:
    """The rows of the latest record of each variant, and the last step before the merge that
    injected it (`NONE` while it waits)."""
    table = follower.variants
    decisions = follower.decisions
    latest = follower.newest_variant.rows[table["task"]] == np.arange(len(table))
    rows = np.flatnonzero(latest & (table["type"] >= 0))
    injected = np.full(len(follower.ids), NONE, np.int32)
    inside = decisions["kind"] == DECISIONS.index("injected")
    injected[decisions["task"][inside]] = decisions["step"][inside]
    return rows, injected[table["task"][rows]]


def _examples(follower: Follower, rows: Integers, injected: Integers) -> list[dict[str, Any]]:
    """Of each type the latest injected variant that can be read beside its seed, or else one that
    waits (`injected` None): the policy was at its best then."""
    names = ("task", "seed", "generation", "type", "step")
    numbers, seeds, generations, kinds, picked = (follower.variants[name][rows] for name in names)
    known = (seeds < follower.originals) | (follower.newest_variant.rows[seeds] >= 0)
    examples = []
    for kind in range(len(TASK_TYPES)):
        of_kind = known & (kinds == kind)
        inside = of_kind & (injected != NONE)
        for row in np.flatnonzero(inside if inside.any() else of_kind)[::-1].tolist():
            seed = follower.content(int(seeds[row]))
            variant = follower.content(int(numbers[row]))
            if seed is not None and variant is not None:
                at = {
                    "picked": int(picked[row]),
                    "injected": int(injected[row]) if inside[row] else None,
                }
                at |= {"generation": int(generations[row])}
                examples.append({"seed": seed.as_json(), "variant": variant.as_json(), **at})
                break
    return examples


def _landing(groups: Groups, variants: Columns, newest: Integers, injected: Integers) -> Landing:
    counted = np.flatnonzero(~np.isnan(groups.mean))
    places = _place(groups.task[counted], groups.step[counted])
    order = np.argsort(places, kind="stable")
    places = places[order]
    rows = counted[order]

    def means(task: Integers, step: Integers, behind: int) -> Floats:
        """The mean of each task's last counted group up to the step (-1), or of its first one
        behind it (0); NaN where there is none."""
        place = np.searchsorted(places, _place(task, step), "right") + behind
        there = np.flatnonzero((place >= 0) & (place < len(places)))
        there = there[places[place[there]] >> 32 == task[there]]
        values = np.full(len(task), np.nan)
        values[there] = groups.mean[rows[place[there]]]
        return values

    first = means(variants["task"][newest], np.zeros(len(newest), np.int32), 0)
    inside = injected != NONE
    injected, seed, picked = (
        injected[inside],
        *(variants[name][newest][inside] for name in ("seed", "step")),
    )
    moves = means(seed, injected, 0) - means(seed, picked, -1)
    return Landing(
        first[~np.isnan(first)], (injected - picked).astype(float), moves[~np.isnan(moves)]
    )


def _place(task: Integers, step: Integers) -> Integers:
    places: Integers = (task.astype(np.int64) << 32) + step
    return places
