"""What skills add to the configuration and to the core: what became of each function's turns is on
record with the rollouts; a fold over these says how the functions of variants are drawn."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from rods.extension import Extension, Preferring, Section, StepFold, Told


class SkillSettings(Section):
    """Functions of variants that are drawn by how well the policy uses them, those preferred that
    it gets right half of the time (docs/skills.md). false: all alike."""

    enabled: bool = False  # whether they are drawn so
    # what a turn counts for one step later, of what it counted before
    discount: float = Field(0.95, gt=0, le=1)
    # the weight of a function that was never practised; of one that was, drawn anew for each pick,
    # it lies from 0.01 to 1, at 0.5 in the mean of one of which nothing is known
    floor: float = Field(0.5, gt=0, le=1)


def _check(value: Any) -> None:
    for name, counts in value.items() if isinstance(value, dict) else [("", value)]:
        whole = (
            isinstance(counts, list)
            and len(counts) == 2
            and all(type(number) is int for number in counts)
        )
        if not (name and whole and 0 <= counts[1] <= counts[0] > 0):
            raise ValueError(
                f"skills says {counts!r} of {name!r}; it must be [turns, turns that went well]"
            )


class SkillMap(Extension):
    name = "skills"
    sections = {"skills": SkillSettings()}
    shares = True
    rollout_fields = {"skills": _check}

    def validate(self, config: Any) -> None:
        if config.skills.enabled and config.pipeline.functions == "same":
            raise ValueError(
                'skills.enabled draws functions, and with pipeline.functions = "same" none are '
                "drawn"
            )

    def rollout(
        self, trace: Any, task: Any, environments: Any, config: Any, stage: int
    ) -> Mapping[str, Any]:
        from rods.family.skills.skills import practised

        counts = practised(trace, task, environments) if config.skills.enabled else {}
        return {"skills": counts} if counts else {}

    def fold(self, config: Any) -> StepFold | None:
        from rods.family.skills.skills import Skills

        return Skills(config.skills.discount) if config.skills.enabled else None

    def fold_key(self, config: Any) -> Any:
        return config.skills.discount if config.skills.enabled else None

    def preferences(self, fold: Any, config: Any) -> Preferring | None:
        from rods.family.skills.skills import drawing

        return None if fold is None else drawing(fold, config)

    def told(self, fold: Any, config: Any, where: Told) -> Mapping[str, Any]:
        if fold is None or where != "shares":
            return {}
        shares = {
            name: (round(well / turns, 3), round(turns, 1))
            for name, (turns, well) in fold.known.items()
        }
        return {"skills": shares}

    def verify(self, run: Any, findings: Any, *, replay: bool) -> None:
        from rods.family.skills.skills import check

        check(run, findings)


EXTENSION = SkillMap()
