"""What looking into a run's history adds to the core: the page, and one task in words."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "verbs": {
        "dash": (
            "rods.family.page.dash:dash",
            "Show runs in a browser: a page that moves while they are written; or write it as a "
            "file, with the report.",
            "look",
        ),
        "inspect": (
            "rods.family.page.inspect:inspect",
            "Show one task: conversation, truth, ancestry, windows, history; costs.",
            "look",
        ),
    }
}
