"""What skills add to the configuration."""

from pydantic import Field

from rods.extension import Section


class SkillSettings(Section):
    """Functions of variants that are drawn by how well the policy uses them, those preferred that it gets right half of
    the time (docs/skills.md). false: all alike."""

    enabled: bool = False  # whether they are drawn so
    discount: float = Field(0.95, gt=0, le=1)  # what a turn counts for one step later, of what it counted before
    # the weight of a function that was never practised; of one that was, drawn anew for each pick, it lies from 0.01 to
    # 1, at 0.5 in the mean of one of which nothing is known
    floor: float = Field(0.5, gt=0, le=1)
