"""What SEAL adds to the core."""

from collections.abc import Mapping
from typing import Any

from rods.extension import Extension, Record, StepFold
from rods.family.seal.settings import SEAL, SealCurriculum, SealStage


class Seal(Extension):
    name = "seal"

    def fold(self, config: Any) -> StepFold:
        from rods.family.seal.evolution import Evolution

        return Evolution(config.curriculum)

    def fold_key(self, config: Any) -> Any:
        return config.curriculum.model_dump(include=set(SealCurriculum.model_fields))

    def follows(self, stage: Any) -> bool:
        return bool(stage.evolving)

    def shown(self, fold: Any, opened: Any) -> frozenset[str]:
        return frozenset(fold.shown)

    def interface(self, stage: Any, dialect: str, base: Any, shown: Any) -> Any:
        from rods.family.seal.interface import LearningInterface

        return LearningInterface(stage, dialect, shown or ()) if stage.components else base

    def components(self, stage: Any, dialect: str, shown: Any) -> Mapping[str, str]:
        from rods.dialects import TERSE
        from rods.family.seal.interface import words

        there = [
            name for name in stage.components if name in (shown or ()) or name not in stage.evolving
        ]
        return {name: words(name, dialect in TERSE) for name in there}

    def before(self, shown: Any, closing: Record) -> Any:
        change = closing.get("evolved")
        return shown if change is None else shown ^ {change["component"]}

    def cause(self, closing: Record) -> Mapping[str, Any] | None:
        change = closing.get("evolved")
        if change is None:
            return None
        verb = "appears" if change["shown"] else "goes"
        share = (
            f"its labels made up {change['share']:.1%} of {change['labels']:,} in the last steps"
        )
        return {**change, "reason": f"{change['component']} {verb}: {share}"}


EXTENSION = Seal()
PROVIDES = {
    "interfaces": frozenset(SEAL),
    "step_fields": {
        "evolved": {"component": "text", "shown": "flag", "share": "number", "labels": "count"}
    },
    "stage": SealStage,
    "curriculum": SealCurriculum,
}
