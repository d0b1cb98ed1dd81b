"""A schedule adds the records of its log, the verb that reads it, and slots of a run's batches."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from rods.family.schedule.standings import Rules, Share
from rods.functions import late
from rods.section import Section

if TYPE_CHECKING:
    from rods.config import Config
    from rods.family.provides import Provides


class ScheduleSettings(Section):
    """Slots of a batch whose tasks, of the given ones, a schedule draws
    ([schedule.md](schedule.md#in-a-run))."""

    needs = (("rules", "share = 0.5"),)

    # of a batch's slots; the pool has the others
    share: Share = 0.0
    # as `Rules` has them; domains are types of tasks
    rules: dict[str, Any] = Field(default_factory=dict)


class Slots:
    """`rods.config.DrawnSlots`; the pool always has some."""

    def slots(self, config: "Config") -> int:
        return int(config.schedule.share * config.training.batch_tasks + 0.5)

    epoch_steps = slots


SLOTS = Slots()


def _check(config: "Config") -> None:
    Rules.model_validate(config.schedule.rules)
    if SLOTS.slots(config) and config.pool_slots < 1:
        raise ValueError("schedule.share leaves the pool no slot")


PROVIDES: "Provides" = {
    "config_checks": _check,
    "drawn_slots": SLOTS,
    "record_keys": {
        "schedule": (),
        "scheduled": ("attempt", "step"),
        "rewarded": ("attempt", "step"),
    },
    "record_shapes": {
        "schedule": {"rules": "object", "domains": {"*": "text"}},
        "scheduled": {"attempt": "count", "step": "positive", "tasks": [["text"]]},
        "rewarded": {
            "attempt": "count",
            "step": "positive",
            "policy_step": "count",
            "rewards": {"*": ["number?"]},
        },
    },
    "sections": {"schedule": ScheduleSettings()},
    "step_folds": late("rods.family.schedule.slots:fold"),
    "task_sources": late("rods.family.schedule.slots:ScheduledTasks"),
    "verbs": {
        "trainer schedule": (
            "rods.family.schedule.verbs:schedule",
            "Show where a schedule of others' tasks stands.",
        )
    },
}
