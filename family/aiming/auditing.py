"""Derives again from the logs where every pick aims, and with `replay` from calls whether its variants went there.

Where selection reads groups, a pick's mean is that of its task in the closed step, of whichever attempt; where it reads
windows (`zones.probe`, `selection.order`, `selection.candidates`), the mean on record is taken as it is.
"""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rods.analysis.profile import isomorphic, profile
from rods.buffers.audit.rederivation import Findings
from rods.buffers.log.tail import Tail, read
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.extension import aim_words
from rods.family.aiming.operators import faults
from rods.family.aiming.picking import Directions
from rods.observations import Group
from rods.rules.selection import reads_windows, signals
from rods.tasks import AnyTask, Task


def verify(run: Run, findings: Findings, *, replay: bool) -> None:
    """Tells `findings` of picks and variants whose direction or operator does not follow, and with `replay` of variants
    that do not lie on the side of their seed that they name."""
    config: Any = run.config
    directions, means = Directions(config), _means(run)
    tasks: dict[str, AnyTask] = {task.id: task for task in run.tasks}
    written: list[tuple[str, AnyTask]] = []  # pick, variant
    for record in read(run.path / runfolder.EXPANDED):
        with suppress(ValueError):  # the merge refuses it
            written.append((record["pick"], AnyTask.from_json(record["task"])))
    tasks |= {variant.id: variant for _, variant in written}
    picked: dict[str, Mapping[str, Any]] = {}
    for record in read(run.path / runfolder.SEEDS):
        if record["kind"] != "picked" or record["task"] not in tasks:
            continue
        picked[record["pick"]] = record
        where, why, step = f"{runfolder.SEEDS}, record {record['seq']}", record["why"], record["step"]
        findings.count("aims")
        mean, known = why.get("mean"), None if means is None else means[step, record["task"]]
        if known is not None and mean not in known:
            findings.problem(where, f"says the mean {mean}, and the step's groups give {sorted(known)}")
        if why.get("aim") != (derived := directions.aim(step, tasks[record["task"]], mean)):
            findings.problem(where, f"aims at {why.get('aim')}, and the mean {mean} gives {derived}")
    for pick, variant in written:
        seed = tasks[picked[pick]["task"]] if pick in picked else None
        if not isinstance(variant, Task) or not isinstance(seed, Task):
            continue
        where, wanted = f"variant {variant.id}", picked[pick]["why"].get("aim") or {}
        made = variant.provenance.get("aim") or {}
        operator = made.get("operator")
        if made.get("direction") != wanted.get("direction") or operator not in wanted.get("operators", [None]):
            findings.problem(where, f"went {aim_words(variant.provenance) or 'nowhere'}, and its pick aims at {wanted}")
        elif replay:
            findings.count("aims held to their calls")
            try:
                world = run.environments.load(variant.environment.name)
                before, after = profile(world, seed), profile(world, variant)
            except (KeyError, ValueError) as error:
                findings.problem(where, f"its calls cannot be held against its seed's: {error}")
                continue
            alike = isomorphic(before, after, config.gates)
            for fault in alike if operator is None else faults(operator, config.aiming, before, after):
                findings.problem(where, fault)


def _means(run: Run) -> Mapping[tuple[int, str], set[float]] | None:
    """The means of each step and task, one an attempt; None where selection reads windows."""
    if reads_windows(run.config):
        return None
    means = defaultdict[tuple[int, str], set[float]](set)
    for closing, records in Tail(run.path / runfolder.OBSERVATIONS, strict=True).groups():
        groups = (Group.from_json(record) for record in records if record["kind"] == "group")
        for signal in signals(groups, run.config.selection):
            if signal.moments is not None:
                means[closing["step"], signal.task].add(signal.moments.mean)
    return means
