"""What a schedule of tasks is worth to simulated learners, beside drawing all tasks alike.

Claim: where half of the tasks are solved or hopeless at the start, the schedule's area under the
learning curve is 1.25 times that of uniform draws and more, in each of five families of learners,
and where none are, never below 0.97 times it; means over 20 random seeds. Anchors, with as many
rollouts: uniform draws; refill alone (uniform draws, an update only once a batch of groups
disagrees); a pool over one last mean (uniform draws from tasks never seen or whose last mean is
neither 0 nor 1). Command: `python -m bench.schedule`.

The curve is the mean pass rate over held-out tasks of the same difficulties, and the area that
between the curve and its start. A learner has an ability a domain; a task is passed with the
logistic of ability less difficulty; a group teaches by the variance of its rewards. Families:
`logistic`, this; `forgetting`, abilities fade; `plateaus`, twice an ability stands until enough was
taught; `broken`, a fifth of the tasks teach nothing, half of them never passed, the others by
chance; `own`, half of what a group teaches is its task alone, and not held-out ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from bench.figures import Figure, run
from rods.family.schedule.standings import MILLION, Rules, Seen, Standings, choose

FAMILIES = ("logistic", "forgetting", "plateaus", "broken", "own")
DOMAINS = 4
TASKS = 400
BATCH = 32
ROLLOUTS = 8
STEPS = 120
SEEDS = 20
RATE = 0.02  # of ability, a group that disagrees as much as it can
FADE = 0.01  # of ability, a step
WALLS = (0.8, 1.6)  # abilities at which a learner of plateaus stands
WALL = 1.0  # of ability, to be taught before it goes on
Means = Sequence[tuple[int, float]]
# step, count → tasks; and what takes their groups
Sampler = Callable[[int, int], Sequence[int]]


@dataclass
class Learner:
    """Abilities by domain, and tasks by difficulty. `extremes`: whether half of them are solved or
    hopeless at the start."""

    family: str
    extremes: bool
    rng: random.Random
    ability: list[float] = field(default_factory=lambda: [0.0] * DOMAINS)

    def __post_init__(self) -> None:
        self.difficulty = [self._drawn(place) for place in range(TASKS)]
        self.own = [0.0] * TASKS
        self.spent = [[0.0] * len(WALLS) for _ in range(DOMAINS)]
        self.broken = {}
        if self.family == "broken":
            chosen = self.rng.sample(range(TASKS), TASKS // 5)
            self.broken = {task: (0.0, 0.5)[number % 2] for number, task in enumerate(chosen)}

    def _drawn(self, place: int) -> float:
        kind = place // DOMAINS % 4 if self.extremes else 1
        low, high = {0: (-6.0, -4.0), 3: (4.0, 6.0)}.get(kind, (-1.5, 1.5))
        return self.rng.uniform(low, high)

    def rate(self, task: int, own: float = 0.0) -> float:
        ability = self.ability[task % DOMAINS] + own
        return 1.0 / (1.0 + math.exp(self.difficulty[task] - ability))

    def play(self, task: int) -> float:
        """The mean of a group."""
        rate = self.broken.get(task, self.rate(task, self.own[task]))
        return sum(self.rng.random() < rate for _ in range(ROLLOUTS)) / ROLLOUTS

    def learn(self, means: Means) -> None:
        """An update by the groups of a batch."""
        if self.family == "forgetting":
            self.ability = [each * (1.0 - FADE) for each in self.ability]
        for task, mean in means:
            taught = 0.0 if task in self.broken else RATE * 4 * mean * (1 - mean)
            if self.family == "own":
                taught /= 2
                self.own[task] += 20 * taught
            self._gain(task % DOMAINS, taught)

    def _gain(self, domain: int, taught: float) -> None:
        if self.family == "plateaus":
            for place, wall in enumerate(WALLS):
                if self.ability[domain] >= wall and self.spent[domain][place] < WALL:
                    self.spent[domain][place] += taught
                    return
        self.ability[domain] += taught

    def held_out(self) -> float:
        return fmean(self.rate(task) for task in range(TASKS) if task not in self.broken)


def scheduled(rules: Rules) -> Callable[[random.Random], Trainer]:
    return lambda rng: Scheduled(rules.model_copy(update={"random_seed": rng.getrandbits(30)}))


class Trainer:
    """Draws a batch, and is told what it earned."""

    def draw(self, step: int) -> Sequence[int]:
        raise NotImplementedError

    def observe(self, step: int, means: Means) -> Means:
        """What is trained on."""
        return means


class Scheduled(Trainer):
    def __init__(self, rules: Rules) -> None:
        self.standings = Standings(rules, {str(task): str(task % DOMAINS) for task in range(TASKS)})

    def draw(self, step: int) -> Sequence[int]:
        tasks = [task for task, _ in choose(self.standings, step, BATCH)]
        self.standings.draw(step, tasks)
        return [*map(int, tasks)]

    def observe(self, step: int, means: Means) -> Means:
        self.standings.observe(
            step,
            [
                (str(task), Seen(step - 1, ROLLOUTS, round(mean * ROLLOUTS) * MILLION))
                for task, mean in means
            ],
        )
        return means


class Refill(Scheduled):
    """Uniform draws; groups that disagree wait until they are a batch."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(Rules(uniform=True, random_seed=rng.getrandbits(30)))
        self.waiting: list[tuple[int, float]] = []

    def observe(self, step: int, means: Means) -> Means:
        super().observe(step, means)
        self.waiting += [(task, mean) for task, mean in means if 0 < mean < 1]
        batch = self.waiting[:BATCH] if len(self.waiting) >= BATCH else []
        del self.waiting[: len(batch)]
        return batch


class LastMean(Trainer):
    """A pool over one last mean."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.last: dict[int, float] = {}

    def draw(self, step: int) -> Sequence[int]:
        pool = [task for task in range(TASKS) if 0 < self.last.get(task, 0.5) < 1]
        others = [task for task in range(TASKS) if not 0 < self.last.get(task, 0.5) < 1]
        chosen = self.rng.sample(pool, min(BATCH, len(pool)))
        return chosen + self.rng.sample(others, BATCH - len(chosen))

    def observe(self, step: int, means: Means) -> Means:
        self.last.update(means)
        return means


TRAINERS: dict[str, Callable[[random.Random], Trainer]] = {
    "uniform": scheduled(Rules(uniform=True)),
    "refill": Refill,
    "last mean": LastMean,
    "schedule": scheduled(Rules()),
}


def area(family: str, extremes: bool, seed: int, kind: Callable[[random.Random], Trainer]) -> float:
    """Between the learning curve and its start, a step."""
    learner = Learner(family, extremes, random.Random(f"{family} {extremes} {seed}"))
    trainer = kind(random.Random(seed))
    start = learner.held_out()
    curve = []
    for step in range(1, STEPS + 1):
        means = [(task, learner.play(task)) for task in trainer.draw(step)]
        if batch := trainer.observe(step, means):
            learner.learn(batch)
        curve.append(learner.held_out() - start)
    return fmean(curve)


def measure(quick: bool) -> list[Figure]:
    """Areas by family, as ratios to those of uniform draws."""
    figures = []
    for extremes, where, reach in ((True, "half", 1.25), (False, "none", 0.97)):
        for family in FAMILIES:
            areas = {
                name: fmean(
                    area(family, extremes, seed, kind) for seed in range(2 if quick else SEEDS)
                )
                for name, kind in TRAINERS.items()
            }
            for name in ("schedule", "refill", "last mean"):
                figures.append(
                    Figure(
                        f"{family}, {where} solved or hopeless: {name}",
                        areas[name] / areas["uniform"],
                        "× the area of",
                        "uniform draws",
                        areas["uniform"],
                        reach if name == "schedule" else None,
                    )
                )
    return figures


if __name__ == "__main__":
    run(measure)
