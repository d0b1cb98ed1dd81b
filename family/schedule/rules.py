"""Which tasks a batch has: pure rules over what tasks have earned.

A task's estimate is a pass rate in [0, 1]: the mean reward of its groups, each weighted by the age
of the policy that rolled it out (1 now, 0 at `Rules.window` updates and beyond), and drawn towards
the mean of its domain, the more the less of its groups still counts. Random choices are keyed by
seed, step and task: what comes or goes moves no others.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from rods.canonical import canonical, rounded
from rods.section import Section

Share = Annotated[float, Field(ge=0.0, le=1.0)]
#: why a task is in a batch: its estimate is near the target; it was never seen; it is retired and
#: tried again; it is seen anew on a plateau; all are drawn alike
Role = Literal["target", "unseen", "retest", "profile", "uniform"]
Retired = Literal["", "mastered", "too_hard", "stuck"]
MILLION = 1_000_000
PRIOR = 2.0  # rollouts that the domain's mean counts as
PROFILED = 0.5  # of a batch, while tasks are seen anew
SPREADS = 1.0  # standard deviations of an estimate by which a task may be nearer to the target
STUCK = 2.0  # standard deviations of a gain that a task gets the benefit of
SHARPNESS = 3  # of the preference for what is near the target


class Rules(Section):
    """How a schedule draws. Shares are of a batch, pass rates of rewards mapped to [0, 1]."""

    #: draw all tasks alike, each once before any comes twice: what a schedule is compared with
    uniform: bool = False
    #: of all random choices
    random_seed: NonNegativeInt = 0
    #: tasks of a batch, unless `draw` says otherwise
    batch_tasks: PositiveInt = 32
    #: lowest and highest reward
    reward_range: tuple[float, float] = (0.0, 1.0)
    #: the pass rate that is looked for at the first step
    target: Share = 0.5
    #: the one from step `target_steps` on, in a straight line up to there; None: it stays
    target_end: Share | None = None
    #: see `target_end`
    target_steps: PositiveInt = 1
    #: updates of the policy after which a group no longer counts
    window: PositiveInt = 60
    #: the least share of tasks that were never seen, as long as there are
    unseen: Share = 0.1
    #: the least share of retired tasks that are tried again, the longest unseen first
    retests: Share = 0.03
    #: rollouts, of groups in a row beyond a bound, after which a task is retired; 0: none is
    retire_rollouts: NonNegativeInt = 8
    #: groups in the window from which on a task is retired that gains less than the others; 0:
    #: none is
    stuck_groups: NonNegativeInt = 6
    #: from this mean reward on a group is mastered
    mastered_from: Share = 1.0
    #: up to this mean reward a group is too hard
    too_hard_to: Share = 0.0
    #: steps in which tasks seen again have hardly gained, after which all are seen anew; 0: never
    plateau_steps: NonNegativeInt = 40
    #: the mean gain of a task seen again at which that is no plateau
    plateau_gain: float = 0.005
    #: share of a batch by domain; others get what is left
    shares: Mapping[str, Share] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> "Rules":
        low, high = self.reward_range
        if not (math.isfinite(high - low) and low < high):
            raise ValueError(f"reward_range {self.reward_range}: give lowest and highest reward")
        if sum(self.shares.values()) > 1 + 1e-9:
            raise ValueError(f"shares are {sum(self.shares.values()):g} together; 1 at most")
        if self.unseen + self.retests > 1:
            raise ValueError("unseen and retests are more than a batch together")
        if not self.too_hard_to < self.mastered_from:
            raise ValueError("too_hard_to lies below mastered_from")
        return self

    def target_at(self, step: int) -> float:
        """The pass rate that `step` (from 1) looks for."""
        end = self.target if self.target_end is None else self.target_end
        done = min(1.0, (step - 1) / self.target_steps)
        return rounded(self.target + (end - self.target) * done)


class Seen(NamedTuple):
    """A group that counts: the last update in the policy's weights, its valid rollouts, and the sum
    of their rewards in millionths of the range."""

    policy_step: int
    valid: int
    total: int

    @property
    def mean(self) -> int:
        """In millionths."""
        return round(self.total / self.valid)


@dataclass(slots=True)
class Standing:
    """What a task has earned: its groups inside the window, oldest first, its latest mean (in
    millionths), the step of that (0: never seen), how many groups in a row were beyond a bound, and
    the bound."""

    domain: str
    groups: list[Seen] = field(default_factory=list)
    latest: int = 0
    step: int = 0
    beyond: Retired = ""
    in_a_row: int = 0
    retired: Retired = ""
    drawn: int = 0


@dataclass(slots=True)
class Domain:
    """Of the tasks seen: how many, and the sum of their latest means, in millionths."""

    seen: int = 0
    total: int = 0

    @property
    def mean(self) -> float:
        return self.total / (self.seen * MILLION) if self.seen else 0.5


class Standings:
    """Where all tasks stand, as a fold over draws and groups."""

    def __init__(self, rules: Rules, domains: Mapping[str, str]) -> None:
        """`domains`: of each task, in the order given."""
        self.rules = rules
        self.tasks = {task: Standing(domain) for task, domain in domains.items()}
        self.domains = {name: Domain() for name in domains.values()}
        self.drawn: dict[str, int] = dict.fromkeys(self.domains, 0)
        self.busy: dict[int, tuple[str, ...]] = {}  # step → its tasks, drawn and not rewarded
        # step → what tasks seen again have gained, in millionths, and how many they are
        self.gains: dict[int, tuple[int, int]] = {}
        # step → of retired tasks that were tried again, what they were retired as, and whether
        # their rollouts disagreed
        self.tried: dict[int, list[tuple[Retired, bool]]] = {}
        self.profiled = 0  # the step from which on all are seen anew

    def draw(self, step: int, tasks: Sequence[str]) -> None:
        """`step` was drawn."""
        self.busy[step] = tuple(tasks)
        for task in tasks:
            self.tasks[task].drawn += 1
            self.drawn[self.tasks[task].domain] += 1

    def observe(self, step: int, groups: Iterable[tuple[str, Seen]]) -> None:
        """`step` earned this; steps before it that have earned nothing yet are waited for no
        longer."""
        gain: list[int] = []
        tried: list[tuple[Retired, bool]] = []
        for task, seen in groups:
            standing = self.tasks[task]
            if standing.retired:
                tried.append((standing.retired, not self._beyond(seen)))
            if standing.step:
                gain.append(seen.mean - standing.latest)
            self._count(standing, step, seen)
        self.busy = {each: tasks for each, tasks in self.busy.items() if each > step}
        self.gains[step] = sum(gain), len(gain)
        self.tried[step] = tried
        oldest = step - self.rules.window
        self.tried = {each: again for each, again in self.tried.items() if each > oldest}
        every = self.rules.plateau_steps
        self.gains = {each: gained for each, gained in self.gains.items() if each > step - every}
        if every and step >= self.profiled + 2 * every and len(self.gains) == every:
            count = sum(again for _, again in self.gains.values())
            total = sum(gained for gained, _ in self.gains.values())
            if count and total < count * self.rules.plateau_gain * MILLION:
                self.profiled = step

    def _count(self, standing: Standing, step: int, seen: Seen) -> None:
        domain = self.domains[standing.domain]
        domain.seen += not standing.step
        domain.total += seen.mean - standing.latest
        oldest = seen.policy_step - self.rules.window
        standing.groups = [*(old for old in standing.groups if old.policy_step > oldest), seen]
        standing.latest = seen.mean
        standing.step = step
        beyond = self._beyond(seen)
        standing.in_a_row = seen.valid + (standing.in_a_row if beyond == standing.beyond else 0)
        standing.beyond = beyond
        enough = 0 < self.rules.retire_rollouts <= standing.in_a_row
        standing.retired = beyond if enough else ""
        if not beyond and self._stuck(standing.groups):
            standing.retired = "stuck"

    def _beyond(self, seen: Seen) -> Retired:
        """The bound beyond which a group lies."""
        if seen.mean >= self.rules.mastered_from * MILLION:
            return "mastered"
        return "too_hard" if seen.mean <= self.rules.too_hard_to * MILLION else ""

    def returns(self, retired: Retired) -> float:
        """How likely one that was retired so is worth another try: the share of those that were
        tried inside the window, among them two more of which one was."""
        again = [back for tried in self.tried.values() for kind, back in tried if kind == retired]
        return (sum(again) + 1) / (len(again) + 2)

    def _stuck(self, groups: Sequence[Seen]) -> bool:
        """Whether the later half of a task's groups is better than the earlier one by clearly less
        than what other tasks gain in as many groups."""
        if not 0 < self.rules.stuck_groups <= len(groups):
            return False
        half = len(groups) // 2
        early, late = (
            (sum(seen.valid for seen in part), sum(seen.total for seen in part))
            for part in (groups[:half], groups[-half:])
        )
        gain = late[1] / late[0] - early[1] / early[0]
        mean = (early[1] + late[1]) / (early[0] + late[0]) / MILLION
        spread = MILLION * math.sqrt(mean * (1 - mean) * (1 / early[0] + 1 / late[0]))
        count = sum(again for _, again in self.gains.values())
        usual = sum(gained for gained, _ in self.gains.values()) / max(1, count)
        return rounded(gain + STUCK * spread - usual * (len(groups) - half)) < 0

    def estimate(self, task: str, step: int) -> tuple[float, float]:
        """The task's pass rate before the update `step`, and its standard deviation."""
        standing = self.tasks[task]
        weight = PRIOR
        total = PRIOR * self.domains[standing.domain].mean
        for seen in standing.groups:
            share = max(0.0, 1.0 - max(0, step - 1 - seen.policy_step) / self.rules.window)
            weight += share * seen.valid
            total += share * seen.total / MILLION
        mean = min(1.0, total / weight)
        return rounded(mean), rounded(math.sqrt(mean * (1.0 - mean) / weight))

    def profiling(self, step: int) -> bool:
        """Whether tasks are seen anew at `step`, since nothing was gained."""
        return 0 < self.profiled < step <= self.profiled + self.rules.plateau_steps


def choose(standings: Standings, step: int, count: int) -> list[tuple[str, Role]]:
    """The `count` tasks of `step`, each once, with why. There have to be so many."""
    tasks = standings.tasks
    rules = standings.rules
    order = {task: _chance(rules, step, task) for task in tasks}
    busy = {task for batch in standings.busy.values() for task in batch}
    if rules.uniform:
        turns = {task: _chance(rules, -standing.drawn, task) for task, standing in tasks.items()}
        rested = sorted(tasks, key=lambda task: (tasks[task].drawn, turns[task], task))
        return [(task, "uniform") for task in rested[:count]]
    chosen: dict[str, Role] = {}
    for domain, quota in _quotas(standings, count):
        free = [
            task
            for task, standing in tasks.items()
            if domain in (None, standing.domain) and task not in chosen and task not in busy
        ]
        chosen |= _of_domain(standings, step, min(quota, count - len(chosen)), free, order)
    left = sorted(tasks.keys() - chosen.keys(), key=lambda task: (tasks[task].step, order[task]))
    for task in left[: count - len(chosen)]:  # all others are under way
        chosen[task] = "retest" if tasks[task].retired else "target"
    return list(chosen.items())


def _quotas(standings: Standings, count: int) -> Iterator[tuple[str | None, int]]:
    """Of each domain with a share as many tasks as bring what was drawn of it nearest to that;
    then, of any, as many as are left."""
    rules = standings.rules
    total = sum(standings.drawn.values()) + count
    for domain, share in rules.shares.items():
        yield domain, max(0, min(count, round(share * total) - standings.drawn[domain]))
    yield None, count


def _of_domain(
    standings: Standings, step: int, count: int, free: Sequence[str], order: Mapping[str, float]
) -> dict[str, Role]:
    """Up to `count` of the tasks `free`: the floors first, then what is near the target."""
    rules = standings.rules
    tasks = standings.tasks
    chosen: dict[str, Role] = {}

    def take(ranked: Iterable[str], most: int, role: Role) -> None:
        for task in ranked:
            if most <= 0 or len(chosen) >= count:
                return
            if task not in chosen:
                chosen[task] = role
                most -= 1

    def floor(share: float, role: Role) -> int:
        return math.floor(count * share + _chance(rules, step, role))

    by_chance = sorted(free, key=lambda task: (order[task], task))
    longest = sorted(by_chance, key=lambda task: tasks[task].step)
    worth = {kind: standings.returns(kind) for kind in get_args(Retired)}
    retired = sorted(
        (task for task in by_chance if tasks[task].retired),
        key=lambda task: -rounded((step - tasks[task].step) * worth[tasks[task].retired]),
    )
    if standings.profiling(step):
        due = [task for task in longest if 0 < tasks[task].step <= standings.profiled]
        take(due, floor(PROFILED, "profile"), "profile")
    unseen = [task for task in by_chance if not tasks[task].step]
    take(unseen, floor(rules.unseen, "unseen"), "unseen")
    take(retired, floor(rules.retests, "retest"), "retest")
    target = rules.target_at(step)
    known: dict[str, tuple[float, float]] = {}
    ranks: list[tuple[float, str]] = []
    for task in free:
        if tasks[task].retired or task in chosen:
            continue
        standing = tasks[task]
        key = task if standing.step else f"/{standing.domain}"  # all unseen ones are alike
        mean, spread = known.get(key) or known.setdefault(key, standings.estimate(task, step))
        apart = min(0.99, max(0.0, abs(mean - target) - SPREADS * spread))
        ranks.append((rounded(-math.log(order[task]) / (1.0 - apart) ** SHARPNESS), task))
    take((task for _, task in sorted(ranks)), count, "target")
    take(retired, count, "retest")
    return chosen


def _chance(rules: Rules, step: int, key: str) -> float:
    """A number in (0, 1) that depends on nothing but these."""
    digest = hashlib.sha256(canonical([rules.random_seed, "schedule", step, key])).digest()
    return (int.from_bytes(digest[:6], "big") + 0.5) / (1 << 48)


def counts(standings: Standings) -> dict[str, Counter[str]]:
    """By domain how many tasks stand where: unseen, active, mastered, too_hard."""
    found: dict[str, Counter[str]] = {name: Counter() for name in standings.domains}
    for standing in standings.tasks.values():
        found[standing.domain][standing.retired or ("active" if standing.step else "unseen")] += 1
    return found
