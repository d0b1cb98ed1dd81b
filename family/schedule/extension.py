"""A schedule adds the records of its log, and the verb that reads it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
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
    "verbs": {
        "trainer schedule": (
            "rods.family.schedule.verbs:schedule",
            "Show where a schedule of others' tasks stands.",
        )
    },
}
