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
from itertools import islice
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from rods.canonical import canonical, rounded
from rods.section import Section

Share = Annotated[float, Field(ge=0.0, le=1.0)]
MILLION = 1_000_000
PRIOR = 2.0  # rollouts that the domain's mean counts as
PROFILED = 0.5  # of a batch, while tasks are seen anew
STUCK = 2.0  # standard deviations of a gain that a task gets the benefit of
SHARPNESS = 3  # of the preference for what is near the target


class Rules(Section):
    """How a schedule draws. Shares are of a batch, pass rates of rewards mapped to [0, 1]."""

    model_config = ConfigDict(allow_inf_nan=False)  # the log could not say them
    needs = (("target_steps", "target_end = 0.2"),)

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
    #: the one behind step `target_steps`, in a straight line up to there; None: it stays
    target_end: Share | None = None
    #: see `target_end`
    target_steps: PositiveInt = 1
    #: updates of the policy after which a group no longer counts
    window: PositiveInt = 60
    #: the least share of tasks that were never seen, as long as there are
    unseen: Share = 0.1
    #: the least share of retired tasks that are tried again
    retests: Share = 0.03
    #: rollouts, of groups in a row beyond a bound, after which a task is retired; 0: none is
    retire_rollouts: NonNegativeInt = 8
    #: from this mean reward on a group is mastered
    mastered_from: Share = 1.0
    #: up to this mean reward a group is too hard
    too_hard_to: Share = 0.0
    #: groups in the window from which on a task is retired that gains less than others; 0: none is
    stuck_groups: NonNegativeInt = 6
    #: what a task seen again has gained at least, on average over a window, or all are seen anew
    plateau_gain: float = 0.005
    #: share of all draws by domain; what is left is for the others, or for any where there are none
    shares: Mapping[str, Share] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> "Rules":
        if sum(self.shares.values()) > 1.000001:
            raise ValueError("shares are more than 1 together")
        if self.reward_range[0] >= self.reward_range[1]:
            raise ValueError("reward_range is from the lowest reward to the highest")
        if self.too_hard_to >= self.mastered_from:
            raise ValueError("too_hard_to is not below mastered_from")
        return self


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
    """What a task has earned."""

    domain: str
    groups: list[Seen] = field(default_factory=list)  # inside the window, oldest first
    latest: int = 0  # mean, in millionths
    step: int = 0  # of that; 0: never seen
    beyond: str = ""  # the bound beyond which its latest groups are
    in_a_row: int = 0  # their rollouts
    retired: str = ""  # as "mastered", "too_hard" or "stuck"
    drawn: int = 0


class SeenAgain(NamedTuple):
    """A task was seen again: what it was retired as, what it gained (in millionths), and whether
    its rollouts disagree."""

    step: int
    retired: str
    gain: int
    disagrees: bool


class Standings:
    """Where all tasks stand, as a fold over draws and groups."""

    def __init__(self, rules: Rules, domains: Mapping[str, str]) -> None:
        """`domains`: of each task, in the order given."""
        self.rules = rules
        self.tasks = {task: Standing(domain) for task, domain in domains.items()}
        self.drawn: Counter[str] = Counter()  # by domain
        self.busy: dict[int, Sequence[str]] = {}  # step → its tasks, drawn and not rewarded
        self.again: list[SeenAgain] = []  # inside the window
        self.profiled = 0  # the step from which on all are seen anew

    def draw(self, step: int, tasks: Sequence[str]) -> None:
        """`step` was drawn."""
        self.busy[step] = tasks
        for task in tasks:
            self.tasks[task].drawn += 1
            self.drawn[self.tasks[task].domain] += 1

    def observe(self, step: int, groups: Iterable[tuple[str, Seen]]) -> None:
        """`step` earned this; steps before it that have earned nothing yet are waited for no
        longer."""
        rules = self.rules
        self.busy = {each: tasks for each, tasks in self.busy.items() if each > step}
        self.again = [again for again in self.again if again.step > step - rules.window]
        for task, seen in groups:
            standing = self.tasks[task]
            beyond = self._beyond(seen)
            if standing.step:
                gain = seen.mean - standing.latest
                self.again.append(SeenAgain(step, standing.retired, gain, not beyond))
            oldest = seen.policy_step - rules.window
            standing.groups = [*(old for old in standing.groups if old.policy_step > oldest), seen]
            standing.latest = seen.mean
            standing.step = step
            standing.in_a_row = seen.valid + standing.in_a_row * (beyond == standing.beyond)
            standing.beyond = beyond
            enough = 0 < rules.retire_rollouts <= standing.in_a_row
            standing.retired = beyond * enough or "stuck" * self._stuck(standing.groups)
        if step >= self.profiled + 2 * rules.window and self._gain() < rules.plateau_gain:
            self.profiled = step

    def _beyond(self, seen: Seen) -> str:
        """The bound beyond which a group lies."""
        if seen.mean >= self.rules.mastered_from * MILLION:
            return "mastered"
        return "too_hard" if seen.mean <= self.rules.too_hard_to * MILLION else ""

    def _gain(self) -> float:
        """Of a task that is seen again, on average over the window."""
        return sum(again.gain for again in self.again) / max(1, len(self.again)) / MILLION

    def _stuck(self, groups: Sequence[Seen]) -> bool:
        """Whether the later half of a task's groups is better than the earlier one by clearly less
        than what other tasks gain in as many groups."""
        half = len(groups) // 2
        if not half or not 0 < self.rules.stuck_groups <= len(groups):
            return False
        early = sum(seen.mean for seen in groups[:half]) / half / MILLION
        late = sum(seen.mean for seen in groups[-half:]) / half / MILLION
        rollouts = half * min(seen.valid for seen in groups)
        spread = math.sqrt((early * (1 - early) + late * (1 - late)) / rollouts)
        behind = self._gain() * (len(groups) - half) - (late - early)
        return rounded(behind - STUCK * spread) > 0

    def worth(self, retired: str) -> float:
        """How likely one that was retired so is worth another try: the share whose rollouts
        disagreed of those that were tried inside the window, and of two more of which one did."""
        tries = [again.disagrees for again in self.again if again.retired == retired]
        return (sum(tries) + 1) / (len(tries) + 2)

    def means(self) -> dict[str, float]:
        """By domain that of the latest means of tasks that were seen."""
        found: dict[str, list[int]] = {}
        for standing in self.tasks.values():
            if standing.step:
                found.setdefault(standing.domain, []).append(standing.latest)
        return {domain: sum(each) / (len(each) * MILLION) for domain, each in found.items()}


def choose(standings: Standings, step: int, count: int) -> list[tuple[str, str]]:
    """The `count` tasks of `step`, each once, with why: its estimate is near the "target", it was
    "unseen", it is retired and tried again ("retest"), seen anew on a plateau ("profile"), or all
    are drawn alike ("uniform"). There have to be so many."""
    tasks = standings.tasks
    rules = standings.rules
    order = {
        task: _chance(rules, -standing.drawn if rules.uniform else step, task)
        for task, standing in tasks.items()
    }
    by_chance = sorted(tasks, key=lambda task: order[task])
    if rules.uniform:
        turns = sorted(by_chance, key=lambda task: tasks[task].drawn)
        return [(task, "uniform") for task in turns[:count]]
    busy = {task for batch in standings.busy.values() for task in batch}
    total = standings.drawn.total() + count
    chosen: dict[str, str] = {}
    domains = {standing.domain for standing in tasks.values()}
    parts = [({domain}, share) for domain, share in rules.shares.items()]
    # the last time, what is under way may be drawn again
    for among, share in [*parts, (domains - {*rules.shares}, 1), (domains, 1), (domains, 1)]:
        quota = count - len(chosen)
        if share < 1:
            due = round(share * total) - sum(standings.drawn[domain] for domain in among)
            quota = max(0, min(quota, due))
        elif len(chosen.keys() | busy) == len(tasks):
            busy = set()
        free = [
            task
            for task in by_chance
            if tasks[task].domain in among and task not in chosen and task not in busy
        ]
        until = len(chosen) + quota
        for task, role in _ranked(standings, step, quota, free, order):
            if len(chosen) == until:
                break
            chosen.setdefault(task, role)
    return list(chosen.items())


def _ranked(
    standings: Standings, step: int, count: int, free: Sequence[str], order: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """The tasks `free` in the order in which `count` of them are taken: the floors, what is near
    the target, then what is retired."""
    rules = standings.rules
    tasks = standings.tasks

    def part(role: str, share: float, candidates: Iterable[str]) -> Iterator[tuple[str, str]]:
        most = math.floor(count * share + _chance(rules, step, role))
        return ((task, role) for task in islice(candidates, most))

    if 0 < standings.profiled < step <= standings.profiled + rules.window:
        longest = sorted(free, key=lambda task: tasks[task].step)
        due = (task for task in longest if 0 < tasks[task].step <= standings.profiled)
        yield from part("profile", PROFILED, due)
    yield from part("unseen", rules.unseen, (task for task in free if not tasks[task].step))
    worth = {kind: standings.worth(kind) for kind in ("mastered", "too_hard", "stuck")}
    retired = sorted(
        (task for task in free if tasks[task].retired),
        key=lambda task: -rounded((step - tasks[task].step) * worth[tasks[task].retired]),
    )
    yield from part("retest", rules.retests, retired)
    end = rules.target if rules.target_end is None else rules.target_end
    target = rules.target + (end - rules.target) * min(1.0, (step - 1) / rules.target_steps)
    means = standings.means()

    def rank(task: str) -> float:
        weight = PRIOR
        total = PRIOR * means.get(tasks[task].domain, 0.5)
        for seen in tasks[task].groups:
            share = max(0.0, 1.0 - (step - 1 - seen.policy_step) / rules.window)
            weight += share * seen.valid
            total += share * seen.total / MILLION
        mean = total / weight
        spread = math.sqrt(max(0.0, mean * (1.0 - mean)) / weight)
        apart = min(0.99, max(0.0, abs(mean - target) - spread))
        return rounded(-math.log(order[task]) / (1.0 - apart) ** SHARPNESS)

    active = (task for task in free if not tasks[task].retired)
    yield from ((task, "target") for task in sorted(active, key=rank))
    yield from ((task, "retest") for task in retired)


def _chance(rules: Rules, step: int, key: str) -> float:
    """A number in (0, 1) that depends on nothing but these."""
    digest = hashlib.sha256(canonical([rules.random_seed, "schedule", step, key])).digest()
    return (int.from_bytes(digest[:6], "big") + 0.5) / (1 << 48)
