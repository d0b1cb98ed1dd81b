"""What becomes of turns that need a house rule, and how training goes, in runs of the study of
teaching (docs/teaching.md).

Claim: training makes the policy keep rules at its first call (*known*), rather than after refusals
(*found*). Anchor: the same turns at the start of these runs. Of training: mean progress of each
quarter of the steps, of all tasks and of those in which a turn's tool is missing at first. Anchor:
static data's quarters. Command: `python -m bench.teaching_practice`, where runs of the study lie in
runs/teaching_study; without any it has no figure.

A held-out turn counts where its ground truth minds a rule that the plain call breaks. Nothing is
shown besides the world's own answers; one sampled rollout a task. A *right guess* is a call that is
not refused, right after the turn's first refused one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from bench.figures import Figure, run
from bench.nano_loop import by_condition
from bench.teaching_study import STUDY, played
from rods.buffers.run import runfolder
from rods.buffers.run.run import Run
from rods.buffers.state import RunState, read_state
from rods.episode.engine import Trace
from rods.tasks import AnyTask

PARTS = 4  # of a run's steps
SHARES = ("known", "found", "right guesses")


def measure(quick: bool) -> list[Figure]:
    """Held-out turns and training's progress of each condition (quick: of one random seed)."""
    figures: list[Figure] = []
    lines = by_condition(STUDY.recorded())
    static: dict[str, float] = {}
    for name in STUDY.conditions:
        seeds = [
            seed for seed in sorted(lines.get(name, {})) if runfolder.exists(STUDY.path(name, seed))
        ]
        seeds = seeds[: 1 if quick else None]
        if not seeds:
            continue
        now = np.mean(
            [shares(played(STUDY.path(name, seed), "end", greedy=False)) for seed in seeds], axis=0
        )
        was = np.mean([at_start(STUDY.path(begun_as(name), seed)) for seed in seeds], axis=0)
        for what, at_end, before in zip(SHARES, now, was, strict=True):
            figures.append(
                Figure(
                    f"{name}: {what}, {len(seeds)} runs", float(at_end), "", "at the start", before
                )
            )
        trained = [trained_progress(STUDY.path(name, seed)) for seed in seeds]
        for what in trained[0]:
            mean = float(np.mean([found[what] for found in trained if what in found]))
            static.setdefault(what, mean)
            figures.append(
                Figure(f"{name}: {what}, {len(seeds)} runs", mean, "", STUDY.anchor, static[what])
            )
    return figures


def begun_as(name: str) -> str:
    """The condition whose runs have the same policies and held-out tasks at their start: these are
    played once."""
    one = STUDY.configuration(name, 1)["data"] == STUDY.configuration(STUDY.anchor, 1)["data"]
    return STUDY.anchor if one else name


@cache
def at_start(path: Path) -> tuple[float, float, float]:
    return shares(played(path, "start", greedy=False))


def shares(rollouts: Sequence[tuple[AnyTask, Trace]]) -> tuple[float, float, float]:
    """Of the turns that need a rule, the shares that went well without a refused call, and after
    one; of those with a call after the first refused one, the share in which that call is not
    refused."""
    known = found = turns = guesses = right = 0
    for task, trace in rollouts:
        needed = {turn for turn, _ in task.provenance["rules"]}
        for number, turn in enumerate(trace.turns):
            if number in needed:
                turns += 1
                refused = [bool(result.error) for step in turn.steps for result in step.results]
                if turn.verdict is not None and turn.verdict.resolved:
                    found = found + any(refused)
                    known = known + (not any(refused))
                if True in refused[:-1]:
                    guesses = guesses + 1
                    right = right + (not refused[refused.index(True) + 1])
        turns += sum(turn >= len(trace.turns) for turn in needed)  # never came to be played
    return known / turns, found / turns, right / max(1, guesses)


def trained_progress(path: Path) -> dict[str, float]:
    """Mean progress in training, by part of the steps and of tasks."""
    opened = Run.open(path)
    state = read_state(opened)
    found = defaultdict[str, list[float]](list)
    for step in RunState(opened).steps():
        part = (step.step - 1) * PARTS // opened.config.training.steps
        for group in step.groups:
            progress = [rollout.resolved / rollout.expected for rollout in group.rollouts]
            found[f"training progress in quarter {part + 1}"] += progress
            if state.task(group.task).type == "miss_func":
                found[f"training progress in quarter {part + 1}, miss_func"] += progress
    return {what: float(np.mean(values)) for what, values in sorted(found.items())}


if __name__ == "__main__":
    run(measure)
