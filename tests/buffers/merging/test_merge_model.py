"""Merges against a slow model that shares no code with them: plain lists, exact fractions, the
rules of 004 §3.4."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from rods.buffers.trainer_log import TrainerLog
from rods.config import PoolRules, Zones
from rods.rules.order import EpochSlot
from tests.buffers.world import Players, SyncDaemonLog, make_run

Group = tuple[int, Fraction, Fraction]  # step, mean, variance


class Model:
    """The pool as a dictionary, the history as a list."""

    def __init__(self, originals: list[str], rules: PoolRules, zones: Zones) -> None:
        self.rules = rules
        self.zones = zones
        # task → admitted, since
        self.active: dict[str, tuple[int, int]] = dict.fromkeys(originals, (0, 0))
        self.originals = set(originals)
        self.retired: dict[str, tuple[str, int]] = {}  # task → rule, step
        self.history: dict[str, list[Group]] = {}
        self.merges: list[int] = []  # step of every epoch record
        self.waiting: list[tuple[str, str]] = []  # task, what the log says became of it
        self.decisions: list[tuple[str, str, str]] = []

    def observe(self, step: int, task: str, resolved: list[int], expected: int) -> None:
        values = [Fraction(one, expected) for one in resolved]
        mean = sum(values, Fraction()) / len(values)
        variance = sum(((value - mean) ** 2 for value in values), Fraction()) / len(values)
        self.history.setdefault(task, []).append((step, mean, variance))

    def window(self, task: str, since: int) -> list[Group]:
        return [
            group for group in self.history.get(task, [])[-self.zones.window :] if group[0] > since
        ]

    def counted(self, task: str) -> int:
        """Groups since the task was admitted or, once revived, retired."""
        return sum(group[0] > self.active[task][1] for group in self.history.get(task, []))

    def variants(self) -> list[str]:
        return sorted(set(self.active) - self.originals)

    def retire(self, task: str, rule: str, step: int) -> None:
        self.decisions.append(("retired", task, rule))
        del self.active[task]
        self.retired[task] = (rule, step)

    def merge(self, step: int, expand: bool) -> list[tuple[str, str, str]]:
        self.decisions = []
        if expand:
            self._merge(step)
        self.merges.append(step)
        return self.decisions

    def _merge(self, step: int) -> None:
        rules = self.rules
        epoch = len(self.merges)
        before = self.merges[-1] if self.merges else 0
        low = Fraction(str(self.zones.boundary_low))
        high = Fraction(str(self.zones.boundary_high))
        for task, (rule, gone) in sorted(self.retired.items()):
            seen = self.window(task, gone)
            if rule in ("burn_in", "drift_too_hard") and seen and low <= seen[-1][1] <= high:
                self.decisions.append(("revived", task, "retest"))
                del self.retired[task]
                self.active[task] = (epoch, gone)
        means: dict[str, Fraction] = {}  # of those that have been observed
        for task in self.variants():
            seen = self.window(task, self.active[task][1])
            if seen:
                means[task] = sum((group[1] for group in seen), Fraction()) / len(seen)
            since = self.active[task][1]
            earlier = sum(since < group[0] <= before for group in self.history.get(task, []))
            first = earlier < rules.burn_in_observations <= self.counted(task)
            if rules.burn_in and first and means[task] < Fraction(str(rules.burn_in_below)):
                self.retire(task, "burn_in", step)
        for task in self.variants():
            seen = self.window(task, self.active[task][1])
            if self.counted(task) >= rules.drift_observations:
                last = [group[1] for group in seen[-rules.drift_groups :]]
                mean = sum(last, Fraction()) / len(last)
                if mean > Fraction(str(rules.mastered_above)):
                    self.retire(task, "drift_mastered", step)
                elif mean < Fraction(str(rules.too_hard_below)):
                    self.retire(task, "drift_too_hard", step)
        for task in self.variants():
            if epoch - self.active[task][0] >= rules.unsampled_epochs:
                start = self.merges[epoch - rules.unsampled_epochs]
                if not any(group[0] > start for group in self.history.get(task, [])):
                    self.retire(task, "unsampled", step)
        observed = [task for task in self.variants() if self.window(task, self.active[task][1])]
        budget = min(
            max(1, int(Fraction(str(rules.inject_fraction)) * len(self.active))),
            rules.max_generated - len(self.variants()) + len(observed),
        )
        while self.waiting and budget > 0:
            task, outcome = self.waiting.pop(0)
            if outcome == "injected":
                self.active[task] = (epoch, step)
                budget -= 1
                self.decisions.append(("injected", task, ""))
            else:
                self.decisions.append(("refused", task, outcome))
        spread = {
            task: sum(group[2] for group in seen) / len(seen)
            for task in self.variants()
            if (seen := self.window(task, self.active[task][1]))
        }
        for task in sorted(spread, key=lambda one: (spread[one], one))[
            : max(0, len(self.variants()) - rules.max_generated)
        ]:
            self.retire(task, "capacity", step)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.data())
def test_merges_do_what_a_slow_model_does(tmp_path_factory: Any, data: st.DataObject) -> None:
    pool = {
        "max_generated": data.draw(st.integers(1, 9)),
        "inject_fraction": data.draw(st.sampled_from([0.17, 0.29, 0.5])),
        "burn_in": data.draw(st.booleans()),
        "burn_in_observations": data.draw(st.integers(1, 5)),
        "drift_observations": data.draw(st.integers(1, 5)),
        "unsampled_epochs": data.draw(st.integers(1, 3)),
        "retest_fraction": data.draw(st.sampled_from([0.05, 0.2])),
    }
    run = make_run(
        tmp_path_factory.mktemp("model") / "run",
        pool=pool,
        zones={"window": data.draw(st.integers(2, 4))},
        curriculum={"stages": [{"epochs": 5}, {"types": ["base", "miss_func"]}]},
        training={"batch_tasks": 2},
    )
    levels = data.draw(st.lists(st.integers(0, 10), min_size=11, max_size=11))

    def rewards(step: int, slot: EpochSlot, expected: int) -> list[int]:
        level = levels[(int(slot.task_id[:6], 16) + step // 9) % 11]
        return [
            expected if (step + index * 3) % 10 < level else expected // 2 * (index % 2)
            for index in range(3)
        ]

    with TrainerLog(run) as trainer, SyncDaemonLog(run) as daemon:
        trainer.start()
        players = Players(run, trainer, daemon)
        players.rewards = rewards
        for number in range(9):
            players.epoch(number, stage=1 if number < 5 else 2)
    merges: list[list[dict[str, Any]]] = [[]]
    for record in lines(run.path / "pool.jsonl"):
        merges[-1].append(record)
        if record["kind"] == "epoch":
            merges.append([])
    outcomes = {
        record["expanded"]: record.get("rule", "injected")
        for group in merges
        for record in group
        if "expanded" in record
    }
    variants = [
        record for part in sorted(run.path.glob("expanded_epoch_*")) for record in lines(part)
    ]
    model = Model(list(run.training), run.config.pool, run.config.zones)
    groups = [
        record for record in lines(run.path / "observations.jsonl") if record["kind"] == "group"
    ]
    for merge in merges[:-1]:
        closing = merge[-1]
        for record in groups:
            if record["step"] <= closing["step"] and (
                not model.merges or record["step"] > model.merges[-1]
            ):
                rollouts = record["rollouts"]
                model.observe(
                    record["step"],
                    record["task"],
                    [one["resolved"] for one in rollouts],
                    rollouts[0]["expected"],
                )
        while variants and variants[0]["seq"] <= closing["expanded_seq"]:
            variant = variants.pop(0)
            model.waiting.append((variant["task"]["id"], outcomes.get(variant["seq"], "injected")))
        said = [(record["kind"], record["task"], record.get("rule", "")) for record in merge[:-1]]
        assert said == model.merge(closing["step"], expand=True)
        assert closing["counts"]["generated"] == len(model.variants())
        assert closing["deferred"]["count"] == len(model.waiting)
