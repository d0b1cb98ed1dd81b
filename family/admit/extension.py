"""What a gate for tasks of others adds to the core: a verb."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "verbs": {
        "admit": (
            "rods.family.admit.verbs:admit",
            "Hold tasks that another generator wrote to what variants have to pass.",
            "world",
        )
    }
}
