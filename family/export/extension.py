"""What tables for other tools add to the core: a verb."""

from rods.extension import Extension


class Export(Extension):
    name = "export"
    verbs = {
        "data export": (
            "verbs:export",
            "Write what a run holds as tables for other tools, with a data card.",
        )
    }


EXTENSION = Export()
