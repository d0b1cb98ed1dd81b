"""What the folder to start from adds to the core: a verb."""

from rods.extension import Extension


class NewWorld(Extension):
    name = "new_world"
    verbs = {
        "init": (
            "verbs:init",
            "Make a folder with a world, tasks and a configuration to start from.",
            "start",
        )
    }


EXTENSION = NewWorld()
