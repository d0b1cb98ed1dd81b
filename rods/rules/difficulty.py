"""How difficult drawn tasks are: an adaptive curriculum that follows the rewards of the last batch (001 §2.3, D).

Difficulty is a number from 1 to 100. It begins at 1, rises by a step after a batch whose mean reward lies above one
threshold and falls by a step below another; between the two it stays. It is a fold over closed steps and nothing else,
so whoever reads the log knows it. From it follows the level of each dimension, low + ⌊difficulty · (high − low) / 100⌋:
of three levels the second begins at 50, and the highest is reached at 100 alone (§2.3.2).

Where the paper disagrees with itself, one reading is taken:

- *Turns.* Table 7 describes three levels of interaction turns, D.4 gives a range of 1–2 for the expected turns and of
  1–3 for the user's. Here a task expects level + 1 turns of its user, 1 to 3: each description has its level, the
  easiest task is one exchange, and the highest number is D.4's own cap on the user's turns.
- *Caps.* D.4 gives ranges for the most turns of user (1–3), tools (1–3) and agent (1–6); §2.3.1 says that they follow
  the expected turns. An agent of one turn could not both call and answer, and calls are drawn apart from turns: here a
  conversation has room for the expected turns of its user, as many turns of tools or one a call, and both together of
  the agent, which is 2 to 6.
- *Soft sampling.* §2.3.2 names one probability "for each task" and five dimensions: one coin is tossed a task, and a
  task that is sampled draws each of the five by itself, evenly from its lowest level to the current one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from rods.canonical import keyed_random, rounded
from rods.faults import INVALID_ENDS
from rods.rules.zones import counted_and_truncated

LOWEST, HIGHEST = 1, 100  # difficulty (§2.3.2)
Dimension = Literal["tools", "calls", "turns", "system", "persona", "ambiguity", "criteria"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
# From the easiest to the hardest: numbers of tools and of expected calls (D.4), and levels of Table 7, counted from 0.
RANGES: Mapping[Dimension, tuple[int, int]] = {
    "tools": (1, 10),
    "calls": (1, 3),
    "turns": (0, 2),
    "system": (0, 3),
    "persona": (0, 2),
    "ambiguity": (0, 2),
    "criteria": (0, 4),
}
SOFT: frozenset[Dimension] = frozenset({"tools", "calls", "turns", "persona", "ambiguity"})  # §2.3.2
# The dimensions that each ablation of §4.3 keeps at the highest level.
ABLATIONS: Mapping[str, frozenset[Dimension]] = {
    "tool": frozenset({"tools", "calls"}),
    "turn": frozenset({"turns"}),
    "sys": frozenset({"system"}),
    "user": frozenset({"persona", "ambiguity"}),
    "crit": frozenset({"criteria"}),
}


@dataclass(frozen=True, slots=True)
class DifficultyRules:
    """`adaptive` false: always the highest level of everything, the paper's "w/o curr.", and nothing is sampled softly.
    `hardest`: dimensions that stay at their highest level, soft sampling or not. `most_tools` is the end of the range
    of tools. Rewards are meant in the range −1 to 1."""

    adaptive: bool = True
    step: int = 3  # D.4
    up_above: float = 0.5  # D.4
    down_below: float = 0.0  # D.4
    soft: float = 0.5  # probability (D.4)
    most_tools: int = 10  # D.4
    hardest: frozenset[Dimension] = frozenset()

    def __post_init__(self) -> None:
        if self.step < 0 or self.most_tools < 1 or not 0 <= self.soft <= 1:
            raise ValueError(
                f"step {self.step}, most_tools {self.most_tools} and soft {self.soft} must be ≥ 0, ≥ 1 and in [0, 1]"
            )
        if self.down_below > self.up_above:
            raise ValueError(f"down_below ({self.down_below}) must not lie above up_above ({self.up_above})")
        if unknown := sorted(self.hardest - set(DIMENSIONS)):
            raise ValueError(f"unknown dimensions {', '.join(unknown)}; there are {', '.join(DIMENSIONS)}")

    def range(self, dimension: Dimension) -> tuple[int, int]:
        low, high = RANGES[dimension]
        return (low, self.most_tools) if dimension == "tools" else (low, high)


@dataclass(frozen=True, slots=True)
class Levels:
    """What one task is drawn with: numbers of tools and calls, and levels from 0 of the rest. `soft`: whether the five
    dimensions of `SOFT` were sampled below the current difficulty."""

    tools: int
    calls: int
    turns: int
    system: int
    persona: int
    ambiguity: int
    criteria: int
    soft: bool = False

    @property
    def expected_turns(self) -> int:
        """Of the user, the first query included: 1 to 3."""
        return self.turns + 1

    @property
    def caps(self) -> tuple[int, int, int]:
        """The most turns of user, tools and agent before a conversation ends."""
        of_tools = max(self.expected_turns, self.calls)
        return self.expected_turns, of_tools, self.expected_turns + of_tools

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def level(difficulty: int, low: int, high: int) -> int:
    """The level of a dimension from `low` to `high` at `difficulty` (§2.3.2)."""
    return low + difficulty * (high - low) // HIGHEST


def levels(rules: DifficultyRules, difficulty: int, random_seed: int, step: int, slot: int) -> Levels:
    """The levels of the task in `slot` (from 0) of `step`; a pure function of its arguments. Raises ValueError for a
    difficulty outside of 1 to 100."""
    if not LOWEST <= difficulty <= HIGHEST:
        raise ValueError(f"a difficulty of {difficulty}; it lies between {LOWEST} and {HIGHEST}")
    rng = keyed_random(random_seed, "difficulty", step, slot)
    soft = rng.random() < rules.soft and rules.adaptive
    found: dict[str, int] = {}
    for dimension in DIMENSIONS:
        low, high = rules.range(dimension)
        drawn = rng.random()  # one draw a dimension, used or not: switches of one dimension leave the others alone
        if not rules.adaptive or dimension in rules.hardest:
            found[dimension] = high
            continue
        top = level(difficulty, low, high)
        found[dimension] = low + int(drawn * (top - low + 1)) if soft and dimension in SOFT else top
    return Levels(**found, soft=soft)


def batch_mean(groups: Iterable[Mapping[str, Any]]) -> float | None:
    """The mean reward over the valid rollouts of a closed step's groups (as recorded), in the range −1 to 1: what was
    earned, 2 · resolved / expected − 1, whatever was made of it for training. Groups that do not count are left out.
    None where nothing is left: broken machinery makes no task easier."""
    shares: list[float] = []
    for group in groups:
        rollouts: Sequence[Mapping[str, Any]] = group["rollouts"]
        if counted_and_truncated([one["end"] for one in rollouts])[0]:
            shares += [one["resolved"] / one["expected"] for one in rollouts if one["end"] not in INVALID_ENDS]
    return rounded(2 * math.fsum(shares) / len(shares) - 1) if shares else None


class Difficulty:
    """The fold. `value`: the difficulty of the next step's tasks."""

    def __init__(self, rules: DifficultyRules) -> None:
        self._rules = rules
        self.value = LOWEST if rules.adaptive else HIGHEST

    def state(self) -> Any:
        """The whole state as JSON, for `load`."""
        return self.value

    def load(self, state: Any) -> None:
        """Replaces the whole state by what `state` returned. Raises ValueError for what it never returns."""
        if type(state) is not int or not LOWEST <= state <= HIGHEST:
            raise ValueError(f"a difficulty of {state!r}; it is a whole number from {LOWEST} to {HIGHEST}")
        self.value = state

    def after(self, groups: Iterable[Mapping[str, Any]]) -> int:
        """The difficulty after a step with these groups (as recorded)."""
        mean = batch_mean(groups) if self._rules.adaptive else None
        if mean is None or self._rules.down_below <= mean <= self._rules.up_above:
            return self.value
        moved = self.value + (self._rules.step if mean > self._rules.up_above else -self._rules.step)
        return min(max(moved, LOWEST), HIGHEST)

    def apply(self, groups: Iterable[Mapping[str, Any]]) -> None:
        """Folds a closed step."""
        self.value = self.after(groups)
