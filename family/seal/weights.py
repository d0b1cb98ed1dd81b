"""SEAL's weights of rollouts, an advantage hook (002 §3.4, eq. 10–12).

`training.advantage_hook = "rods.family.seal.weights:seal"` multiplies the advantage of each rollout
by

    w = clip(Σ p(z)·ρ(z), 0.5, 2)

where p(z) is the share of its turns with the label z (rods/episode/diagnosis.py), and ρ(z) how much
is to be learnt from such a turn. With these ρ, which lie between 0.6 and 2, the clip never binds.
Other values make a hook of your own (`weighted`, docs/training.md)."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from rods.errors import UserError
from rods.faults import LABELS, Label
from rods.files import module_table
from rods.trainer.advantages import AdvantageEstimate, Array, Hook

UTILITY: Mapping[str, float] = MappingProxyType(module_table(__file__))
# 002 Appendix C.2
LOWEST = 0.5
HIGHEST = 2.0
_WHERE = "training.advantage_hook"


def weight(labels: Sequence[Label], utility: Mapping[str, float] = UTILITY) -> float:
    """w of a rollout, in [LOWEST, HIGHEST]; 1 where none of its turns has a label, which says
    nothing about it."""
    if not labels:
        return 1.0
    total = math.fsum(count * utility[label] for label, count in Counter(labels).items())
    return min(HIGHEST, max(LOWEST, total / len(labels)))


def weighted(**changes: float) -> Hook:
    """A hook with these values of ρ instead of SEAL's. Raises UserError for an unknown label, and
    for a value that is negative or not finite."""
    for label, value in changes.items():
        if label not in LABELS:
            raise UserError(
                f"unknown label {label!r}", where=_WHERE, remedy=f"there are {', '.join(LABELS)}"
            )
        if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
            raise UserError(
                f"the weight of {label} is {value!r}",
                where=_WHERE,
                remedy="give a finite number that is not negative",
            )
    utility = {label: changes.get(label, value) for label, value in UTILITY.items()}

    def hook(estimate: AdvantageEstimate) -> Array:
        weights = np.array([weight(seen.rollout.labels, utility) for seen in estimate.rollouts])
        weighed: Array = estimate.advantages * weights.reshape(estimate.advantages.shape)
        return weighed

    return hook


seal = weighted()
