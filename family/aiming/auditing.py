"""Derives again from the logs where every pick aims, and with `replay` from calls whether its
variants went there.

Where selection reads groups, a pick's mean is that of its task in the closed step, of whichever
attempt; where it reads windows (`zones.probe`, `selection.order`, `selection.candidates`), the mean
on record is taken as it is.
"""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rods.analysis.profile import isomorphic, profile
from rods.buffers.audit.rederivation import Findings
from rods.buffers.log.record_bytes import group_of
from rods.buffers.log.tail import Tail, read
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.family.aiming.operators import faults
from rods.family.aiming.picking import Directions
from rods.rules.selection import reads_windows, signals
from rods.tasks import AnyTask, Task


def verify(run: Run, findings: Findings, *, replay: bool) -> None:
    """Tells `findings` of picks and variants whose direction or operator does not follow, and with
    `replay` of variants that do not lie on the side of their seed that they name."""
    config: Any = run.config
    directions = Directions(config)
    means = _means(run)
    written: list[tuple[str, AnyTask]] = []  # pick, variant
    for record in read(run.path / runfolder.EXPANDED):
        with suppress(ValueError):  # the merge refuses it
            written.append((record["pick"], AnyTask.from_json(record["task"])))
    tasks = {task.id: task for task in (*run.tasks, *(variant for _, variant in written))}
    aims: dict[str, tuple[AnyTask, dict[str, Any]]] = {}  # seed, where its variants go; by pick
    for record in read(run.path / runfolder.SEEDS):
        if record["kind"] != "picked" or record["task"] not in tasks:
            continue
        where = f"{runfolder.SEEDS}, record {record['seq']}"
        why = record["why"]
        step = record["step"]
        findings.count("aims")
        seed = tasks[record["task"]]
        mean = why.get("mean")
        if means is not None and mean not in (known := means[step, seed.id]):
            findings.problem(
                where, f"says the mean {mean}, and the step's groups give {sorted(known)}"
            )
        if why.get("aim") != (derived := directions.aim(step, seed, mean)):
            findings.problem(
                where, f"aims at {why.get('aim')}, and the mean {mean} gives {derived}"
            )
        aims[record["pick"]] = seed, derived or {}
    for pick, variant in written:
        if pick not in aims or not isinstance(variant, Task):
            continue
        (seed, aim) = aims[pick]
        where = f"variant {variant.id}"
        made = variant.provenance.get("aim")
        ways = [
            {"direction": aim["direction"], "operator": operator}
            for operator in aim.get("operators", ())
        ]
        if made not in (ways or [aim]):
            findings.problem(where, f"went {made}, and its pick aims at {aim}")
        elif replay and isinstance(seed, Task):
            findings.count("aims held to their calls")
            try:
                world = run.environments.load(variant.environment.name)
                before = profile(world, seed)
                after = profile(world, variant)
                told = isomorphic(before, after, config.gates)
                if ways:
                    told = faults(made["operator"], config.aiming, before, after)
            except (KeyError, ValueError) as error:
                told = [f"its calls cannot be held against its seed's: {error}"]
            for fault in told:
                findings.problem(where, fault)


def _means(run: Run) -> Mapping[tuple[int, str], set[float]] | None:
    """The means of each step and task, one an attempt; None where selection reads windows."""
    if reads_windows(run.config):
        return None
    means = defaultdict[tuple[int, str], set[float]](set)
    for closing, records in Tail(run.path / runfolder.OBSERVATIONS, strict=True).groups():
        groups = (group_of(record) for record in records if record["kind"] == "group")
        for signal in signals(groups, run.config.selection):
            if signal.moments is not None:
                means[closing["step"], signal.task].add(signal.moments.mean)
    return means
