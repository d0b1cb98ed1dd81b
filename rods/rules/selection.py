"""Which tasks become seeds (004 §3.2, Appendices B and R): pure rules over the groups of one step.

A seed is an active task whose latest group lies in the boundary zone of the configured reward. Groups of types have
quotas; inside each, candidates are ranked by score. Work is O(candidates): the batch of a step, whatever the pool's
size, unless `candidates = "pool"` asks for more. Nothing here reads a clock, a disk or a shared generator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from rods.canonical import keyed_random
from rods.config import Config, Selection, Stage
from rods.observations import Group
from rods.rules.tracker import Window
from rods.tasks import TaskType

Probe = Literal["group", "window"]
DIGITS = 12  # decimals that survive before any comparison (DESIGN §5.2)


class TaskFacts(NamedTuple):
    """What selection must know of an active task. `generation` is 0 for originals."""

    type: TaskType
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Pick:
    """A seed: `task` of `step`, its `score` in [0, 1], and `why` (the numbers that the score came from)."""

    step: int
    task: str
    type: TaskType
    score: float
    why: Mapping[str, Any]

    @property
    def id(self) -> str:
        """`step-task`; a pick is keyed by both (DESIGN §4)."""
        return pick_id(self.step, self.task)


def pick_id(step: int, task: str) -> str:
    return f"{step}-{task}"


class Moments(NamedTuple):
    """Mean and population variance over valid rollouts, exact before they are rounded to 12 decimals."""

    mean: float
    variance: float


def moments(group: Group, reward: Literal["progress", "binary"]) -> Moments | None:
    """The moments of the group's progress (resolved ÷ expected turns) or binary reward; None without a valid rollout.

    Sums run over integers or fractions, never floats, so equal rewards always give equal scores (DESIGN §5.2).
    """
    rollouts = [rollout for rollout in group.rollouts if rollout.valid]
    if not rollouts:
        return None
    count = len(rollouts)
    if reward == "binary":
        values, scale = [rollout.binary for rollout in rollouts], 1
    else:
        scale = rollouts[0].expected
        if any(rollout.expected != scale for rollout in rollouts):
            return _uneven([Fraction(rollout.resolved, rollout.expected) for rollout in rollouts])
        values = [rollout.resolved for rollout in rollouts]
    total = sum(values)
    spread = count * sum(value * value for value in values) - total * total
    return Moments(round(total / (count * scale), DIGITS), round(spread / (count * scale) ** 2, DIGITS))


class Reading(NamedTuple):
    """What is known of a task, by its latest group or its window. `moments` is None where it says nothing about a
    boundary (not counted, or scored by a format reward); `truncated` tasks are never seeds (DESIGN §5.7)."""

    task: str
    moments: Moments | None
    truncated: bool = False


def readings(groups: Iterable[Group], rules: Selection) -> list[Reading]:
    """The step's own candidates. Re-tests are none; a task that occurs twice is read by its last group."""
    latest = {group.task: group for group in groups if group.role == "active"}
    return [_reading(group, rules) for group in latest.values()]


def window_reading(window: Window, probe: Probe = "group") -> Reading:
    """The reading of the tracker's window, by its latest group or by all of its rollouts (`zones.probe`)."""
    moments = Moments(window.latest_mean, window.latest_variance)
    if probe == "window":
        moments = Moments(window.mean, window.variance)
    return Reading(window.task, moments if window.count else None, window.zone == "truncated")


def select(
    step: int,
    candidates: Iterable[Reading],
    active: Mapping[str, TaskFacts],
    last_picked: Mapping[str, int],
    config: Config,
) -> list[Pick]:
    """The seeds of `step`, best first; at most `selection.seeds_per_step`.

    `candidates`: the step's readings, or with `candidates = "pool"` those of all windows (with `order = "random"` also
    of tasks never seen, so that the whole pool takes part). `active`: the active tasks. `last_picked`: the step in
    which a task was last picked (not dropped as stale).
    """
    rules = config.selection
    if rules.seeds_per_step == 0:
        return []
    ranked: list[Pick] = []
    for reading in candidates:
        facts = active.get(reading.task)
        if facts is None or facts.generation >= rules.max_generation:
            continue
        last = last_picked.get(reading.task)
        if last is not None and step - last <= rules.exclusion_steps:
            continue
        score = _score(step, reading, config)
        if score is not None:
            ranked.append(Pick(step, reading.task, facts.type, score, _why(reading, facts, rules)))
    ranked.sort(key=lambda pick: (-pick.score, pick.task))
    return _within_quotas(ranked, rules)


def reachable_maximum(rules: Selection, types: Iterable[TaskType]) -> int:
    """The most seeds that a step can yield when the tasks have these `types` (the configuration check shows it)."""
    present = set(types)
    reached = sum(bool(present.intersection(group)) for group in rules.groups)
    if rules.pass_on_quota and reached:
        return rules.seeds_per_step
    return min(rules.seeds_per_step, reached * rules.quota_per_group())


def stage_rules(config: Config, number: int) -> Stage:
    """The rules of curriculum stage `number`, counted from 1; a number beyond the last stage means the last."""
    stages = config.curriculum.stages
    return stages[min(max(number, 1), len(stages)) - 1]


def selects(stage: Stage) -> bool:
    """Whether seeds are picked in this stage: it expands, and its reward is not a format reward (DESIGN §5.10)."""
    return stage.expand and stage.reward in ("progress", "binary")


def _reading(group: Group, rules: Selection) -> Reading:
    usable = group.counted and group.reward in ("progress", "binary")
    return Reading(group.task, moments(group, rules.boundary) if usable else None, group.truncated)


def _score(step: int, reading: Reading, config: Config) -> float | None:
    """The task's score in [0, 1]; None when it is no seed."""
    rules, found = config.selection, reading.moments
    if reading.truncated:
        return None
    if rules.order == "random":  # "regardless of their reward" (004 Appendix R)
        return round(keyed_random(config.random_seeds.daemon, "select", step, reading.task).random(), DIGITS)
    if found is None or not config.zones.boundary_low <= found.mean <= config.zones.boundary_high:
        return None
    if rules.skip_zero_variance and found.variance == 0:
        return None
    return found.variance if rules.order == "variance" else round(4 * found.mean * (1 - found.mean), DIGITS)


def _why(reading: Reading, facts: TaskFacts, rules: Selection) -> dict[str, Any]:
    """The numbers behind a pick."""
    why: dict[str, Any] = {"order": rules.order, "generation": facts.generation}
    if reading.moments is not None:
        why |= {"reward": rules.boundary, "mean": reading.moments.mean, "variance": reading.moments.variance}
    return why


def _within_quotas(ranked: Sequence[Pick], rules: Selection) -> list[Pick]:
    """The best of each group of types up to its quota, then the best of all up to `seeds_per_step`."""
    quota = rules.quota_per_group()
    room = [quota] * len(rules.groups)
    chosen: list[Pick] = []
    passed_over: list[Pick] = []
    for pick in ranked:
        places = [place for place, types in enumerate(rules.groups) if pick.type in types]
        if not places:
            continue  # a type without a group is never picked
        if room[places[0]]:
            room[places[0]] -= 1
            chosen.append(pick)
        else:
            passed_over.append(pick)
    if rules.pass_on_quota:
        chosen += passed_over[: max(0, rules.seeds_per_step - len(chosen))]
        chosen.sort(key=lambda pick: (-pick.score, pick.task))
    return chosen[: rules.seeds_per_step]


def _uneven(values: Sequence[Fraction]) -> Moments:
    """Moments when rollouts of one group expect different numbers of turns (only a foreign trainer writes such)."""
    mean = sum(values) / Fraction(len(values))
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return Moments(round(float(mean), DIGITS), round(float(variance), DIGITS))
