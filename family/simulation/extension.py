"""What simulated conversations (001) add to the core: who plays them, and tasks drawn for the slots
of a step."""

from collections.abc import Mapping, Sequence
from typing import Any

from rods.errors import UserError
from rods.extension import Extension, StepFold, Told
from rods.family.simulation.settings import DRAWN, DifficultyRules, SimulationSettings, TaskSource


class Simulation(Extension):
    name = "simulation"

    def fold(self, config: Any) -> StepFold | None:
        from rods.family.simulation.difficulty import Difficulty

        return Difficulty(config.difficulty) if config.source.drawn else None

    def fold_key(self, config: Any) -> Any:
        return config.difficulty.model_dump(mode="json") if config.source.drawn else None

    def validate(self, config: Any) -> None:
        drawn = config.source.drawn
        batch = config.training.batch_tasks
        slots = self.slots(config)
        if 0 < drawn < 1 and not 0 < slots < batch:
            what = (
                f"source.drawn = {drawn} of training.batch_tasks = {batch} is {slots} drawn tasks"
            )
            raise ValueError(f"{what}: give a share that leaves both some, or 0 or 1")
        if drawn and any(stage.reward == "toolrl" for stage in config.curriculum.stages):
            raise ValueError("the reward toolrl needs ground truth, which drawn tasks do not have")
        if drawn == 1 and config.pool.static:
            raise ValueError(
                "pool.static waits for visits to the pool, and with source.drawn = 1 none is made"
            )

    def check(self, config: Any, environments: Any) -> Sequence[Any]:
        if (modelled := config.simulation.by_model) and not (
            config.operation.players or config.operation.endpoints
        ):
            what = f'simulation.{modelled[0]} is "model", and no model is named that could play'
            remedy = 'give one [[operation.players]] (docs/endpoints.md), or "procedural"'
            raise UserError(what, where="operation.players", remedy=remedy)
        if not config.source.drawn:
            return ()
        from rods.family.simulation.source import drawn_from

        return [drawn_from(config.source.repository, environments)]

    def player(self, environments: Any, config: Any) -> Any:
        from rods.family.simulation.players import SimulationPlayer

        return SimulationPlayer(environments, config)

    def slots(self, config: Any) -> int:
        return int(config.source.drawn * config.training.batch_tasks + 0.5)

    def source(self, run: Any, *, strict: bool = False) -> Any:
        from rods.family.simulation.source import DrawnSource

        return DrawnSource(run, strict=strict)

    def epoch_steps(self, config: Any) -> int:
        return int(config.source.epoch_steps)

    def told(self, fold: Any, config: Any, where: Told) -> Mapping[str, Any]:
        """Gauges: `difficulty/next`, and of the last step `difficulty/<dimension>`, the level that
        it allowed."""
        if not config.source.drawn:
            return {}
        if where != "gauges":
            return {"difficulty": fold.as_json() if where == "status" else fold.value}
        levels: dict[str, int] = fold.as_json().get("last", {}).get("levels", {})
        return {
            "difficulty/next": fold.value,
            **{f"difficulty/{name}": at for name, at in levels.items()},
        }

    def verify(self, run: Any, findings: Any, *, replay: bool) -> None:
        from rods.family.simulation.source import verify_drawn

        verify_drawn(run, findings, replay=replay)

    def difficulty(self, task: Any) -> float | None:
        from rods.family.simulation.difficulty import share

        levels = task.provenance.get("levels")
        return None if levels is None else share(levels)


EXTENSION = Simulation()
PROVIDES = {
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
    "stand_ins": "rods.family.simulation.stand_in",
}
