"""What the folder to start from adds to the core: a verb."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "verbs": {
        "init": (
            "rods.family.new_world.verbs:init",
            "Make a folder with a world, tasks and a configuration to start from.",
            "start",
        )
    }
}
