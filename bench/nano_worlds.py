"""Do variants pay in generated worlds? nano on scenarios of worlds drawn by chance, scored in
worlds that it never saw.

Claim: with RODS, GRPO gains more held-out progress than the same steps on the originals alone.
Anchor: the condition *static tasks* of experiments/worlds/conditions.toml: the same worlds,
originals, steps, rollouts and draws, and no variants. Command: `python -m bench.nano_worlds` (both
conditions, ten random seeds, two runs at a time), with the options of `python -m bench.nano_loop`,
whose runs it makes.

Every random seed has worlds of its own (`rods env generate --small`): those that are trained in,
and as many whose scenarios are held out. All runs begin with one warm-started policy, which has
seen other worlds of the same topics. Differences are paired by random seed, with intervals of 95 %
(Student's t).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.nano_loop import ROOT, RUNS, Line, Study, Values, by_condition, main, measured, signed
from rods.buffers.audit.verify import verify
from rods.evaluation.scoring import estimate
from rods.family.environments.demonstrations import REQUESTS, TOPICS
from rods.family.environments.verbs import generate_worlds

# of one random seed; held-out ones among them; scenarios drawn in each
WORLDS = 12
HELD_OUT = 6
SCENARIOS = 8
DRAWING = threading.Lock()


class WorldStudy(Study):
    """One whose random seeds have worlds, too: their tasks are those of one file a seed."""

    def configuration(
        self, name: str, seed: int, more: Mapping[str, Values] | None = None
    ) -> Values:
        values = super().configuration(name, seed, more)
        return {**values, "data": {**values["data"], "tasks": f"tasks-{seed}.jsonl"}}


STUDY = WorldStudy(ROOT / "experiments" / "worlds", "nano_worlds")


def draw_worlds(folder: Path, name: str, seed: int) -> None:
    """Draws the worlds of a random seed into `folder`, their tasks into the file `name`, where that
    is not there."""
    with DRAWING:
        if not (folder / name).exists():
            generate_worlds(
                folder,
                worlds=WORLDS,
                scenarios=SCENARIOS,
                requests=max(REQUESTS),
                held_out=HELD_OUT,
                topics=TOPICS,
                small=True,
                random_seed=seed,
            )
            (folder / "tasks.jsonl").rename(folder / name)


def measured_in_worlds(path: Path, condition: str, seed: int, values: Values) -> Line:
    """As `measured`, after the worlds of this random seed were drawn; then every decision and every
    variant of the run is derived again. Raises RuntimeError where one is not the same."""
    folder = Path.cwd()
    draw_worlds(folder, values["data"]["tasks"], seed)
    line = measured(folder / path.name, condition, seed, values)
    found = verify(folder / path.name, replay=True)
    if not found.ok:
        raise RuntimeError(f"{path.name}: {'; '.join(map(str, found.problems))}")
    return {**line, "replayed": found.counts.get("variants replayed", 0)}


def table(lines: Sequence[Line], study: Study) -> Iterator[str]:
    """Held-out progress at start and end, and what the gain comes from, as Markdown."""
    if not lines:
        return
    by_name = by_condition(lines)
    columns = ["condition", "seeds", "start", "end", "gained", "RODS over it", "groups that vary"]
    columns += ["variants written", "injected", "retired", "replayed"]
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for name in study.conditions:
        if not (mine := by_name.get(name)):
            continue
        anchor = by_name.get(study.anchor, {})
        every = list(mine.values())
        over = [
            anchor[seed]["end"]["all"] - line["end"]["all"]
            for seed, line in sorted(mine.items())
            if seed in anchor
        ]
        cells = [
            name,
            str(len(every)),
            *(f"{_mean(line[which]['all'] for line in every):.3f}" for which in ("start", "end")),
            signed(estimate([line["end"]["all"] - line["start"]["all"] for line in every])),
            signed(estimate(over)) if over and name != study.anchor else "",
            f"{_mean(line['varied'] for line in every):.0%}",
            *(
                f"{_mean(line['variants'][what] for line in every):.0f}"
                for what in ("accepted", "injected")
            ),
            f"{_mean(sum(line['variants']['retired'].values()) for line in every):.0f}",
            f"{_mean(line['replayed'] for line in every):.0f}",
        ]
        yield f"| {' | '.join(cells)} |"


def _mean(values: Iterator[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


if __name__ == "__main__":
    (RUNS / "nano_worlds").mkdir(parents=True, exist_ok=True)
    os.chdir(RUNS / "nano_worlds")  # a generated world is looked for from the current folder
    main(STUDY, table, quick=("RODS", "static tasks"), train=measured_in_worlds)
