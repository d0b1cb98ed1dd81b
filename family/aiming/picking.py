"""Which way a seed's variants go, and the assignment that leads there: pure functions of what they
are given."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rods.canonical import keyed_random, rounded
from rods.composing.records import ComposeError
from rods.family.aiming.operators import TABLES, applicable, led, measures
from rods.family.aiming.settings import Aiming
from rods.rules.selection import Pick, TaskFacts
from rods.rules.zones import zone_of
from rods.tasks import AnyTask, Task

if TYPE_CHECKING:  # it brings numpy, which who looks at a run does not wait for
    from rods.daemon.authors.base import Assignment
    from rods.environments.base import Environment

SIDEWAYS: Mapping[str, Any] = {"direction": "sideways"}


class Directions:
    """Where variants of a run with this configuration go (rods.extension.Aims)."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.rules: Aiming = config.aiming

    def aim(self, step: int, task: AnyTask, mean: float | None) -> dict[str, Any] | None:
        """Where variants of a task go whose mean reward at `step` was `mean` (None: it has none
        yet): `{"direction": …, "operators": […]}`, the operators in the order in which attempts
        take them, or sideways where the mean lies between the bounds or no operator applies. None
        for a task below the boundary without one that makes it easier. With `schedule_steps` the
        share of these that is over stands in place of the mean, and no zone is looked at."""
        direction = "sideways"
        too_hard = False
        steps = self.rules.schedule_steps
        level = min(1.0, step / steps) if steps else mean
        if level is not None:
            too_hard = not steps and zone_of(level, self.config.zones) == "too_hard"
            if too_hard or level < self.rules.soften_below:
                direction = "easier"
            elif level > self.rules.harden_above:
                direction = "harder"
        may = (
            applicable(self.rules, measures(task.type, task.calls))
            if isinstance(task, Task)
            else []
        )
        if not (
            operators := [
                operator for operator in may if TABLES[operator]["direction"] == direction
            ]
        ):
            return None if too_hard else dict(SIDEWAYS)
        keyed_random(self.config.random_seeds.daemon, "aim", f"{step}-{task.id}").shuffle(operators)
        return {"direction": direction, "operators": operators}

    def picks(
        self,
        ranked: Sequence[Pick],
        active: Mapping[str, TaskFacts],
        within: Callable[[Sequence[Pick]], list[Pick]],
    ) -> list[Pick]:
        """The picks of a step with `easy_share` of them, rounded up, seeds of easier variants as
        far as `ranked` has such: those within quotas, then the best ones. The last of the others
        give way."""
        aimed = list[Pick]()
        for pick in ranked:
            task = active[pick.task].task
            if task is not None and (aim := self.aim(pick.step, task, pick.why.get("mean"))):
                aimed.append(replace(pick, why={**pick.why, "aim": aim}))
        chosen = within(aimed)
        most = self.config.selection.seeds_per_step
        # others are never picked
        types = {type for group in self.config.selection.groups for type in group}
        easier = [
            pick
            for pick in aimed
            if pick.why["aim"]["direction"] == "easier" and pick.type in types
        ]
        easier.sort(key=lambda pick: pick not in chosen)
        easier = easier[: math.ceil(rounded(self.rules.easy_share * most))]
        others = [pick for pick in chosen if pick not in easier][: most - len(easier)]
        return sorted([*easier, *others], key=lambda pick: (-pick.score, pick.task))

    def target(
        self, environment: "Environment", given: "Assignment[Task]", aim: Mapping[str, Any]
    ) -> "Assignment[Task]":
        """The assignment with the target of one of the pick's operators: each of its variants
        begins with the next one, and so does each attempt. Raises ComposeError("no_pattern") where
        none leads from the seed to a variant that may be written."""
        if not (operators := aim.get("operators", ())):
            return replace(given, aim=SIDEWAYS)
        _, _, index, attempt = given.key
        first = (index + attempt - 1) % len(operators)
        rng = given.rng("aim")
        for operator in (*operators[first:], *operators[:first]):
            if aimed := led(operator, self.rules, environment, given, rng):
                return aimed
        raise ComposeError(
            "no_pattern", f"none of {', '.join(operators)} leads from the seed to a variant"
        )
