"""What logged conversations add to the core: a verb."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rods.family.provides import Provides

PROVIDES: "Provides" = {
    "verbs": {
        "data import": ("", "Make tasks of what others have."),
        "data import chats": (
            "rods.family.conversations.verbs:import_chats",
            "Make tasks of logged conversations, whose calls are replayed in a world.",
        ),
    }
}
