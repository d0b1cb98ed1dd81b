"""A schedule in a run: it draws given tasks for slots of each batch, in place of the pool's order,
by what the groups in such slots have earned. Nothing is logged for it: a draw follows from the
run's rules and tasks and from the steps before, so `rods verify` derives it again."""

from collections.abc import Mapping, Sequence
from typing import Any

from rods.buffers.folds.observations import Observations
from rods.buffers.run.run import Run
from rods.canonical import JsonMapping
from rods.config import Config
from rods.family.schedule.extension import SLOTS
from rods.family.schedule.schedule import seen
from rods.family.schedule.standings import Rules, Standing, Standings, choose
from rods.faults import INVALID_ENDS
from rods.rules.step_folds import StepFold
from rods.tasks import AnyTask


def fold(config: Config) -> "Earned | None":
    return Earned(config) if SLOTS.slots(config) else None


class Earned(StepFold):
    """By step the drawn tasks, with the rewards of each, and what is drawn next."""

    key = ""

    def __init__(self, config: Config) -> None:
        self.steps: dict[int, JsonMapping] = {}
        self._standings = Standings(Rules.model_validate(config.schedule.rules), {})
        self._count = SLOTS.slots(config)
        self._step = 0  # up to which the standings are

    def apply(self, step: int, groups: Sequence[JsonMapping]) -> None:
        self.steps[step] = {
            group["task"]: [
                None if one["end"] in INVALID_ENDS else one["resolved"] / one["expected"]
                for one in group["rollouts"]
            ]
            for group in groups
            if group["role"] == "drawn"
        }

    def state(self) -> Any:
        return [*self.steps.items()]

    def load(self, state: Any) -> None:
        self.steps = dict(state)

    def drawn(self, step: int, given: Mapping[str, AnyTask]) -> list[str]:
        """The tasks of `step`, by the steps before it, in whose order it is asked for."""
        standings = self._standings
        standings.tasks = standings.tasks or {name: Standing(given[name].type) for name in given}
        if self._step < step:
            for before in range(self._step, step):
                earned = self.steps.get(before, {})
                ours = {name: earned[name] for name in earned if name in given}
                standings.draw(before, [*ours])
                rewarded = {"policy_step": before - 1, "rewards": ours}
                standings.observe(before, seen(rewarded, standings.rules))
            self._step = step
            self._names = [name for name, _ in choose(standings, step, self._count)]
        return self._names


class ScheduledTasks:
    """A `rods.buffers.folds.slot_sources.TaskSource` of tasks that the run has."""

    log = ""

    def __init__(self, run: Run, strict: bool = False) -> None:
        self._given = run.training

    def task(self, task_id: str) -> AnyTask:
        return self._given[task_id]

    def draw(
        self, step: int, slots: Sequence[int], observations: Observations, held: object
    ) -> list[AnyTask]:
        names = observations.folds["schedule"].drawn(step, self._given)
        return [self._given[names[slot % len(names)]] for slot in slots]

    def lacking(self, slots: Sequence[int], observations: Observations) -> str:
        return ""

    def differs(self, step: int, slot: int, task_id: str, observations: Observations) -> str:
        names = observations.folds["schedule"].drawn(step, self._given)
        other: str = names[slot % len(names)]
        return "" if other == task_id else f"the schedule draws {other} there"

    def close(self) -> None:
        """Nothing is written."""
