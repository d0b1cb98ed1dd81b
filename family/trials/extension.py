"""Trials add the verb that tries models before a run pays for them."""

PROVIDES = {
    "verbs": {
        "doctor": (
            "rods.family.trials.doctor:doctor",
            "Check the installation and a configuration's language models.",
            "repair",
        )
    }
}
