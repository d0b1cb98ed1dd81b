"""What simulated conversations (001) add to the core: who plays them, and tasks drawn for the slots
of a step."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rods.errors import UserError
from rods.family.simulation.settings import DRAWN, DifficultyRules, SimulationSettings, TaskSource
from rods.functions import late

if TYPE_CHECKING:
    from rods.config import Config
    from rods.environments.base import Environment
    from rods.environments.loading import Environments
    from rods.family.provides import Provides
    from rods.tasks import AnyTask


class Drawn:
    """Slots with drawn tasks (`rods.config.DrawnSlots`)."""

    def slots(self, config: "Config") -> int:
        return int(config.source.drawn * config.training.batch_tasks + 0.5)

    def epoch_steps(self, config: "Config") -> int:
        return int(config.source.epoch_steps)


DRAWN_SLOTS = Drawn()


def _check(config: "Config") -> None:
    from rods.episode.rewards import COMPARES_CALLS

    drawn = config.source.drawn
    batch = config.training.batch_tasks
    slots = DRAWN_SLOTS.slots(config)
    if 0 < drawn < 1 and not 0 < slots < batch:
        what = f"source.drawn = {drawn} of training.batch_tasks = {batch} is {slots} drawn tasks"
        raise ValueError(f"{what}: give a share that leaves both some, or 0 or 1")
    for stage in config.curriculum.stages if drawn else ():
        if stage.reward in COMPARES_CALLS:
            raise ValueError(
                f"the reward {stage.reward} needs ground truth, which drawn tasks do not have"
            )
    if drawn == 1 and config.pool.static:
        raise ValueError(
            "pool.static waits for visits to the pool, and with source.drawn = 1 none is made"
        )


def _environments(config: "Config", environments: "Environments") -> "Sequence[Environment]":
    if (modelled := config.simulation.by_model) and not (
        config.operation.players or config.operation.endpoints
    ):
        raise UserError(
            f'simulation.{modelled[0]} is "model", and no model is named that could play',
            where="operation.players",
            remedy='give one [[operation.players]] (docs/endpoints.md), or "procedural"',
        )
    if not config.source.drawn:
        return ()
    from rods.family.simulation.source import drawn_from

    return [drawn_from(config.source.repository, environments)]


def _difficulty(task: "AnyTask") -> float | None:
    from rods.family.simulation.difficulty import share

    levels = task.provenance.get("levels")
    return None if levels is None else share(levels)


PROVIDES: "Provides" = {
    "audits": late("rods.family.simulation.source:verify_drawn"),
    "config_checks": _check,
    "difficulties": _difficulty,
    "drawn_slots": DRAWN_SLOTS,
    "players": late("rods.family.simulation.players:SimulationPlayer"),
    "playing": late("rods.family.simulation.players:playing"),
    "run_environments": _environments,
    "step_folds": late("rods.family.simulation.difficulty:fold"),
    "task_sources": late("rods.family.simulation.source:DrawnSource"),
    "sections": {
        "source": TaskSource(),
        "difficulty": DifficultyRules(),
        "simulation": SimulationSettings(),
    },
    "logs": (DRAWN,),
    "record_keys": {"drawn": ("step", "slot", "difficulty")},
    "record_shapes": {
        "drawn": {**dict.fromkeys(("step", "slot", "difficulty"), "count"), "task": {"id": "text"}}
    },
}
