"""What becomes of held-out turns that need a house rule, in runs of the study of teaching (docs/teaching.md).

Claim: training makes the policy keep rules at its first call (*known*), rather than after refusals (*found*). Anchor:
the same turns at the start of these runs.
Command: `python -m bench.teaching_practice`, where runs of the study lie in runs/teaching_study; without any it has no
figure.

A turn counts where its ground truth minds a rule that the plain call breaks. Nothing is shown besides the world's own
answers; one sampled rollout a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.figures import Figure, run
from bench.nano_loop import by_condition
from bench.teaching_study import STUDY, played
from rods.episode.engine import Trace
from rods.evaluation.heldout import Which
from rods.tasks import AnyTask


def measure(quick: bool) -> list[Figure]:
    """Known and found turns of each condition (quick: of one random seed)."""
    figures: list[Figure] = []
    lines = by_condition(STUDY.recorded())
    for name in STUDY.conditions:
        paths = [path for seed in sorted(lines.get(name, {})) if (path := STUDY.path(name, seed)).exists()]
        paths = paths[: 1 if quick else None]
        if paths:
            for what, was, now in zip(("known", "found"), means(paths, "start"), means(paths, "end"), strict=True):
                figures.append(Figure(f"{name}: {what}, {len(paths)} runs", now, "", "at the start", was))
    return figures


def means(paths: Sequence[Path], which: Which) -> tuple[float, float]:
    found = [shares(played(path, which, greedy=False)) for path in paths]
    known, after = np.mean(found, axis=0)
    return float(known), float(after)


def shares(rollouts: Sequence[tuple[AnyTask, Trace]]) -> tuple[float, float]:
    """Of the turns that need a rule, the shares that went well without a refused call, and after one."""
    known = found = turns = 0
    for task, trace in rollouts:
        needed = {turn for turn, _ in task.provenance["rules"]}
        for number, turn in enumerate(trace.turns):
            if number in needed:
                turns += 1
                refused = any(result.error for step in turn.steps for result in step.results)
                if turn.verdict is not None and turn.verdict.resolved:
                    found, known = found + refused, known + (not refused)
        turns += sum(turn >= len(trace.turns) for turn in needed)  # never came to be played
    return known / turns, found / turns


if __name__ == "__main__":
    run(measure)
