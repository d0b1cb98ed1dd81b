"""How many groups layer 2 of retirement should look at (`pool.drift_groups`).

Claim: a few groups find what the policy has outgrown as surely as the window's eight, and sooner.
Anchor: all eight. Command: `python -m bench.retirement`.

The rule itself, over the tracker's standings, with rollouts of the simulated policy (16 a group) on
desk's tasks, one group an epoch. *Dead weight*: a variant is seen once at the boundary, then the
policy has mastered it, or it never learns it: the epochs until it is retired. *False*: variants
whose true reward stays inside the boundary zone for twenty epochs, and that are retired all the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import fmean

from bench.figures import Figure, run
from rods.config import PoolRules, Zones
from rods.observations import Group
from rods.rules.retirement import drift
from rods.rules.tracker import Tracker
from rods.tasks import Task
from rods.trainer.simulated import rollout
from rods.worlds import desk

ROLLOUTS = 16
EPOCHS = 20
GROUPS = range(1, 9)
# true rewards that are at the boundary, whatever one group says
LOW = 0.25
HIGH = 0.80


def measure(quick: bool) -> list[Figure]:
    """For each number of groups: epochs of dead weight after mastery and after hopelessness, and
    the share of boundary variants that are retired falsely within twenty epochs."""
    tasks = [task for task in desk.generate(3, 200 if quick else 1_000, 0) if task.expected > 1]
    found: dict[int, tuple[float, float, float]] = {}
    for groups in GROUPS:
        rules = PoolRules(drift_groups=groups)
        mastered = [
            _epochs(task, rules, lambda epoch: 0.5 if epoch == 1 else 0.999) for task in tasks
        ]
        hopeless = [
            _epochs(task, rules, lambda epoch: 0.4 if epoch == 1 else 0.02) for task in tasks
        ]
        spread = [LOW + (HIGH - LOW) * place / len(tasks) for place in range(len(tasks))]
        kept = [
            _epochs(task, rules, partial(_steady, chance))
            for task, chance in zip(tasks, spread, strict=True)
        ]
        false = fmean(epochs < EPOCHS for epochs in kept)
        found[groups] = fmean(mastered) - 1, fmean(hopeless) - 1, false
    figures = []
    for groups, (mastered_for, hopeless_for, false) in found.items():
        name = f"{groups} group{'s' if groups > 1 else ''}"
        figures += [
            Figure(
                f"{name}: dead weight of a mastered variant",
                mastered_for,
                "epochs",
                "8 groups",
                found[8][0],
            ),
            Figure(
                f"{name}: dead weight of a hopeless variant",
                hopeless_for,
                "epochs",
                "8 groups",
                found[8][1],
            ),
            Figure(
                f"{name}: boundary variants retired falsely in 20 epochs",
                100 * false,
                "%",
                "8 groups",
                100 * found[8][2],
            ),
        ]
    return figures


def _steady(chance: float, epoch: int) -> float:
    return chance


def _epochs(task: Task, rules: PoolRules, chance: Callable[[int], float]) -> int:
    """The epochs until the rule retires a variant whose turns are resolved with `chance(epoch)`;
    `EPOCHS` if never."""
    tracker = Tracker(Zones())
    for epoch in range(1, EPOCHS + 1):
        rollouts = tuple(
            rollout(task, chance(epoch), "progress", 1, epoch, index) for index in range(ROLLOUTS)
        )
        group = Group(task.id, 1, "identity", "progress", (0.0, 1.0), rollouts)
        tracker.apply([{"kind": "group", "step": epoch, **group.as_json()}])
        if drift(task.id, tracker.standing(task.id, 0), rules) is not None:
            return epoch
    return EPOCHS


if __name__ == "__main__":
    run(measure)
