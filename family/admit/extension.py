"""What a gate for tasks of others adds to the core: a verb, the same in the daemon for the files
in a folder, and verdicts on what was to join a run, for the page."""

from typing import TYPE_CHECKING

from rods.functions import late
from rods.section import Section

if TYPE_CHECKING:
    from rods.family.provides import Provides


class AdmitSettings(Section):
    """Tasks that somebody else's generator writes while the run goes on
    ([admit.md](admit.md#a-watched-folder))."""

    needs = (("world", 'folder = "…"'),)

    # where it drops its files, JSON lines, a task each, whose names tell whose they are; empty:
    # nowhere
    folder: str = ""
    world: str = ""  # that they are for; empty: the run's first


PROVIDES: "Provides" = {
    "daemon_work": late("rods.family.admit.dropped_files:work"),
    "findings": ("eval/admit/*.verdicts.jsonl",),
    "operation": {"admit": AdmitSettings()},
    "verbs": {
        "admit": (
            "rods.family.admit.verbs:admit",
            "Find what is wrong with tasks that another generator wrote.",
            "world",
        )
    },
}
