"""What tables for other tools add to the core: a verb."""

PROVIDES = {
    "verbs": {
        "data export": (
            "rods.family.export.verbs:export",
            "Write what a run holds as tables for other tools, with a data card.",
        )
    }
}
