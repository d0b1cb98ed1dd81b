"""What allocation adds to the core: how many rollouts each slot of the next step has."""

from collections.abc import Sequence
from typing import Any

from rods.extension import Extension, StepFold
from rods.family.allocation.settings import AllocationSettings


class Allocation(Extension):
    name = "allocation"
    sections = {"allocation": AllocationSettings()}

    def validate(self, config: Any) -> None:
        rules, rollouts = config.allocation, config.rollouts
        if not rules.enabled:
            return
        if rollouts.refill:
            raise ValueError(
                "allocation.enabled divides a fixed number of rollouts, which rollouts.refill does not have"
            )
        if rules.least > rollouts.rollouts_per_task:
            raise ValueError(f"allocation.least is more than rollouts.rollouts_per_task ({rollouts.rollouts_per_task})")

    def fold(self, config: Any) -> StepFold | None:
        from rods.family.allocation.dividing import Variances

        return Variances(config.allocation.discount) if config.allocation.enabled else None

    def fold_key(self, config: Any) -> Any:
        return config.allocation.discount if config.allocation.enabled else None

    def sizes(self, fold: Any, tasks: Sequence[str], config: Any) -> Sequence[int] | None:
        from rods.family.allocation.dividing import divided

        if fold is None:
            return None
        total = len(tasks) * config.rollouts.rollouts_per_task
        return divided(fold.estimates(tasks), total, config.allocation.least)


EXTENSION = Allocation()
