"""What rewording adds to the core: a verb, and the records of its journal."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "record_keys": {"answered": ("task", "at", "key")},
    "record_shapes": {
        "answered": {"task": "text", "at": "count", "key": "text", "completion": "object"}
    },
    "verbs": {
        "data reword": (
            "rods.family.reword.verbs:reword_tasks",
            "Have a language model say the users' turns of tasks anew.",
        )
    },
}
