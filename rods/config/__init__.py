"""The configuration of a run: one TOML file, two halves. Everything is imported from here.

*Identity* (everything but `[operation]`) says what the run is: a start with another one is refused with a diff.
*Operation* may change at every start and is logged.
"""

from rods.config.identity import (
    Curriculum,
    Data,
    Gates,
    PipelineSettings,
    PolicySettings,
    PoolRules,
    RandomSeeds,
    Rollouts,
    Selection,
    Stage,
    Training,
    Zones,
)
from rods.config.operation import Budgets, Endpoint, Operation, Sandbox, Writing, addresses, base_address
from rods.config.roles import Role, Roles, WriterRoles
from rods.config.whole import PRESETS, PROTOCOL, Config, identity_diff, parse_config, preset, read_config
from rods.extension import Section

__all__ = [
    "PRESETS",
    "PROTOCOL",
    "Budgets",
    "Config",
    "Curriculum",
    "Data",
    "Endpoint",
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
    "Training",
    "WriterRoles",
    "Writing",
    "Zones",
    "addresses",
    "base_address",
    "identity_diff",
    "parse_config",
    "preset",
    "read_config",
]
