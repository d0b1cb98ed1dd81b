"""What a report knows of a run: plain columns, folded once from the logs. Nothing here draws or prints.

Only what is live counts: a restart of the trainer takes back the steps and epochs beyond its checkpoint (DESIGN §4).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rods.config import Config
from rods.tasks import Task

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Groups:
    """One entry a group, in order. `mean` and `variance` are of the progress reward over valid rollouts in [0, 1] (NaN
    for a truncated group), `zone` indexes `ZONES`, `generated` says whether the task is a variant."""

    step: Integers
    epoch: Integers
    task: NDArray[np.str_]
    mean: Floats
    variance: Floats
    zone: Integers
    generated: Flags
    retest: Flags

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True)
class EpochRow:
    """The pool as one merge left it. `step` is the last step before it; `retired` counts by rule."""

    number: int
    step: int
    originals: int
    generated: int
    injected: tuple[str, ...]
    retired: Counter[str]
    revived: int
    refused: int
    staged: int  # accepted and still waiting after this merge


@dataclass(frozen=True, slots=True)
class Variant:
    """An accepted variant. `seed` is what it was written from, `picked` the step of the pick; `injected` the last step
    before the merge that injected it, None while it waits."""

    task: Task
    seed: str
    root: str
    generation: int
    picked: int
    seed_mean: float | None  # the seed's mean reward at the pick
    injected: int | None


@dataclass(frozen=True, slots=True)
class History:
    """A whole run. `picks` counts seeds by task type; `failures` counts rejected candidates by (stage, error type);
    `finished` counts picks by outcome."""

    name: str
    config: Config
    tasks: dict[str, Task]
    groups: Groups
    epochs: tuple[EpochRow, ...]
    variants: dict[str, Variant]
    picks: Counter[str]
    failures: Counter[tuple[str, str]]
    finished: Counter[str]
    attempts: int
    heldout: dict[str, Any] | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def simulated(self) -> bool:
        """Whether the policy has no weights: such a run shows how the loop works, never that the method helps."""
        return self.config.policy.kind == "simulated"
