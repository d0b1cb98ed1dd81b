"""Turns in which no call is right: how many of them ask for something that can be done in them.

Claim: none of a variant's does by default; without `gates.fair_blanks` no larger share than of
BFCL's own. Anchor: BFCL's own miss_func and miss_param tasks, written by people. Command: `python
-m bench.blanks`.

One rule judges all of them (`unfair`). Left out are turns of which it finds nothing that they lack,
since nobody can tell what could be done in them: people say a value in other words than the call
has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import Figure, run
from bench.gates import accepted
from rods.config import Config
from rods.environments.base import Environment, Results
from rods.environments.loading import Environments
from rods.gates.ground_truth import run as replayed
from rods.gates.missing import AbstentionTurn
from rods.tasks import Task, TaskType
from rods.worlds import desk
from rods.worlds.bfcl import tasks

load = Environments().load

TYPES: tuple[TaskType, ...] = ("miss_func", "miss_param")
# variants of each environment and configuration
FULL = 300
QUICK = 16


def measure(quick: bool) -> list[Figure]:
    """The share of such turns by type: originals, variants by default, and variants written without
    the rule."""
    size = QUICK if quick else FULL
    free = Config.model_validate({"gates": {"fair_blanks": False}})
    figures = []
    for name in ("bfcl", "desk"):
        originals = tasks() if name == "bfcl" else desk.generate(7, 4 * size, 0)
        variants = accepted(name, size, types=TYPES)
        others = accepted(name, size, free, types=TYPES)
        for type in TYPES:
            anchor = f"{name}'s own tasks"
            own = _share(name, originals, type)
            for what, found in (("", variants), (" without fair_blanks", others)):
                claim = f"{name}: unfair turns of {type} variants{what}"
                reach = own[0] if what else 0
                share, known, turns = _share(name, found, type)
                counted = f"share of {known} of {turns}"
                figures.append(
                    Figure(
                        claim,
                        share,
                        counted,
                        f"{anchor}, {own[1]} of {own[2]}",
                        own[0],
                        reach=reach,
                        higher=False,
                    )
                )
    return figures


def _share(name: str, found: Sequence[Task], type: TaskType) -> tuple[float, int, int]:
    """The share of the known turns without calls, how many are known, and how many there are."""
    world = load(name)
    turns = [
        each
        for task in found
        if task.type == type
        for each in unfair(world, task, replayed(world, task))
    ]
    known = [each for each in turns if each is not None]
    return sum(known) / max(1, len(known)), len(known), len(turns)


def unfair(environment: Environment, task: Task, results: Results) -> list[bool | None]:
    """For each turn without calls whether something that it asks for can be done in it; None where
    nothing is found that it lacks, so that nobody can tell."""
    unfair_turns: list[bool | None] = []
    for turn, calls in enumerate(task.calls):
        if not calls and turn + 1 < len(task.calls) and task.calls[turn + 1]:
            served = AbstentionTurn(environment, task, results, turn + 1)
            unfair_turns.append(bool(served.possible()) if served.lacking else None)
    return unfair_turns


if __name__ == "__main__":
    run(measure)
