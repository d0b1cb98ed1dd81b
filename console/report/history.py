"""The history of a run for its report: columns and rows, read from the logs in one pass over each.

Only live records count: a restart of the trainer takes back the steps and epochs beyond its checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buffers.log.records import Record
from buffers.run.run import Run
from buffers.run.runfolder import EXPANDED, REJECTED, SEEDS
from buffers.state import RunState
from console.versions import InterfaceVersion, InterfaceVersions
from evaluation.heldout import scored
from rods.config import Config, Zones
from rods.observations import FORMAT_REWARDS, Dynamics, Group, Update, dynamics, label_counts
from rods.rules.difficulty import Faced
from rods.rules.zones import ZONES, group_signal, zone_of
from rods.tasks import AnyTask

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Groups:
    """One entry a group, in order. `mean` and `variance` are of the progress reward over valid rollouts in [0, 1] (NaN
    for a truncated group), `zone` indexes `ZONES`, `generated` says whether the task is a variant."""

    step: Integers
    epoch: Integers
    task: NDArray[np.str_]
    mean: Floats
    variance: Floats
    zone: Integers
    generated: Flags
    retest: Flags

    def __len__(self) -> int:
        return len(self.step)

    def means(self) -> dict[str, list[tuple[int, float]]]:
        """(step, mean reward) of each counted group, by task, in order."""
        found: dict[str, list[tuple[int, float]]] = {}
        for task, step, mean in zip(self.task, self.step, self.mean, strict=True):
            if not np.isnan(mean):
                found.setdefault(str(task), []).append((int(step), float(mean)))
        return found


@dataclass(frozen=True, slots=True)
class EpochRow:
    """The pool as one merge left it. `step` is the last step before it; `retired` counts by rule."""

    number: int
    step: int
    originals: int
    generated: int
    injected: tuple[str, ...]
    retired: Counter[str]
    revived: int
    refused: int
    staged: int  # accepted and still waiting after this merge


@dataclass(frozen=True, slots=True)
class Variant:
    """An accepted variant. `seed` is what it was written from, `picked` the step of the pick; `injected` the last step
    before the merge that injected it, None while it waits."""

    task: AnyTask
    seed: str
    generation: int
    picked: int
    seed_mean: float | None  # the seed's mean reward at the pick
    injected: int | None


@dataclass(frozen=True, slots=True)
class History:
    """A whole run. `picks` counts seeds by task type; `failures` counts rejected candidates by (stage, error
    type); `labels` the turns of an epoch's rollouts by what became of them; `dynamics` and `updates` say by step how
    the turns went and what the update has shown, `versions` what the policy was shown, `difficulty` what the steps'
    drawn tasks came to, which are not among the `groups`."""

    name: str
    config: Config
    tasks: dict[str, AnyTask]
    groups: Groups
    epochs: tuple[EpochRow, ...]
    variants: dict[str, Variant]
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

    @property
    def authors(self) -> list[str]:
        """What wrote the accepted variants: models by their names, or `procedural`; in order."""
        return sorted({str(one.task.provenance.get("model", "?")) for one in self.variants.values()})


def read_history(path: Path) -> History:
    """Reads the run in `path`. Raises UserError when that is no run folder, CorruptLogError for a damaged log."""
    run = Run.open(path)
    state = RunState(run)
    played = _played(state)
    groups = played.columns(run.training)
    decisions = list(state.decisions())
    injected = {record["task"]: int(record["step"]) for record in decisions if record["kind"] == "injected"}
    seeds = list(state.records(SEEDS))
    return History(
        name=run.name,
        config=run.config,
        tasks={task.id: task for task in run.tasks},
        groups=groups,
        epochs=tuple(_epochs(decisions)),
        variants=_variants(state, groups, injected),
        picks=Counter(str(record.get("type", "?")) for record in seeds if record["kind"] == "picked"),
        failures=Counter((record["stage"], record["error"]) for record in state.records(REJECTED)),
        attempts=state.attempt,
        labels=played.labels(),
        dynamics={step: went for step, _, _, went in played.turns if went.turns},
        updates=played.updates,
        versions=tuple(played.versions.found),
        difficulty=tuple(played.difficulty),
        heldout=scored(path),
    )


class _Played:
    """What the live steps of a run hold, collected in one pass."""

    def __init__(self, config: Config) -> None:
        self.rows: list[tuple[Any, ...]] = []  # of groups that were counted or truncated
        self.turns: list[tuple[int, int, Counter[str], Dynamics]] = []  # step, epoch, labels, how they went
        self.updates: dict[int, Update] = {}
        self.versions = InterfaceVersions(config)
        self.difficulty: list[Faced] = []  # of steps with drawn tasks

    def columns(self, originals: Container[str]) -> Groups:
        columns = list(zip(*self.rows, strict=True)) if self.rows else [()] * 7
        return Groups(
            step=np.array(columns[0], dtype=np.int64),
            epoch=np.array(columns[1], dtype=np.int64),
            task=np.array(columns[2], dtype=np.str_),
            mean=np.array(columns[3], dtype=np.float64),
            variance=np.array(columns[4], dtype=np.float64),
            zone=np.array(columns[5], dtype=np.int64),
            generated=np.array([task not in originals for task in columns[2]], dtype=np.bool_),
            retest=np.array([role == "retest" for role in columns[6]], dtype=np.bool_),
        )

    def labels(self) -> dict[int, Counter[str]]:
        """Those of all turns, by epoch."""
        found: dict[int, Counter[str]] = {}
        for _, epoch, counts, _ in self.turns:
            if counts:
                found.setdefault(epoch, Counter()).update(counts)
        return found


def _played(state: RunState) -> _Played:
    found, tracker = _Played(state.run.config), state.tracker
    for step in state.steps():
        if tracker is not state.tracker:  # a start dropped steps while we read
            tracker = state.tracker
            found.rows = [row for row in found.rows if row[0] < step.step]
            found.turns = [one for one in found.turns if one[0] < step.step]
            found.updates = {at: update for at, update in found.updates.items() if at < step.step}
            found.difficulty = [one for one in found.difficulty if one.step < step.step]
        groups = step.groups
        found.turns.append((step.step, step.epoch, label_counts(step.records), dynamics(step.records)))
        found.versions.add(step, state.shown)
        found.updates |= _update(state)
        if (faced := state.difficulty.faced) is not None and faced.step == step.step:
            found.difficulty.append(faced)
        for group in (one for one in groups if one.role != "drawn"):
            measured = _measured(group, state.run.config.zones)
            if measured is not None:
                found.rows.append((step.step, step.epoch, group.task, *measured, group.role))
    found.updates |= _update(state)
    return found


def _update(state: RunState) -> dict[int, Update]:
    """The latest update that was read, by its step."""
    return {int(state.update["step"]): Update.from_json(state.update)} if state.update else {}


def _measured(group: Group, zones: Zones) -> tuple[float, float, int] | None:
    """Mean, variance and zone (an index into `ZONES`) of a group; None where it counts for no zone."""
    if group.reward in FORMAT_REWARDS:
        return None
    signal = group_signal(group, "progress")
    if signal.truncated:
        return float("nan"), float("nan"), ZONES.index("truncated")
    if signal.moments is None:
        return None
    return *signal.moments, ZONES.index(zone_of(signal.moments.mean, zones))


def _epochs(decisions: list[Record]) -> Iterator[EpochRow]:
    """One row an `epoch` record, from the decisions before it."""
    before: list[Record] = []
    for record in decisions:
        if record["kind"] != "epoch":
            before.append(record)
            continue
        counts = record["counts"]
        yield EpochRow(
            number=record["epoch"],
            step=record["step"],
            originals=counts["originals"],
            generated=counts["generated"],
            injected=tuple(each["task"] for each in before if each["kind"] == "injected"),
            retired=Counter(each["rule"] for each in before if each["kind"] == "retired"),
            revived=counts["revived"],
            refused=counts["refused"],
            staged=record["deferred"]["count"],
        )
        before = []


def _variants(state: RunState, groups: Groups, injected: dict[str, int]) -> dict[str, Variant]:
    """Every accepted variant that reads as a task, by id."""
    means, variants = groups.means(), {}
    for record in state.records(EXPANDED):
        try:
            task = AnyTask.from_json(record["task"])
        except ValueError:
            continue  # a merge refuses it with its reason
        seed = str(record["pick"]).partition("-")[2]
        at_pick = [mean for step, mean in means.get(seed, ()) if step <= record["step"]]
        variants[task.id] = Variant(
            task=task,
            seed=seed,
            generation=int(task.provenance.get("generation", 1)),
            picked=int(record["step"]),
            seed_mean=at_pick[-1] if at_pick else None,
            injected=injected.get(task.id),
        )
    return variants


def first_means(history: History) -> Floats:
    """The first counted mean of every injected variant that was rolled out."""
    means = history.groups.means()
    return np.array([means[task][0][1] for task in history.variants if task in means])


def delays_and_moves(history: History) -> tuple[Floats, Floats]:
    """Steps between pick and injection of every injected variant; and for each seed that was rolled out again after
    the injection, its mean reward then minus its mean at the pick."""
    means = history.groups.means()
    delays, moves = [], []
    for variant in history.variants.values():
        if variant.injected is None:
            continue
        delays.append(variant.injected - variant.picked)
        later = next((mean for step, mean in means.get(variant.seed, []) if step > variant.injected), None)
        if later is not None and variant.seed_mean is not None:
            moves.append(later - variant.seed_mean)
    return np.array(delays, dtype=float), np.array(moves, dtype=float)
