"""How different variants are from each other: in calls, functions, openings, words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from rods.canonical import JsonObject
from rods.tasks import AnyTask

WORD = re.compile(r"\w+")
OPENING = 3  # words that a conversation opens with
ENOUGH = 10  # variants below which a share of them says nothing
FEW = 1 / 3  # patterns or openings to a variant, below which they are few


def variety(generations: Mapping[int, Sequence[AnyTask]], offered: Iterable[str]) -> JsonObject:
    """By generation of variants: how many there are, `patterns` of functions called in a row,
    `openings` (the first words), and `alike`, the mean share (0 to 1) of words that a variant has
    in common with the nearest other of all generations, of those that either has. `unused`: those
    of the `offered` functions that none calls. `advice`: what to do about few."""
    tasks = [task for of_generation in generations.values() for task in of_generation]
    words = {task.id: frozenset(WORD.findall(" ".join(task.texts).lower())) for task in tasks}
    nearest = _nearest(words)
    rows = {
        str(generation): {
            "variants": len(variants),
            "patterns": len({tuple(call.name for call in task.goal_calls) for task in variants}),
            "openings": len({tuple(task.texts[0].split()[:OPENING]) for task in variants}),
            "alike": fmean(nearest[task.id] for task in variants),
        }
        for generation, variants in sorted(generations.items())
    }
    remedies = {
        "patterns": "give tasks of other shapes, whose variants keep them, or recipes of other "
        "calls",
        "openings": "give recipes more `phrases` and `leads` (docs/composing.md), or have a model "
        "write",
    }
    return {
        "generations": rows,
        "unused": sorted({*offered}.difference(call.name for t in tasks for call in t.goal_calls)),
        "advice": [
            f"variants are alike: {row[what]} {what} in {row['variants']} of generation "
            f"{generation} → {remedy}"
            for generation, row in rows.items()
            for what, remedy in remedies.items()
            if row["variants"] >= ENOUGH and row[what] < FEW * row["variants"]
        ],
    }


def _nearest(words: Mapping[str, frozenset[str]]) -> dict[str, float]:
    """Of each text the highest share of words that it has in common with another one."""
    nearest = dict.fromkeys(words, 0.0)
    for (own, mine), (other, theirs) in combinations(words.items(), 2):
        shared = len(mine & theirs)
        share = shared / max(1, len(mine) + len(theirs) - shared)
        nearest[own] = max(nearest[own], share)
        nearest[other] = max(nearest[other], share)
    return nearest
