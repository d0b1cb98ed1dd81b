"""What planning adds to the core: a verb."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "verbs": {
        "plan": (
            "rods.family.planning.verb:plan",
            "Say what a run would do, need and cost, before it does anything.",
            "start",
        )
    }
}
