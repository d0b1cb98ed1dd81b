"""Held-out progress of several runs of one data set: each run's end, and the first run over each of
the others, paired.

    python experiments/baselines/compare.py runs/rods runs/static_data …

Runs that have not been scored are scored now. The draws of a task are the same in every run, so
differences are paired. A single task has no interval; of runs without a common task no difference
is taken.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rods.console.output import estimated
from rods.evaluation.card import different
from rods.evaluation.heldout import per_task, score_run
from rods.evaluation.scoring import paired, share


def main(folders: list[Path]) -> int:
    scored = {folder: score_run(folder, "end") for folder in folders}
    ends = {folder: per_task(Path(found["file"]))["progress"] for folder, found in scored.items()}
    first, *others = folders
    for folder, scores in ends.items():
        print(
            f"{folder.name}: {estimated(share(list(scores.values())).as_json())} on {len(scores)} "
            f"held-out tasks"
        )
    for other in others:
        common = ends[first].keys() & ends[other].keys()
        if not common:
            print(
                f"{first.name} over {other.name}: no difference, they share no held-out task (is "
                f"[data] the same?)"
            )
            continue
        old, new = ({task: ends[folder][task] for task in common} for folder in (other, first))
        print(f"{first.name} over {other.name}: {estimated(paired(old, new).as_json(), '+')}")
        if fields := different(scored[first]["card"], scored[other]["card"]):
            print(f"  NOT ALIKE: the cards of the two scores differ in {', '.join(fields)}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    raise SystemExit(main([Path(folder) for folder in sys.argv[1:]]))
