"""Which tasks become seeds (004 §3.2, Appendices B and R): pure rules over what groups, or windows
of them, say of tasks.

A seed is an active task whose latest group (with `zones.probe = "window"` its window) lies in the
boundary zone of the configured reward; where the order is `random`, any that is not truncated.
Sets of types have quotas; inside each, candidates are ranked by a score in [0, 1], which
`selection.order` chooses (a table in docs/design.md). Work is O(candidates): the batch of a step,
or all active tasks (`whole_pool`)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rods.canonical import JsonMapping, JsonObject, frozen, keyed_random, rounded
from rods.config import Config, Selection
from rods.observations import Group
from rods.rules.zones import TaskSignal, group_signal, zone_of
from rods.tasks import TaskType


class TaskFacts(NamedTuple):
    """What selection must know of an active task. `generation`: 0 for originals."""

    type: TaskType
    generation: int = 0


@frozen
class Pick:
    """A seed: `task` of `step`, its `score` in [0, 1], and `why` (the numbers that the score came
    from)."""

    step: int
    task: str
    type: TaskType
    score: float
    why: JsonMapping

    @property
    def id(self) -> str:
        """`step-task`: a pick is keyed by both."""
        return f"{self.step}-{self.task}"

    def as_json(self) -> JsonObject:
        """The fields of its record, but for where it stands."""
        return {"task": self.task, "type": self.type, "score": self.score, "why": self.why}


def signals(groups: Iterable[Group], rules: Selection) -> list[TaskSignal]:
    """The step's own candidates. Re-tests are none; a task that occurs twice is read by its last
    group."""
    latest = {group.task: group for group in groups if group.role == "active"}
    return [group_signal(group, rules.boundary) for group in latest.values()]


def whole_pool(config: Config) -> bool:
    """Whether selection looks at more than the step's own tasks."""
    return (
        config.pool.static
        or config.selection.candidates == "pool"
        or config.selection.order == "random"
    )


def reads_windows(config: Config) -> bool:
    """Whether selection reads the tracker's windows rather than the step's own groups."""
    return whole_pool(config) or config.zones.probe == "window"


def select(
    step: int,
    candidates: Iterable[TaskSignal],
    active: Mapping[str, TaskFacts],
    last_picked: Mapping[str, int],
    config: Config,
) -> list[Pick]:
    """The seeds of `step`, best first; at most `selection.seeds_per_step`. `candidates`: what the
    step's groups say, or windows (`reads_windows`); tasks without a group are among them where
    selection looks at the `whole_pool`. `last_picked`: the step in which a task was last picked
    (and not dropped as stale)."""
    rules = config.selection
    if rules.seeds_per_step == 0:
        return []
    ranked: list[Pick] = []
    for signal in candidates:
        facts = active.get(signal.task)
        if facts is None or 0 < rules.max_generation <= facts.generation:
            continue
        last = last_picked.get(signal.task)
        if last is not None and step - last <= rules.exclusion_steps:
            continue
        if (score := _score(step, signal, config)) is not None:
            ranked.append(Pick(step, signal.task, facts.type, score, _why(signal, facts, rules)))
    ranked.sort(key=lambda pick: (-pick.score, pick.task))
    return _within_quotas(ranked, rules)


def reachable_maximum(rules: Selection, types: Iterable[TaskType]) -> int:
    """The most seeds that a step can yield when the tasks have these `types` (the configuration
    check shows it)."""
    present = set(types)
    reached = sum(bool(present.intersection(group)) for group in rules.groups)
    if (rules.pass_on_quota or rules.order == "random") and reached:
        return rules.seeds_per_step
    return min(rules.seeds_per_step, reached * rules.quota_per_group())


def _score(step: int, signal: TaskSignal, config: Config) -> float | None:
    """The task's score in [0, 1]; None when it is no seed."""
    rules = config.selection
    moments = signal.moments
    if signal.truncated:
        return None
    if rules.order == "random":  # "regardless of their reward" (004 Appendix R)
        return rounded(
            keyed_random(config.random_seeds.daemon, "select", step, signal.task).random()
        )
    if moments is None or zone_of(moments.mean, config.zones) != "boundary":
        return None
    spread = signal.advantage if rules.order == "advantage" else moments.variance
    if spread is None or (rules.skip_zero_variance and spread == 0):
        return None
    if rules.order == "advantage":  # has no bound of its own
        return rounded(spread / (1 + spread))
    if rules.order == "variance":
        return spread
    return rounded(4 * moments.mean * (1 - moments.mean))


def _why(signal: TaskSignal, facts: TaskFacts, rules: Selection) -> JsonObject:
    """The numbers behind a pick."""
    why: JsonObject = {"order": rules.order, "generation": facts.generation}
    if signal.moments is not None:
        why |= {
            "reward": rules.boundary,
            "mean": signal.moments.mean,
            "variance": signal.moments.variance,
        }
    if rules.order == "advantage":
        why["advantage_variance"] = signal.advantage
    return why


def _within_quotas(ranked: Sequence[Pick], rules: Selection) -> list[Pick]:
    """The best of each group of types up to its quota, then the best of all up to `seeds_per_step`.
    With the order `random` seeds are drawn uniformly, without quotas (004 Appendix R)."""
    quota = rules.quota_per_group()
    room = [quota] * len(rules.groups)
    chosen: list[Pick] = []
    passed_over: list[Pick] = []
    for pick in ranked:
        places = [place for place, types in enumerate(rules.groups) if pick.type in types]
        if not places:
            continue  # a type without a group is never picked
        if rules.order == "random" or room[places[0]]:
            room[places[0]] -= 1
            chosen.append(pick)
        else:
            passed_over.append(pick)
    if rules.pass_on_quota:
        chosen += passed_over[: max(0, rules.seeds_per_step - len(chosen))]
        chosen.sort(key=lambda pick: (-pick.score, pick.task))
    return chosen[: rules.seeds_per_step]
