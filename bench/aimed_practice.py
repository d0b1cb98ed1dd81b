"""What runs of the study of aiming have practised, beside what they have gained (docs/study.md).

Claim: the more different tasks with the longest chains go well in training, the more the hopeless
region of the held-out tasks gains. Anchor: static data's runs of the same setting and random seeds.
Command: `python -m bench.aimed_practice --setting "desk, 240 steps, Muon"`, where runs of the
setting still lie in runs/aimed_study; without any it has no figure.

A task's chain is the longest turn of its ground truth, in calls, three and more as one. Of each
condition: how many different tasks were rolled out, by chain; in how many of them a turn of that
length went well at least once, by the labels of turns; over all runs, how that goes with the gain.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from bench.aimed_study import STUDY, gain
from bench.figures import Figure, run
from bench.nano_loop import by_condition
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.state import RunState, read_state
from rods.tasks import scripted

LONGEST = 3  # calls of a turn; longer ones count as these


def measure(quick: bool, setting: str = "desk, 240 steps, Muon") -> list[Figure]:
    """Different tasks, by the longest turn (quick: of one random seed)."""
    figures: list[Figure] = []
    went_well = list[int]()
    gained = list[float]()
    lines = by_condition(STUDY.recorded())
    static: dict[str, float] = {}
    for name in (name for name in STUDY.conditions if name.startswith(f"{setting}: ")):
        found: dict[str, list[int]] = defaultdict(list)
        for seed, line in sorted(lines.get(name, {}).items())[: 1 if quick else None]:
            path = STUDY.path(name, seed)
            if not runfolder.exists(path):
                continue
            met, well = practised(path)
            for chain in range(1, LONGEST + 1):
                found[f"tasks whose longest turn has {chain} calls"].append(len(met[chain]))
                found[f"tasks in which a turn of {chain} calls went well"].append(len(well[chain]))
            went_well.append(len(well[LONGEST]))
            gained.append(gain(line, "hopeless"))
        for what, counts in found.items():
            mean = float(np.mean(counts))
            static.setdefault(what, mean)
            figures.append(Figure(f"{name}: {what}", mean, "", "static data", static[what]))
        if found:
            figures.append(Figure(f"{name}: runs", len(counts), ""))
    if len(went_well) > 2:
        together = float(np.corrcoef(went_well, gained)[0, 1])
        claim = f"correlation of the latter with the hopeless region's gain, of {len(gained)} runs"
        figures.append(Figure(claim, together, "", reach=0.5))
    return figures


def practised(path: Path) -> tuple[dict[int, set[str]], dict[int, set[str]]]:
    """The tasks that a run has rolled out by their longest turn, and those in which a turn of a
    length went well."""
    opened = Run.open(path)
    state = read_state(opened)
    met = defaultdict[int, set[str]](set)
    well = defaultdict[int, set[str]](set)
    for step in RunState(opened).steps():
        for group in step.groups:
            calls = [
                min(LONGEST, len(turn))
                for turn in scripted(state.task(group.task), "this study").calls
            ]
            met[max(calls)].add(group.task)
            for rollout in group.rollouts:
                for length, label in zip(calls, rollout.labels or (), strict=False):
                    if label == "pass":
                        well[length].add(group.task)
    return met, well


if __name__ == "__main__":
    run(measure, setting="a setting of experiments/aimed/conditions.toml")
