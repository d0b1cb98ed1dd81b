"""What aimed synthesis adds to the configuration."""

from typing import Literal

from pydantic import Field

from rods.extension import Section

Operator = Literal[
    "chain", "follow", "withhold", "pad", "crowd", "trim", "tell", "cut", "split", "serve", "thin"
]
# What the registered study (docs/study.md) knows.
STUDIED: tuple[Operator, ...] = (
    "chain",
    "follow",
    "withhold",
    "pad",
    "trim",
    "tell",
    "cut",
    "split",
    "serve",
)


class Aiming(Section):
    """Where variants go from their seeds: harder, easier, or sideways, by the seed's mean reward
    (docs/aiming.md)."""

    # picks say where variants go, and tasks below the boundary become seeds of easier ones
    enabled: bool = False
    # a seed whose mean reward lies above gets harder variants
    harden_above: float = Field(0.7, ge=0, le=1)
    # one whose mean reward lies below gets easier ones
    soften_below: float = Field(0.3, ge=0, le=1)
    # of a step's seeds at least this share, rounded up, are seeds of easier variants as far as
    # there are such candidates; 0: the ranks decide alone
    easy_share: float = Field(0.25, ge=0, le=1)
    # over so many steps variants go from easier over sideways to harder, whatever their seeds
    # earned; 0: by rewards
    schedule_steps: int = Field(0, ge=0)
    max_calls: int = Field(12, ge=1)  # of a variant, where its seed has not more
    # of a variant, where its seed has not more: calls on its longest chain of results
    max_depth: int = Field(6, ge=1)
    operators: tuple[Operator, ...] = STUDIED  # that may be used; crowd and thin have to be named
