"""What allocation adds to the configuration."""

from pydantic import Field

from rods.extension import Section


class AllocationSettings(Section):
    """The rollouts of a step, as many as with equal groups, divided by how much the rewards of each task have differed
    (docs/allocation.md). false: `rollouts.rollouts_per_task` for each."""

    enabled: bool = False  # whether they are divided so
    least: int = Field(4, ge=2)  # rollouts that every task has, at most `rollouts.rollouts_per_task`
    # what a group counts for at its task's next one, of what it counted before
    discount: float = Field(0.5, gt=0, le=1)
