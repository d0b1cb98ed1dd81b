"""What share of groups has variance over time with 10^4, 10^5 and 10^6 original tasks, under each
condition?

Claim: with as many variants as originals (the paper has 400 of each) RODS keeps more groups
informative than static data, for longer. Anchor: static data, with the same visits. Command:
`python -m bench.asymptotics`.

The rules are the product's own: `select`, `derive` (injection, retirement, re-tests), the tracker's
windows and the order of an epoch, over the simulated policy of `rods.trainer.simulated`. Assumed,
and no evidence for the method: how the policy learns (skill grows with the share of groups that
have variance), that a variant is as hard as its root within VARIANT_NOISE, and that every pick
becomes a variant by the next merge. Nothing is written to a disk, and no task has words. A step's
rollouts are drawn together, keyed by the step.

All runs visit as many tasks (10,000 steps of 32), within which the policy outgrows them: what
separates 10^4 from 10^6 originals is how often a task is visited meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np

from bench.figures import Figure, run
from rods.buffers.folds.pool import Candidate, Member, Pool
from rods.buffers.merging.rules import Admission, Refusal, derive
from rods.calls import Call
from rods.canonical import keyed_random
from rods.config import parse_config
from rods.daemon.static_pool import choose
from rods.observations import Group, Rollout
from rods.rules import order
from rods.rules.selection import TaskFacts, select, signals
from rods.rules.tracker import Tracker
from rods.rules.zones import TaskSignal
from rods.tasks import TASK_TYPES, AnyTask, EnvironmentRef, Task
from rods.trainer import simulated

# the quick run is so much smaller in all, and the policy learns so much faster
VISITS = 320_000
SMALLER = 32
GROWTH = 3e-4  # skill a step whose groups all have variance
CONDITIONS: dict[str, dict[str, dict[str, Any]]] = {
    "RODS": {},
    "static data": {"selection": {"seeds_per_step": 0}},
    "static pool": {"pool": {"static": True}},
    "random seeds": {"selection": {"order": "random", "candidates": "pool"}},
    "binary boundary": {"selection": {"boundary": "binary"}},
    "variance instead of the proxy": {"selection": {"order": "variance"}},
    "no retirement": {"pool": {"retirement": False}},
    "no re-tests": {"pool": {"retest_fraction": 0.0}},
}
FEW = 400  # the paper's `max_generated`, whatever the number of originals
FEWER = f"RODS, {FEW} variants at most"
CONDITIONS[FEWER] = {}
MAIN = ("static data", "RODS", "static pool", "random seeds", "no retirement", FEWER)
# of a million no epoch ends, so that no merge comes and nothing differs
ORIGINALS = {10_000: tuple(CONDITIONS), 100_000: MAIN, 1_000_000: ("static data", "RODS")}
# of the pool, evenly, for order = "random": which of them come first is what the whole pool would
# give
DRAWN = 512
PARTS = (100, 32, 10, 3, 1)  # spans end after a hundredth of the visits, a thirty-second, …
NOWHERE = EnvironmentRef("simulated", "0")


class Known(NamedTuple):
    """What the simulated policy knows of a task: its difficulty, its turns, and the number of its
    root."""

    difficulty: float
    turns: int
    root: int


class Span(NamedTuple):
    """The share of groups with variance since the span before; skill and active variants at its
    end."""

    until: int  # tasks visited
    share: float
    skill: float
    variants: int


def measure(quick: bool) -> list[Figure]:
    """The share of groups with variance in each span of a run, by condition and number of
    originals."""
    smaller = SMALLER if quick else 1
    return [figure for originals in ORIGINALS for figure in compare(originals, smaller)]


def compare(asked: int, smaller: int = 1) -> list[Figure]:
    """All conditions with `asked` originals."""
    visits = VISITS // smaller
    originals = asked // smaller
    growth = GROWTH * smaller
    anchor = Loop(CONDITIONS["static data"], originals, originals, growth).play(visits)
    figures = []
    for name in ORIGINALS[asked]:
        variants = FEW if name == FEWER else originals
        spans = (
            anchor
            if name == "static data"
            else Loop(CONDITIONS[name], originals, variants, growth).play(visits)
        )
        figures += [_figure(originals, name, *pair) for pair in zip(spans, anchor, strict=True)]
        print(*figures[-len(PARTS) :], sep="\n", file=sys.stderr, flush=True)
    return figures


def _figure(originals: int, name: str, span: Span, anchor: Span) -> Figure:
    claim = (
        f"{originals:,} originals, {name}: groups with variance up to visit {span.until:,} "
        f"(then skill {span.skill:.2f}, {span.variants:,} variants)"
    )
    return Figure(claim, 100 * span.share, "%", "static data", 100 * anchor.share)


class Everything(Admission):
    """Refuses nothing: near duplicates are a matter of words."""

    def __init__(self) -> None:
        pass

    def examine(self, content: Any) -> Refusal | Task:
        return cast(Task, content)

    def admitted(self, task: AnyTask) -> None:
        pass

    def left(self, task_id: str) -> None:
        pass


class Loop:
    """A run of the rules in memory."""

    def __init__(
        self,
        changes: Mapping[str, Mapping[str, Any]],
        originals: int,
        variants: int,
        growth: float = GROWTH,
    ) -> None:
        pool = {"max_generated": variants, **changes.get("pool", {})}
        policy = {"kind": "simulated", "growth": growth}
        self.config = parse_config(
            {**changes, "policy": policy, "pool": pool}, where="bench.asymptotics"
        )
        self.policy = simulated.SimulatedPolicy(self.config)
        self.tracker = Tracker(self.config.zones, self.config.selection.boundary)
        self.known: dict[str, Known] = {}
        self.pool = Pool(
            Member(task.id, task.type, 0) for task in map(self._task, range(originals))
        )
        self.admission = Everything()
        self.staged: dict[int, dict[str, Task]] = {}
        self.facts: dict[str, TaskFacts] = {}
        self._ids: list[str] = []
        self.last_picked: dict[str, int] = {}
        self.written = self.step = self.epoch = 0

    def play(self, visits: int) -> list[Span]:
        """Plays so many visits."""
        spans: list[Span] = []
        ends = [visits // part for part in PARTS]
        seen = informative = seen_before = informative_before = 0
        while len(spans) < len(ends):
            slots = self._merge()
            batches = order.steps_per_epoch(len(slots), self.config.training.batch_tasks)
            for index in range(batches):
                self.step += 1
                groups = self._groups(order.batch(slots, self.config.training.batch_tasks, index))
                seen += len(groups)
                informative += sum(
                    len({one.resolved for one in group.rollouts}) > 1 for group in groups
                )
                self.policy.practise(groups)
                self._pick(groups, last=index + 1 == batches)
                if seen >= ends[len(spans)]:
                    share = (informative - informative_before) / (seen - seen_before)
                    spans.append(Span(seen, share, self.policy.skill, len(self.pool.generated)))
                    seen_before = seen
                    informative_before = informative
                    if len(spans) == len(ends):
                        break
            self.epoch += 1
        return spans

    def _merge(self) -> Sequence[order.EpochSlot]:
        candidates = [Candidate(seq, "", 0, 0, 0, cast(Any, self.staged)) for seq in self.staged]
        decisions, closing = derive(
            self.config,
            self.pool,
            self.tracker,
            candidates,
            self.admission,
            epoch=self.epoch,
            stage=1,
            step=self.step,
            expanded_seq=self.written,
        )
        for record in (*decisions, {"kind": "epoch", "attempt": 1, **closing}):
            self.pool.apply(record)
        self.staged = {
            seq: task for seq, task in self.staged.items() if seq not in self.pool.decided
        }
        self._ids = list(self.pool.active)
        self.facts = {
            one.task_id: TaskFacts(one.type, one.generation) for one in self.pool.active.values()
        }
        seed = self.config.random_seeds.order
        return order.slots(seed, self.epoch, self._ids, closing["retests"])

    def _groups(self, slots: Sequence[order.EpochSlot]) -> list[Group]:
        """The rollouts of a step, in the tracker when this returns."""
        known = [self.known[slot.task_id] for slot in slots]
        count = self.config.rollouts.rollouts_per_task
        most = max(one.turns for one in known)
        chances = 1 / (
            1 + np.exp([(one.difficulty - self.policy.skill) / simulated.WIDTH for one in known])
        )
        draws = np.random.Generator(np.random.Philox(self.step)).random((len(slots), count, most))
        played = np.arange(most) < np.array([[one.turns] for one in known])
        resolved = ((draws < chances[:, None, None]) & played[:, None, :]).sum(2).tolist()
        groups = []
        for slot, one, numbers in zip(slots, known, resolved, strict=True):
            rollouts = tuple(_rollout(number, one.turns) for number in numbers)
            group = Group(slot.task_id, 1, "identity", "progress", (0.0, 1.0), rollouts, slot.role)
            self.tracker.apply([{"kind": "group", "step": self.step, **group.as_json()}])
            groups.append(group)
        return groups

    def _pick(self, groups: Sequence[Group], *, last: bool) -> None:
        """Every pick becomes a variant. `last`: of the epoch's steps."""
        rules = self.config.selection
        pool = self.config.pool
        if pool.static:
            if self.epoch == 0 and last:
                windows = filter(None, map(self.tracker.window, self.facts))
                picks = choose(
                    self.step, [window.signal() for window in windows], self.facts, self.config
                )
                for number in range(pool.max_generated if picks else 0):
                    self._write(picks[number % len(picks)].task)
            return
        if len(self.staged) > pool.staging_epochs * pool.inject_fraction * len(self.facts):
            return  # the daemon pauses
        candidates = signals(groups, rules)
        if rules.order == "random":
            rng = keyed_random(0, "asymptotics", self.step)
            candidates = [
                TaskSignal(task, None) for task in rng.sample(self._ids, min(DRAWN, len(self._ids)))
            ]
        for pick in select(self.step, candidates, self.facts, self.last_picked, self.config):
            self.last_picked[pick.task] = self.step
            self._write(pick.task)

    def _write(self, seed: str) -> None:
        self.written += 1
        task = self._task(self.known[seed].root, self.facts[seed].generation + 1, self.written)
        self.staged[self.written] = {"task": task}

    def _task(self, number: int, generation: int = 0, variant: int = 0) -> Task:
        """Original `number`, or one of its variants."""
        calls = (
            (Call("act"),),
            (Call("act"),) * (1 + number % 3),
            *[(Call("act"),)] * (number % 4),
        )
        script = (f"{number} {variant}", *["Go on."] * (len(calls) - 1))
        told: dict[str, Any] = {}
        if variant:
            told = {"root": self._task(number).id, "generation": generation}
        task = Task(NOWHERE, TASK_TYPES[number // 12 % 4], script, calls, ("act",), provenance=told)
        self.known[task.id] = Known(simulated.difficulty(task), task.expected, number)
        return task


@cache
def _rollout(resolved: int, turns: int) -> Rollout:
    return Rollout(resolved, turns, int(resolved == turns), 0.0, resolved / turns, "finished")


if __name__ == "__main__":
    run(measure)
