"""What generated environments and scenarios (003) add to the core."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rods.family.environments.settings import WriterRoles, Writing
from rods.functions import late

if TYPE_CHECKING:
    from rods.calls import Call
    from rods.environments.base import Environment
    from rods.family.provides import Provides
    from rods.faults import Reason
    from rods.tasks import AnyTask


class Scenarios:
    """Tasks with a witness (`rods.gates.ground_truth.OpenTasks`)."""

    def solution(self, task: "AnyTask") -> "Sequence[Call] | None":
        from rods.family.environments.checking.scenarios import scenario_of

        scenario = scenario_of(task)
        return None if scenario is None else [step.call for step in scenario.witness]

    def replayed(self, environment: "Environment", task: "AnyTask") -> "Sequence[Reason]":
        from rods.family.environments.kind import replayed_scenario

        return replayed_scenario(environment, task)

    def held(self, task: "AnyTask") -> int:
        return int(task.provenance.get("guards", 0))


PROVIDES: "Provides" = {
    "kinds": late("rods.family.environments.kind:ScenarioKind"),
    "open_tasks": Scenarios(),
    "operation": {"writing": Writing(), "writers": WriterRoles()},
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
}
