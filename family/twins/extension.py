"""What twins add to the core: a verb that makes and trains them, and one that compares."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "verbs": {
        "twin": (
            "rods.family.twins.verbs:twin",
            "Train the same without what is in question, over several random seeds; compare.",
            "start",
        ),
        "compare": (
            "rods.family.twins.verbs:compare",
            "Say what one set of runs gained over another on held-out tasks.",
            "look",
        ),
    }
}
