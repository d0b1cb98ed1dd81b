"""Advantages of turns, an advantage hook (001 E.1): `training.advantage_hook =
"rods.family.simulation.turn_level:turn_level"` takes the reward of each turn for the advantage of
its tokens (equation 18 was lost: the sign of a reward is that of its advantage, with no mean of 0).
Where episodes are judged at the end, the models that play say what each reply was worth
(`simulation.turn_rewards`); else a turn is worth 1 when it was resolved, and −1 when not."""

from collections.abc import Iterator, Sequence

import numpy as np

from rods.episode.engine import StepTrace
from rods.errors import UserError
from rods.tasks import OpenTask
from rods.trainer.advantages import AdvantageEstimate, Array, RolloutView


def turn_level(estimate: AdvantageEstimate) -> Sequence[Array]:
    """The hook of that name. Raises UserError where calls were made in tasks whose episodes are
    judged once, at the end, and nobody has given a reward to any."""
    steps = [
        step
        for seen in estimate.rollouts
        if isinstance(seen.task, OpenTask)
        for step in _steps(seen)
    ]
    if any(step.results for step in steps) and all(step.reward is None for step in steps):
        remedy = "let models play tools and user, with simulation.turn_rewards = true"
        what = "nobody has said what the steps of tasks that are judged at the end were worth"
        raise UserError(what, where="training.advantage_hook", remedy=remedy)
    advantages = []
    for seen in estimate.rollouts:
        values = np.zeros(seen.tokens)
        if seen.rollout.reward is not None:  # the machinery broke: nothing was earned
            for value, (start, end) in _judged(seen):
                values[start:end] = value
        advantages.append(values)
    return advantages


def _judged(seen: RolloutView) -> Iterator[tuple[float, tuple[int, int]]]:
    """What each turn was worth; of a task that is judged at the end, what tools and user gave for
    each reply: −1 for one that could not be read, 0 where nobody was asked."""
    if isinstance(seen.task, OpenTask):
        for step, span in zip(_steps(seen), seen.replies, strict=True):
            yield -1.0 if step.error is not None else step.reward or 0.0, span
    else:
        for turn, span in zip(seen.trace.turns, seen.turns, strict=True):
            yield 1.0 if turn.verdict is not None and turn.verdict.resolved else -1.0, span


def _steps(seen: RolloutView) -> list[StepTrace]:
    return [step for turn in seen.trace.turns for step in turn.steps]
