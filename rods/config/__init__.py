"""The configuration of a run: one TOML file, two halves. Everything is imported from here.

*Identity* (everything but `[operation]`) says what the run is: a start with another one is refused with a diff.
*Operation* may change at every start and is logged.
"""

from rods.config.identity import (
    CUES,
    DIMENSIONS,
    ERROR_HINTS,
    GUIDELINES,
    Component,
    Curriculum,
    Data,
    DifficultyRules,
    Dimension,
    Feedback,
    Gates,
    PipelineSettings,
    PolicySettings,
    PoolRules,
    RandomSeeds,
    Rollouts,
    Section,
    Selection,
    Stage,
    TaskSource,
    Training,
    Zones,
)
from rods.config.operation import Budgets, Endpoint, Operation, Sandbox, addresses, base_address
from rods.config.roles import Role, Roles
from rods.config.whole import PRESETS, PROTOCOL, Config, identity_diff, parse_config, preset, read_config

__all__ = [
    "CUES",
    "DIMENSIONS",
    "ERROR_HINTS",
    "GUIDELINES",
    "PRESETS",
    "PROTOCOL",
    "Budgets",
    "Component",
    "Config",
    "Curriculum",
    "Data",
    "DifficultyRules",
    "Dimension",
    "Endpoint",
    "Feedback",
    "Gates",
    "Operation",
    "PipelineSettings",
    "PolicySettings",
    "PoolRules",
    "RandomSeeds",
    "Role",
    "Roles",
    "Rollouts",
    "Sandbox",
    "Section",
    "Selection",
    "Stage",
    "TaskSource",
    "Training",
    "Zones",
    "addresses",
    "base_address",
    "identity_diff",
    "parse_config",
    "preset",
    "read_config",
]
