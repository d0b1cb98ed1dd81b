"""How many groups should drift look at? Dead weight against false retirements, with the simulated policy.

Claim: with the default of `pool.drift_groups` a variant that the policy has outgrown leaves within a few groups, and
few leave that still teach. Anchor: the whole window of eight groups. Command: `python -m bench.retirement`.

Real rules (tracker, burn-in, drift) over desk tasks that play variants: each is admitted when it seems to lie at the
boundary, give or take a variant's noise, and gives one group of 16 rollouts an epoch. The skill moves by a fixed amount
an epoch, so that all settings see the same policy and the same draws. A variant is dead weight while its true chance
lies outside [too_hard_below, mastered_above]; a retirement by drift is false where it lies in the boundary zone.
"""

from __future__ import annotations

from collections import Counter

from bench.figures import Figure, run
from rods.canonical import keyed_random
from rods.config import Config, PoolRules
from rods.observations import Group
from rods.rules.retirement import burn_in, drift
from rods.rules.tracker import Tracker
from rods.rules.zones import zone_of
from rods.tasks import Task
from trainer.simulated import VARIANT_NOISE, rollout, turn_chance
from worlds import desk

POLICIES = {"slow (+0.01 an epoch)": 0.01, "usual (+0.03)": 0.03, "fast (+0.10)": 0.1, "forgetting (−0.03)": -0.03}
ROLLOUTS = 16


def measure(quick: bool) -> list[Figure]:
    """Dead groups a variant, and false retirements by drift, for 1 to 8 groups."""
    tasks = desk.generate(7, 60 if quick else 400, 0)
    figures = []
    for policy, pace in POLICIES.items():
        for groups in (1, 3, 8) if quick else range(1, 9):
            found = life(tasks, pace, groups)
            about = f"{policy}, {groups} groups"
            variants = found["variants"]
            figures += [
                Figure(f"{about}: dead groups a variant", found["dead"] / variants, "groups"),
                Figure(f"{about}: of all groups", 100 * found["dead"] / found["groups"], "% dead"),
                Figure(f"{about}: false retirements", 100 * found["false"] / variants, "% of variants"),
            ]
    return figures


def life(tasks: list[Task], pace: float, groups: int) -> Counter[str]:
    """What becomes of the variants while the skill moves by `pace` an epoch, over its whole range."""
    config = Config()
    rules = PoolRules(drift_groups=groups, drift_observations=min(groups, PoolRules().drift_observations))
    tracker, found = Tracker(config.zones), Counter[str]()
    admitted: dict[str, int] = {}
    active: dict[str, Task] = {}
    skill, epoch = (-0.1 if pace > 0 else 1.1), 0
    while -0.5 < skill < 1.5:
        epoch, skill = epoch + 1, skill + pace
        for task in tasks:
            noise = VARIANT_NOISE * (2 * keyed_random(7, "noise", task.id).random() - 1)
            if task.id not in admitted and zone_of(turn_chance(task, skill + noise), config.zones) == "boundary":
                admitted[task.id], active[task.id] = epoch, task
                found["variants"] += 1
        for number, task in enumerate(list(active.values())):
            chance = turn_chance(task, skill)
            drawn = tuple(rollout(task, chance, "progress", 7, epoch, task.id, index) for index in range(ROLLOUTS))
            group = Group(task.id, 1, "identity", "progress", (0.0, 1.0), drawn, "active")
            tracker.apply([{"kind": "group", "step": epoch, "index": number, **group.as_json()}])
            inside = rules.too_hard_below <= chance <= rules.mastered_above
            found["groups"] += 1
            found["dead"] += not inside
            standing = tracker.standing(task.id, 0)
            if burn_in(task.id, standing, standing.groups - 1, rules):
                del active[task.id]
            elif drift(task.id, tracker.standing(task.id, 0, groups), rules):
                del active[task.id]
                found["false"] += zone_of(chance, config.zones) == "boundary"
    return found


if __name__ == "__main__":
    run(measure)
