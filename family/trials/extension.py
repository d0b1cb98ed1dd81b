"""Trials add the verb that tries models before a run pays for them."""

from rods.extension import Extension


class Trials(Extension):
    name = "trials"
    verbs = {
        "doctor": (
            "doctor:doctor",
            "Check the installation and a configuration's language models.",
            "repair",
        )
    }


EXTENSION = Trials()
