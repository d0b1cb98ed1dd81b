"""The configuration of a run: one TOML file, two halves, read here. Everything is imported from
here.

*Identity* (everything but `[operation]`) says what the run is: a start with another one is refused
with a diff. *Operation* may change at every start and is logged. Unknown keys and wrong types are
errors that name the key."""

import difflib
import math
import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, get_args

import orjson
from pydantic import ValidationError, model_validator

from rods.canonical import JsonObject
from rods.config.identity import (
    Curriculum,
    Data,
    Gates,
    PipelineSettings,
    PolicySettings,
    PoolRules,
    RandomSeeds,
    Roles,
    Rollouts,
    Selection,
    Stage,
    Training,
    Zones,
)
from rods.config.operation import (
    COMPUTES,
    Budgets,
    Endpoint,
    Operation,
    Sandbox,
    addresses,
    base_address,
)
from rods.config.sections import SECTIONS, with_sections
from rods.errors import UserError
from rods.extension import Door
from rods.files import module_table, read_toml
from rods.model_roles import Role
from rods.section import Section

# what is made in other modules, and imported from here
__all__ = [
    "COMPUTES",
    "Budgets",
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
    "Zones",
    "addresses",
    "base_address",
]
PROTOCOL = 1  # version of the run folder's formats (docs/protocol.md)


class DrawnSlots(Protocol):
    """Slots of every batch, behind those of the pool, that have tasks which are drawn for them."""

    def slots(self, config: "Config") -> int:
        """How many of a batch; 0: none."""

    def epoch_steps(self, config: "Config") -> int:
        """How many steps lie between two merges where they are all of a batch, and no pool is gone
        through."""


DRAWN_SLOTS: Door[DrawnSlots] = Door("drawn_slots")  # (001)
MOST_BASES = 8  # files that extend each other
# raise ValueError for values that do not go together with the rest of the configuration (001)
CONFIG_CHECKS: Door[Callable[["Config"], None]] = Door("config_checks")


@with_sections(SECTIONS)
class Config(Section):
    """A whole run; `Config` has the sections of extensions, too. `sync` is free (the default) or
    lockstep (reproducible)."""

    # sets the keys that the file leaves out; rods-paper: docs/paper.md
    preset: Literal["", "rods-paper"] = ""
    sync: Literal["free", "lockstep"] = "free"  # how trainer and daemon keep step
    data: Data = Data()
    random_seeds: RandomSeeds = RandomSeeds()
    policy: PolicySettings = PolicySettings()
    rollouts: Rollouts = Rollouts()
    training: Training = Training()
    curriculum: Curriculum = Curriculum()
    zones: Zones = Zones()
    selection: Selection = Selection()
    pool: PoolRules = PoolRules()
    pipeline: PipelineSettings = PipelineSettings()
    roles: Roles = Roles()
    gates: Gates = Gates()
    operation: Operation = Operation()

    @model_validator(mode="after")
    def _sections_agree(self) -> "Config":
        """What sections, those of extensions too, ask of each other."""
        training = self.training
        # such a group has no mean or deviation of its own, and no variance to find a boundary with
        if self.rollouts.rollouts_per_task == 1:
            if training.advantage_baseline != "batch" or training.advantage_scale == "group":
                raise ValueError(
                    "rollouts.rollouts_per_task = 1 gives every group the advantage 0: use at "
                    'least 2 (the paper: 16), or training.advantage_baseline = "batch" with '
                    'advantage_scale = "batch" or "none"'
                )
            if (
                self.zones.probe == "group"
                and self.selection.seeds_per_step
                and self.selection.order != "random"
            ):
                raise ValueError(
                    "rollouts.rollouts_per_task = 1 has no variance inside a group, so no task "
                    'would ever be picked: set zones.probe = "window"'
                )
            pool = self.pool
            hasty = [
                name
                for name in ("burn_in", "drift")
                if getattr(pool, name) and getattr(pool, f"{name}_observations") < self.zones.window
            ]
            if (
                hasty
                and pool.retirement
                and self.zones.probe == "window"
                and self.selection.seeds_per_step
            ):
                keys = " and ".join(f"pool.{name}_observations" for name in hasty)
                raise ValueError(
                    "rollouts.rollouts_per_task = 1 counts rollouts, not groups, in retirement, "
                    f"which would judge a variant before its window is full: set {keys} to "
                    f"zones.window ({self.zones.window}), or switch the layer off"
                )
        if (
            self.selection.order == "advantage"
            and training.advantage_scale == "group"
            and not training.advantage_hook
        ):
            raise ValueError(
                'selection.order = "advantage" ranks by the variance of advantages, and with '
                'training.advantage_scale = "group" that is 1 for every group that disagrees: set '
                'it to "batch" or "none", or name an advantage_hook'
            )
        computes = ["threads", *chain(*COMPUTES)]
        if (compute := self.operation.compute) not in computes:
            raise ValueError(
                f"operation.compute = {compute!r} is nothing that is installed: use "
                f"{', '.join(computes)}"
            )
        for check in CONFIG_CHECKS:
            check(self)
        if self.rollouts.refill and (
            training.advantage_baseline == "batch" or self.pool_slots < training.batch_tasks
        ):
            raise ValueError(
                "rollouts.refill replaces groups that have no advantage by other tasks of the "
                'pool: set it to 0, or training.advantage_baseline to "group" or "leave_one_out", '
                "and let no tasks be drawn for a step"
            )
        if self.rollouts.ahead and (self.rollouts.refill or training.engine_correction == "none"):
            raise ValueError(
                "rollouts.ahead = 1 plays a step's batch at once, by older weights: set "
                "rollouts.refill to 0, and training.engine_correction to anything but none"
            )
        return self

    @property
    def pool_slots(self) -> int:
        """How many slots of a batch have tasks of the pool, its first ones; the others are
        drawn."""
        drawn = sum(tasks.slots(self) for tasks in DRAWN_SLOTS)
        return self.training.batch_tasks - drawn

    def identity(self) -> JsonObject:
        """The identity half as JSON, protocol version included. Of the folder of `policy.model`
        only the name counts: on another machine it may lie elsewhere."""
        half = self.model_dump(mode="json", exclude={"operation"})
        half["policy"]["model"] = Path(self.policy.model).name
        return {"protocol": PROTOCOL, **half}

    def lasting_as(self, other: "Config") -> Self:
        """This configuration with the steps and stages of `other`: what an extension of a run may
        change."""
        training = self.training.model_copy(update={"steps": other.training.steps})
        curriculum = self.curriculum.model_copy(update={"stages": other.curriculum.stages})
        return self.model_copy(update={"training": training, "curriculum": curriculum})

    if TYPE_CHECKING:  # sections that extensions bring

        def __getattr__(self, name: str) -> Any: ...


def read_config(path: Path) -> Config:
    """Reads a TOML file and what it extends; makes a folder in `policy.model`, which is relative to
    it, absolute. Raises UserError."""
    config = parse_config(read_values(path), where=str(path))
    if config.policy.kind == "external" or not config.policy.model:
        return config
    # Links are kept: one may stand for a folder that has moved, and its name is the identity.
    model = os.path.abspath(path.parent / Path(config.policy.model).expanduser())  # noqa: PTH100
    return config.model_copy(update={"policy": config.policy.model_copy(update={"model": model})})


def read_values(path: Path, depth: int = 0) -> JsonObject:
    """The keys of a configuration. With `extends = "other.toml"`, relative to it, those of the
    other file count where it leaves a key out, as if they stood in it; a list is taken whole.
    Raises UserError."""
    values = read_toml(path, "cannot read the configuration", "check the path of this file")
    base = values.pop("extends", None)
    if base is None:
        return values
    if not isinstance(base, str) or depth == MOST_BASES or not (path.parent / base).is_file():
        what = f"extends {_short(base)}: no file, or {MOST_BASES} files extend each other"
        raise UserError(what, where=str(path), remedy="name another file, which ends the row")
    merged: JsonObject = _merged(read_values(path.parent / base, depth + 1), values)
    return merged


def preset(name: str) -> JsonObject:
    """The values of a preset, as TOML gives them."""
    return module_table(__file__, f"{name}.toml")


def _resolved(values: JsonObject) -> JsonObject:
    """`values` with those of their preset where they leave a key out."""
    name = values.get("preset")
    if not name or name not in get_args(Config.model_fields["preset"].annotation):
        return values
    own = _merged({"operation": {"endpoints": []}}, values)
    base = preset(name)
    match own:
        case {"pipeline": {"author": "procedural"}}:
            del base["pipeline"]  # what it says is of a model, or the default
    return _merged(base, own)  # type: ignore[no-any-return]


def _merged(base: Any, own: Any) -> Any:
    """`own` over `base`, key by key; a table of `base` is merged into every table of a list in its
    place."""
    if isinstance(base, dict) and isinstance(own, list):
        return [_merged(base, item) for item in own]
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    return base | {key: _merged(base.get(key), value) for key, value in own.items()}


def parse_config(values: JsonObject, *, where: str) -> Config:
    """Checks `values`, completed by their preset. Raises UserError naming every key at fault."""
    remedy = "docs/configuration.md lists every key with its range"
    if unsayable := list(_unsayable(values)):
        raise UserError("; ".join(unsayable), where=where, remedy=remedy)
    try:
        return Config.model_validate_json(orjson.dumps(_resolved(values), default=str))
    except ValidationError as error:
        faults = []
        for fault in error.errors():
            key = ".".join(str(part) for part in fault["loc"]) or "(whole file)"
            what = fault["msg"].removeprefix("Value error, ")
            if fault["type"] == "extra_forbidden":
                what = f"unknown key{_meant(fault['loc'])}"
            # there, what was given may be a secret in the wrong place
            elif fault["type"] != "value_error" and "endpoints" not in fault["loc"]:
                what = f"{what}, not {_short(fault['input'])}"
            faults.append(f"{key}: {what}")
        raise UserError("; ".join(faults), where=where, remedy=remedy) from error


def _unsayable(value: Any, key: str = "", depth: int = 0) -> Iterator[str]:
    """The keys whose values JSON cannot hold as TOML can, and why."""
    if depth > 100:  # orjson writes about 250
        yield f"{_short(key)}: nested too deep"
    elif isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _unsayable(inner, f"{key}.{name}" if key else str(name), depth + 1)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield f"{key}: a whole number has at most 64 bits, not {_short(value)}"
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{key}: a number must be finite, not {value}"


def _meant(where: tuple[str | int, ...]) -> str:
    """The key that an unknown one resembles, as a question; empty when there is none."""
    section: Any = Config
    for part in where[:-1]:
        # a number stands for an element of a list of tables
        section = (
            get_args(section)[0] if isinstance(part, int) else section.model_fields[part].annotation
        )
    close = difflib.get_close_matches(
        str(where[-1])[:60], getattr(section, "model_fields", {}), n=1
    )
    return f" (did you mean {close[0]}?)" if close else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _numbered(value: Any) -> Any:
    """A list of tables as a table by place; anything else as it is."""
    tables = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    return {str(place): item for place, item in enumerate(value)} if tables else value


def identity_diff(recorded: JsonObject, asked: JsonObject, prefix: str = "") -> list[str]:
    """Human-readable differences `key: recorded → asked` between two identity halves."""
    lines: list[str] = []
    for key in sorted(set(recorded) | set(asked)):
        old, new = (_numbered(half.get(key)) for half in (recorded, asked))
        if isinstance(old, dict) and isinstance(new, dict):
            lines += identity_diff(old, new, f"{prefix}{key}.")
        elif old != new:
            lines.append(f"{prefix}{key}: {old!r} → {new!r}")
    return lines
