"""How difficult drawn tasks are: an adaptive curriculum that follows the rewards of the last batch
(001 §2.3, D).

Difficulty is a number from 1 to 100. It begins at 1, rises by a step after a batch whose mean
reward lies above one threshold and falls by a step below another; between the two it stays. It is a
fold over closed steps and nothing else, so whoever reads the log knows it. From it follows the
level of each dimension, low + ⌊difficulty · (high − low) / 100⌋: of three levels the second begins
at 50, and the highest is reached at 100 alone (§2.3.2).

Where the paper disagrees with itself, one reading is taken:

- *Turns.* Table 7 describes three levels of interaction turns, D.4 gives a range of 1–2 for the
  expected turns and of 1–3 for the user's. Here a task expects level + 1 turns of its user, 1 to 3:
  each description has its level, the easiest task is one exchange, and the highest number is D.4's
  own cap on the user's turns.
- *Caps.* D.4 gives ranges for the most turns of user (1–3), tools (1–3) and agent (1–6); §2.3.1
  says that they follow the expected turns. An agent of one turn could not both call and answer, and
  calls are drawn apart from turns: here a conversation has room for the expected turns of its user,
  as many turns of tools or one a call, and both together of the agent, which is 2 to 6.
- *Soft sampling.* §2.3.2 names one probability "for each task" and five dimensions: one coin is
  tossed a task, and a task that is sampled draws each of the five by itself, evenly from its lowest
  level to the current one.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from statistics import fmean
from typing import Any

from rods.canonical import JsonMapping, JsonObject, frozen, keyed_random, rounded
from rods.config import Config
from rods.family.simulation.settings import DIMENSIONS, DifficultyRules, Dimension
from rods.faults import INVALID_ENDS
from rods.files import read_toml
from rods.rules.step_folds import Place, StepFold
from rods.rules.zones import counted_and_truncated

# difficulty (§2.3.2)
LOWEST = 1
HIGHEST = 100
RANGES: Mapping[str, tuple[int, int]] = read_toml(Path(__file__).with_suffix(".toml"))
# §2.3.2
SOFT: frozenset[Dimension] = frozenset({"tools", "calls", "turns", "persona", "ambiguity"})


@frozen
class Levels:
    """What one task is drawn with: numbers of tools and calls, and levels from 0 of the rest.
    `soft`: whether the five dimensions of `SOFT` were sampled below the current difficulty."""

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


def level(difficulty: int, low: int, high: int) -> int:
    """The level of a dimension from `low` to `high` at `difficulty` (§2.3.2)."""
    return low + difficulty * (high - low) // HIGHEST


def share(levels: Mapping[str, int]) -> float:
    """The mean share of the way that each dimension has gone from its lowest to its highest level,
    0 to 1."""
    return fmean((levels[name] - low) / (high - low) for name, (low, high) in RANGES.items())


def limits(rules: DifficultyRules, dimension: Dimension) -> tuple[int, int]:
    """The lowest and the highest level of a dimension."""
    low, high = RANGES[dimension]
    return low, {"tools": rules.most_tools, "turns": rules.most_turns - 1}.get(dimension, high)


def levels(
    rules: DifficultyRules, difficulty: int, random_seed: int, step: int, slot: int
) -> Levels:
    """The levels of the task in `slot` (from 0) of `step`; a pure function of its arguments. Raises
    ValueError for a difficulty outside of 1 to 100."""
    if not LOWEST <= difficulty <= HIGHEST:
        raise ValueError(f"a difficulty of {difficulty}; it lies between {LOWEST} and {HIGHEST}")
    rng = keyed_random(random_seed, "difficulty", step, slot)
    soft = rng.random() < rules.soft and rules.adaptive
    values: dict[str, int] = {}
    for dimension in DIMENSIONS:
        low, high = limits(rules, dimension)
        # one draw a dimension, used or not: switches of one dimension leave the others alone
        drawn = rng.random()
        if not rules.adaptive or dimension in rules.hardest:
            values[dimension] = high
            continue
        top = level(difficulty, low, high)
        values[dimension] = (
            low + int(drawn * (top - low + 1)) if soft and dimension in SOFT else top
        )
    return Levels(**values, soft=soft)


def batch_mean(groups: Iterable[JsonMapping]) -> float | None:
    """The mean reward over the valid rollouts of a closed step's groups (as recorded), in the range
    −1 to 1: what was earned, 2 · resolved / expected − 1, whatever was made of it for training.
    Groups that do not count are left out. None where nothing is left: broken machinery makes no
    task easier."""
    shares: list[float] = []
    for group in groups:
        rollouts: Sequence[JsonMapping] = group["rollouts"]
        if counted_and_truncated([entry["end"] for entry in rollouts])[0]:
            shares += [
                entry["resolved"] / entry["expected"]
                for entry in rollouts
                if entry["end"] not in INVALID_ENDS
            ]
    return rounded(2 * math.fsum(shares) / len(shares) - 1) if shares else None


@frozen
class Faced:
    """What the drawn tasks of a step came to: their `difficulty`, how many `tasks`, and their mean
    reward from −1 to 1 (None where no rollout says anything)."""

    step: int
    difficulty: int
    tasks: int
    mean: float | None


def fold(config: Config) -> "Difficulty | None":
    """What a run folds."""
    return Difficulty(config.difficulty) if config.source.drawn else None


class Difficulty(StepFold):
    """The fold. `value`: the difficulty of the next step's tasks; `faced`: the latest step that had
    any."""

    def __init__(self, rules: DifficultyRules) -> None:
        self._rules = rules
        self.key = rules.model_dump(mode="json")
        self.value = LOWEST if rules.adaptive else HIGHEST
        self.faced: Faced | None = None

    def state(self) -> Any:
        """The whole state as JSON, for `load`."""
        return [self.value, None if self.faced is None else list(astuple(self.faced))]

    def load(self, state: Any) -> None:
        """Replaces the whole state by what `state` returned. Raises ValueError for what it never
        returns."""
        value, faced = state
        if type(value) is not int or not LOWEST <= value <= HIGHEST:
            raise ValueError(
                f"a difficulty of {value!r}; it is a whole number from {LOWEST} to {HIGHEST}"
            )
        self.value = value
        self.faced = None if faced is None else Faced(*faced)

    def apply(self, step: int, groups: Iterable[JsonMapping]) -> None:
        """Folds a closed step: of its groups those of drawn tasks."""
        drawn = [group for group in groups if group["role"] == "drawn"]
        if drawn:
            mean = batch_mean(drawn)
            self.faced = Faced(step, self.value, len(drawn), mean)
            rules = self._rules
            if (
                rules.adaptive
                and mean is not None
                and not rules.down_below <= mean <= rules.up_above
            ):
                moved = self.value + (rules.step if mean > rules.up_above else -rules.step)
                self.value = min(max(moved, LOWEST), HIGHEST)

    def figures(self, place: Place) -> JsonObject:
        """Gauges: `difficulty/next`, and of the last step `difficulty/<dimension>`, the level that
        it allowed."""
        if place == "checkpoint":
            return {"difficulty": self.value}
        if place == "status":
            return {"difficulty": self.as_json()}
        if place == "notes":
            return {}
        levels = self.as_json().get("last", {}).get("levels", {})
        return {
            "difficulty/next": self.value,
            **{f"difficulty/{name}": at for name, at in levels.items()},
        }

    def as_json(self) -> JsonObject:
        """For people: the difficulty that is next, the latest step with drawn tasks, and the levels
        that its difficulty allowed them, before any soft sampling."""
        faced = self.faced
        if faced is None:
            return {"next": self.value}
        drawn = levels(self._rules.model_copy(update={"soft": 0.0}), faced.difficulty, 0, 1, 0)
        allowed = {name: getattr(drawn, name) for name in DIMENSIONS}
        return {"next": self.value, "last": {**asdict(faced), "levels": allowed}}
