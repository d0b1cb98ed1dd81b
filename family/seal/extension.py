"""What SEAL adds to the core."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rods.canonical import JsonMapping
from rods.family.seal.settings import SEAL, Component, SealCurriculum, SealStage

if TYPE_CHECKING:
    from rods.config import Config, Stage
    from rods.family.provides import Provides
    from rods.family.seal.evolution import Evolution
    from rods.interfaces import Interface
    from rods.observations import Record
    from rods.rules.step_folds import StepFold


class LearningLayer:
    """The learning interface (`rods.interfaces.InterfaceLayer`). Its inputs are the components that
    the next step shows, of those that come and go."""

    names = frozenset(SEAL)

    def follows(self, stage: "Stage") -> bool:
        return bool(stage.evolving)

    def inputs(self, fold: "StepFold | None", opened: object) -> frozenset[Component]:
        from rods.family.seal.evolution import Evolution

        return fold.shown if isinstance(fold, Evolution) else frozenset()

    def interface(
        self, stage: "Stage", dialect: str, base: "Interface", inputs: object
    ) -> "Interface":
        from rods.family.seal.interface import LearningInterface

        if not isinstance(stage, SealStage) or not stage.components:
            return base
        return LearningInterface(stage, dialect, _shown(inputs))


class LearningComponents:
    """Its parts, for the history (`rods.console.progress.Components`)."""

    def shown(self, stage: "Stage", dialect: str, inputs: object) -> Mapping[str, str]:
        from rods.dialects import TERSE
        from rods.family.seal.interface import words

        return {
            name: words(name, dialect in TERSE)
            for name in stage.components
            if name in _shown(inputs) or name not in stage.evolving
        }

    def before(self, inputs: object, closing: "Record") -> object:
        change = closing.get("evolved")
        return inputs if change is None else _shown(inputs) ^ {change["component"]}

    def cause(self, closing: "Record") -> "JsonMapping | None":
        change = closing.get("evolved")
        if change is None:
            return None
        verb = "appears" if change["shown"] else "goes"
        share = (
            f"its labels made up {change['share']:.1%} of {change['labels']:,} in the last steps"
        )
        return {**change, "reason": f"{change['component']} {verb}: {share}"}


def _shown(inputs: object) -> frozenset[Component]:
    return inputs if isinstance(inputs, frozenset) else frozenset()


def _fold(config: "Config") -> "Evolution":
    from rods.family.seal.evolution import Evolution

    return Evolution(config.curriculum)


PROVIDES: "Provides" = {
    "components": LearningComponents(),
    "interfaces": LearningLayer(),
    "step_folds": _fold,
    "step_fields": {
        "evolved": {"component": "text", "shown": "flag", "share": "number", "labels": "count"}
    },
    "stage": SealStage,
    "curriculum": SealCurriculum,
}
