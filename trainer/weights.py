"""The advantage hooks that ship: SEAL's weights of rollouts (002 §3.4, eq. 10–12), and advantages of turns (001 E.1).

`training.advantage_hook = "trainer.weights:seal"` multiplies the advantage of each rollout by

    w = clip(Σ p(z)·ρ(z), 0.5, 2)

where p(z) is the share of its turns with the label z (rods/episode/diagnosis.py), and ρ(z) how much is to be learnt
from such a turn. Successes are weighted, too, and since w > 0 no advantage changes its sign. With these ρ, which lie
between 0.6 and 2, the clip never binds.

Other values make a hook of your own: `mine = weighted(response_mismatch=0.5)` in a module that the configuration names.

`training.advantage_hook = "trainer.weights:turn_level"` takes the reward of each turn for the advantage of its tokens,
in place of the rollout's (001 E.1; its equation 18 was lost: this is what is said of it, that the sign of a reward is
that of its advantage and more of it weighs more, with no mean of 0). Where episodes are judged once, at the end, the
models that play tools and user say what each reply was worth, −1, 0 or 1 (`simulation.turn_rewards`). A turn with
ground truth is worth 1 when it was resolved, and −1 when it was not, or the rollout was cut in it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from rods.episode.engine import StepTrace
from rods.errors import UserError
from rods.faults import LABELS, Label
from rods.tasks import OpenTask
from trainer.advantages import AdvantageEstimate, Array, Hook, RolloutView

# ρ of 002 Table 6, which has none for the four labels of Table 5 alone: those are ours.
UTILITY: Mapping[Label, float] = MappingProxyType(
    {
        "invalid_tool_call": 2.0,  # ours
        "argument_mismatch": 2.0,  # ours
        "state_mismatch": 1.0,
        "recovery_failure": 1.0,  # ours
        "missing_tool_call": 1.5,  # ours
        "response_mismatch": 0.9,
        "spurious_tool_call": 2.0,
        "correct_abstention": 1.8,
        "empty_turn_model_response": 1.5,
        "instance_mismatch": 0.6,
        "pass": 1.0,
    }
)
LOWEST, HIGHEST = 0.5, 2.0  # 002 Appendix C.2


def weight(labels: Sequence[Label], utility: Mapping[Label, float] = UTILITY) -> float:
    """w of a rollout, in [LOWEST, HIGHEST]; 1 where none of its turns has a label, which says nothing about it."""
    if not labels:
        return 1.0
    total = math.fsum(count * utility[label] for label, count in Counter(labels).items())
    return min(HIGHEST, max(LOWEST, total / len(labels)))


def weighted(**changes: float) -> Hook:
    """A hook with these values of ρ instead of SEAL's. Raises UserError for an unknown label, and for a value that is
    negative or not finite."""
    for label, value in changes.items():
        if label not in LABELS:
            raise _wrong(f"unknown label {label!r}", f"there are {', '.join(LABELS)}")
        if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
            raise _wrong(f"the weight of {label} is {value!r}", "give a finite number that is not negative")
    utility = {label: changes.get(label, value) for label, value in UTILITY.items()}

    def hook(estimate: AdvantageEstimate) -> Array:
        found = [weight(seen.rollout.labels, utility) for seen in estimate.rollouts]
        return np.asarray(estimate.advantages * np.array(found).reshape(estimate.advantages.shape))

    return hook


def _wrong(what: str, remedy: str) -> UserError:
    return UserError(what, where="training.advantage_hook", remedy=remedy)


seal = weighted()


def turn_level(estimate: AdvantageEstimate) -> Sequence[Array]:
    """The hook of that name. Raises UserError where calls were made in tasks whose episodes are judged once, at the
    end, and nobody has given a reward to any."""
    steps = [step for seen in estimate.rollouts if isinstance(seen.task, OpenTask) for step in _steps(seen)]
    if any(step.results for step in steps) and all(step.reward is None for step in steps):
        remedy = "let models play tools and user, with simulation.turn_rewards = true"
        raise _wrong("nobody has said what the steps of tasks that are judged at the end were worth", remedy)
    found = []
    for seen in estimate.rollouts:
        values = np.zeros(seen.tokens)
        if seen.rollout.reward is not None:  # the machinery broke: nothing was earned
            judged = _of_steps(seen) if isinstance(seen.task, OpenTask) else _of_turns(seen)
            for value, (start, end) in judged:
                values[start:end] = value
        found.append(values)
    return found


def _of_turns(seen: RolloutView) -> Iterator[tuple[float, tuple[int, int]]]:
    for turn, span in zip(seen.trace.turns, seen.turns, strict=True):
        yield 1.0 if turn.verdict is not None and turn.verdict.resolved else -1.0, span


def _of_steps(seen: RolloutView) -> Iterator[tuple[float, tuple[int, int]]]:
    """What tools and user gave for each reply; −1 for one that could not be read, 0 where nobody was asked."""
    for step, span in zip(_steps(seen), seen.replies, strict=True):
        yield -1.0 if step.error is not None else step.reward or 0.0, span


def _steps(seen: RolloutView) -> list[StepTrace]:
    return [step for turn in seen.trace.turns for step in turn.steps]
