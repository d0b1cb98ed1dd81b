"""Initial states: a fresh one for a plan, and the repair of one in which a call failed (004 Appendix F)."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any

from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError, Plan
from rods.faults import PATCHABLE
from rods.tasks import Task


def fresh_state(catalogue: Catalogue, plan: Plan, seed: Task | None, rng: random.Random) -> dict[str, Any]:
    """A new initial state in which `plan` has a fair chance, with other names, numbers and contents than the seed's.
    Raises ComposeError("func_sample_failed") for a recipe that the catalogue does not know."""
    names = [name for turn in plan.turns for name in turn.recipes]
    for name in names:
        if name not in catalogue.recipes:
            raise ComposeError("func_sample_failed", f"no recipe {name!r}", function=name)
    avoid = None if seed is None else seed.state
    return catalogue.make_state([catalogue.recipes[name] for name in names], avoid, plan.narrative, rng)


def repair(
    catalogue: Catalogue, state: Mapping[str, Any], error: ComposeError, rng: random.Random
) -> dict[str, Any] | None:
    """`state` patched so that what failed may succeed, or None when the error is no matter of state or nothing is known
    to help. Realise the plan again with the *same* choices (a generator made anew from the same key): the patch is cut
    to the call that failed."""
    patch = catalogue.patch(state, error, rng) if error.type in PATCHABLE else None
    return deep_merge(state, patch) if patch else None


def deep_merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `base` with `patch` merged in. Where `base` holds an object, only an object is merged; anything else in
    the patch is dropped there, so that a summary cannot replace a whole branch of the world."""
    merged = copy.deepcopy(dict(base))
    for key, value in patch.items():
        old = merged.get(key)
        if not isinstance(old, dict):
            merged[key] = copy.deepcopy(value)
        elif isinstance(value, Mapping):
            merged[key] = deep_merge(old, value)
    return merged
