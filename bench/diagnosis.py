"""Labels of turns against mistakes that are known, and against the errors of BFCL's own checker.

Claim: a scripted policy that makes one mistake an episode is given the label of that mistake, every time; and the
label of the first turn that fails agrees with the error that BFCL's checker names, through the table in
docs/diagnosis.md. Anchor: the mistake itself; the benchmark's checker. Command: `python -m bench.diagnosis`.
"""

from __future__ import annotations

import time
from collections import Counter

from bench.figures import Figure, run
from bench.fixtures.faulty_turns import FaultyTurns, played
from rods.environments.loading import Environments
from rods.episode.diagnosis import diagnose
from rods.faults import LABELS
from worlds.bfcl import tasks
from worlds.desk.generator import generate

FULL, QUICK = 2_500, 110  # episodes of each world
SEED = 20_261


def measure(quick: bool) -> list[Figure]:
    """The share of right labels in each world, with the confusion matrix; CPU time a label."""
    figures: list[Figure] = []
    for world in ("bfcl", "desk"):
        found, seconds = confusion(world, QUICK if quick else FULL, SEED)
        for line in table(found):
            print(f"  {world:5} {line}")
        right = sum(count for (told, label), count in found.items() if told == label)
        figures.append(Figure(f"{world}: mistakes labelled right", right / found.total(), "share", reach=1.0))
        figures.append(Figure(f"{world}: CPU time", 1000 * seconds / found.total(), "ms an episode"))
    return figures


def confusion(world: str, count: int, random_seed: int) -> tuple[Counter[tuple[str, str]], float]:
    """(mistake made, label given) over `count` episodes, and the seconds that diagnosis took. A turn before the mistake
    that has not succeeded by its label counts as a mistake of its own: (`pass`, its label)."""
    environment = Environments().load(world)
    known = tasks() if world == "bfcl" else generate(random_seed, 200, 1)
    episodes = list(FaultyTurns(environment, [one for one in known if one.split == "train"], random_seed).take(count))
    found: Counter[tuple[str, str]] = Counter()
    seconds = 0.0
    for episode, trace in zip(episodes, played(environment, episodes), strict=True):
        began = time.process_time()
        labels = diagnose(trace, episode.task, environment)
        seconds += time.process_time() - began
        found[episode.label, labels[episode.turn]] += 1
        for calls, label in zip(episode.task.calls[: episode.turn], labels, strict=False):
            if label != ("pass" if calls else "correct_abstention"):
                found["pass", label] += 1
    return found, seconds


def table(found: Counter[tuple[str, str]]) -> list[str]:
    """The confusion matrix: a line a mistake, the labels that it was given with their counts."""
    return [
        f"{made:26}" + ", ".join(f"{given} {found[made, given]}" for given in LABELS if found[made, given])
        for made in LABELS
        if any(found[made, given] for given in LABELS)
    ]


if __name__ == "__main__":
    run(measure)
