"""The configuration of a run: one TOML file, two halves (DESIGN §4).

*Identity* (everything but `[operation]`) says what the run is: a start with another one is refused with a diff.
*Operation* may change at every start and is logged.
"""

from rods.config.identity import (
    Curriculum,
    Data,
    Gates,
    Policy,
    Pool,
    RandomSeeds,
    Rollouts,
    Section,
    Selection,
    Stage,
    Zones,
)
from rods.config.operation import Budgets, Endpoint, Operation, Sandbox
from rods.config.whole import PROTOCOL, Config, identity_diff, parse_config, read_config

__all__ = [
    "PROTOCOL",
    "Budgets",
    "Config",
    "Curriculum",
    "Data",
    "Endpoint",
    "Gates",
    "Operation",
    "Policy",
    "Pool",
    "RandomSeeds",
    "Rollouts",
    "Sandbox",
    "Section",
    "Selection",
    "Stage",
    "Zones",
    "identity_diff",
    "parse_config",
    "read_config",
]
