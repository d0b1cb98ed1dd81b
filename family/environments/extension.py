"""What generated environments and scenarios (003) add to the core."""

from collections.abc import Sequence
from typing import Any

from rods.extension import Extension
from rods.family.environments.settings import WriterRoles, Writing


class GeneratedEnvironments(Extension):
    name = "environments"

    def varies(self, task: Any) -> bool:
        return self.solution(task) is not None

    def kinds(self, run: Any) -> Sequence[Any]:
        from rods.family.environments.kind import ScenarioKind

        return [ScenarioKind()]

    def replayed(self, run: Any, task: Any) -> Sequence[Any]:
        from rods.family.environments.kind import replayed_scenario

        return replayed_scenario(run.environments.load(task.environment.name), task)

    def held(self, task: Any) -> int:
        return int(task.provenance.get("guards", 0))

    def solution(self, task: Any) -> Sequence[Any] | None:
        from rods.family.environments.checking.scenarios import scenario_of

        scenario = scenario_of(task)
        return None if scenario is None else [step.call for step in scenario.witness]


EXTENSION = GeneratedEnvironments()
PROVIDES = {
    "operation": {"writing": Writing(), "writers": WriterRoles()},
    "stand_ins": "rods.family.environments.stand_in",
    "verbs": {
        "env generate": (
            "rods.family.environments.verbs:generate_worlds",
            "Generate worlds and tasks in them, without a language model.",
        ),
        "env write": (
            "rods.family.environments.verbs:write_worlds",
            "Have language models write worlds and the tasks in them.",
        ),
        "data select": (
            "rods.family.environments.world_selection:select_tasks",
            "Choose the worlds that are trained on: how many, how like the held-out.",
        ),
    },
    "warm_starts": {"generated": "rods.family.environments.demonstrations"},
}
