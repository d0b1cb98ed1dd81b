"""What tables for other tools add to the core: a verb."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "verbs": {
        "data export": (
            "rods.family.export.verbs:export",
            "Write what a run holds as tables for other tools, with a data card.",
        )
    }
}
