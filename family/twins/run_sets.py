"""Compares runs on the held-out tasks that they share, at their ends.

Runs whose configurations differ in random seeds alone are a set. Two sets are paired by random
seeds, and each pair over its tasks; the interval is over the pairs, where there are several.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.canonical import JsonObject, content_id, frozen, without
from rods.config import identity_diff
from rods.errors import UserError
from rods.evaluation.heldout import per_task, score_run
from rods.evaluation.scoring import estimate, paired, t_quantile

ENOUGH = 1_000  # random seeds beyond which a difference is taken for none
SEEDS = "random_seeds"


class PlayedRollouts:
    """How many rollouts the live steps of a run took, replaced ones too; read on at each call."""

    def __init__(self, run: Run) -> None:
        self._state = RunState(run, every_step=True)
        self._by_step: dict[int, int] = {}

    def total(self) -> int:
        for step in self._state.steps():
            self._by_step[step.step] = sum(len(group.rollouts) for group in step.groups)
        last = self._state.last_step
        return sum(count for step, count in self._by_step.items() if step <= last)


@frozen
class ScoredRun:
    """A run at its newest checkpoint: progress by held-out task."""

    run: Run
    step: int
    rollouts: int
    progress: dict[str, float]


RunSet = Mapping[str, ScoredRun]  # by random seeds


def scored_sets(folders: Sequence[Path]) -> list[RunSet]:
    """The sets of the runs in `folders`, in order; each run is scored at its end where it was not
    yet. Raises UserError where two runs are the same, and as `score_run` does."""
    sets: dict[str, dict[str, ScoredRun]] = {}
    for folder in folders:
        run = Run.open(folder)
        identity = without(run.config.identity(), SEEDS)
        if run.config.rollouts.refill:  # it ends when it has played enough
            identity["training"] = without(identity["training"], "steps")
        of_set = sets.setdefault(content_id(identity), {})
        seeds = content_id(run.config.identity()[SEEDS])
        if seeds in of_set:
            raise UserError(
                f"has the configuration and the random seeds of {of_set[seeds].run.path}",
                where=folder,
                remedy="name one of the two",
            )
        score = score_run(folder, "end")
        progress = per_task(Path(score["file"]))["progress"]
        of_set[seeds] = ScoredRun(run, score["step"], PlayedRollouts(run).total(), progress)
    return list(sets.values())


def described(runs: RunSet) -> JsonObject:
    """A set in figures."""
    entries = list(runs.values())
    return {
        "name": entries[0].run.name,
        "runs": [str(entry.run.path) for entry in entries],
        "rollouts": [entry.rollouts for entry in entries],
        "unfinished": sum(entry.step < entry.run.config.training.steps for entry in entries),
        "tasks": len(entries[0].progress),
        "progress": [fmean(entry.progress.values()) for entry in entries],
    }


def over(first: RunSet, other: RunSet) -> JsonObject:
    """What `first` gained over `other`. `needed`: with so many random seeds whose differences
    scatter like these the interval would leave out 0; None where no number below `ENOUGH` would, or
    one pair says nothing of it. Raises UserError where they share no random seeds, or no held-out
    task."""
    pairs = [(first[seeds], other[seeds]) for seeds in first if seeds in other]
    one, another = (next(iter(runs.values())).run for runs in (first, other))
    by_seed = []
    for new, old in pairs:
        if common := new.progress.keys() & old.progress.keys():
            before, after = ({task: run.progress[task] for task in common} for run in (old, new))
            by_seed.append(paired(before, after))
    if not by_seed:
        raise UserError(
            f"has no held-out task in common with {one.path} by the same random seeds",
            where=another.path,
            remedy=f"`rods twin {one.path}` makes what can be compared",
        )
    means = [each.mean for each in by_seed]
    found = estimate(means) if len(means) > 1 else by_seed[0]
    scatter = stdev(means) if len(means) > 1 else math.inf
    return {
        "set": another.name,
        "twin": (another.manifest.get("parent") or {}).get("twin", ""),
        "changes": [
            change
            for change in identity_diff(another.config.identity(), one.config.identity())
            if not change.startswith(SEEDS)
        ],
        "by_seed": means,
        "tasks": by_seed[0].tasks,
        "difference": found.as_json(),
        "needed": next(
            (
                count
                for count in range(2, ENOUGH)
                if t_quantile(count - 1) * scatter < abs(found.mean) * math.sqrt(count)
            ),
            None,
        ),
    }
