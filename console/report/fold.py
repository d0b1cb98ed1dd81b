"""Folds a run folder into a `History`: one pass over each log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from buffers.folds.observations import Observations
from buffers.log.records import Record
from buffers.log.tail import read
from buffers.run.run import Run
from console.progress import outcome
from console.report.history import EpochRow, Groups, History, Variant
from evaluation.heldout import scored
from rods.config import Zones
from rods.observations import FORMAT_REWARDS, Group
from rods.rules.zones import ZONES, group_signal, zone_of
from rods.runfolder import EXPANDED, POOL, REJECTED, SEEDS
from rods.tasks import Task


def fold(path: Path) -> History:
    """The history of the run in `path`. Raises UserError when that is no run folder, CorruptLogError for a bad log."""
    run = Run.open(path)
    observations = Observations(run)
    groups = _groups(run, observations)
    decisions = list(_live(run, observations))
    injected = {record["task"]: int(record["step"]) for record in decisions if record["kind"] == "injected"}
    seeds = list(read(path / SEEDS))
    return History(
        name=run.name,
        config=run.config,
        tasks={task.id: task for task in run.tasks},
        groups=groups,
        epochs=tuple(_epochs(decisions)),
        variants=_variants(path, groups, injected),
        picks=Counter(str(record.get("type", "?")) for record in seeds if record["kind"] == "picked"),
        failures=Counter((record["stage"], record["error"]) for record in read(path / REJECTED)),
        finished=Counter(outcome(record) for record in seeds if record["kind"] == "finished"),
        attempts=observations.attempt,
        heldout=scored(path),
    )


def _groups(run: Run, observations: Observations) -> Groups:
    """One row a live group that was counted or truncated."""
    originals = run.training
    tracker = observations.tracker
    rows: list[tuple[Any, ...]] = []
    for step in observations.steps():
        if tracker is not observations.tracker:  # a start dropped steps while we read
            tracker = observations.tracker
            rows = [row for row in rows if row[0] < step.step]
        for group in step.groups:
            found = _reading(group, run.config.zones)
            if found is not None:
                rows.append((step.step, step.epoch, group.task, *found, group.task not in originals, group.role))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 8
    return Groups(
        step=np.array(columns[0], dtype=np.int64),
        epoch=np.array(columns[1], dtype=np.int64),
        task=np.array(columns[2], dtype=np.str_),
        mean=np.array(columns[3], dtype=np.float64),
        variance=np.array(columns[4], dtype=np.float64),
        zone=np.array(columns[5], dtype=np.int64),
        generated=np.array(columns[6], dtype=np.bool_),
        retest=np.array([role == "retest" for role in columns[7]], dtype=np.bool_),
    )


def _reading(group: Group, zones: Zones) -> tuple[float, float, int] | None:
    """Mean, variance and zone of a group; None for one that says nothing about the boundary."""
    if group.reward in FORMAT_REWARDS:
        return None
    signal = group_signal(group, "progress")
    if signal.truncated:
        return float("nan"), float("nan"), ZONES.index("truncated")
    if signal.moments is None:
        return None
    return *signal.moments, ZONES.index(zone_of(signal.moments.mean, zones))


def _live(run: Run, observations: Observations) -> Iterator[Record]:
    """The records of pool.jsonl that belong to live epochs."""
    for record in read(run.path / POOL):
        if observations.lineage.live(record["attempt"], record["step"]):
            yield record


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


def _variants(path: Path, groups: Groups, injected: dict[str, int]) -> dict[str, Variant]:
    """Every accepted variant that reads as a task, by id."""
    means: dict[str, list[tuple[int, float]]] = {}
    for task, step, mean in zip(groups.task, groups.step, groups.mean, strict=True):
        if not np.isnan(mean):
            means.setdefault(str(task), []).append((int(step), float(mean)))
    variants = {}
    for record in read(path / EXPANDED):
        try:
            task = Task.from_json(record["task"])
        except ValueError:
            continue  # a merge refuses it with its reason
        seed = str(record["pick"]).partition("-")[2]
        at_pick = [mean for step, mean in means.get(seed, ()) if step <= record["step"]]
        variants[task.id] = Variant(
            task=task,
            seed=seed,
            root=str(task.provenance.get("root", seed)),
            generation=int(task.provenance.get("generation", 1)),
            picked=int(record["step"]),
            seed_mean=at_pick[-1] if at_pick else None,
            injected=injected.get(task.id),
        )
    return variants
