"""Trials add the verb that tries models before a run pays for them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "verbs": {
        "doctor": (
            "rods.family.trials.doctor:doctor",
            "Check the installation and a configuration's language models.",
            "repair",
        )
    }
}
