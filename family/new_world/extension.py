"""What the folder to start from adds to the core: a verb."""

PROVIDES = {
    "verbs": {
        "init": (
            "rods.family.new_world.verbs:init",
            "Make a folder with a world, tasks and a configuration to start from.",
            "start",
        )
    }
}
