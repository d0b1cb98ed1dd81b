"""What triage adds to the core: a verb, the same in the daemon while it is idle, with a log, and
what was found, for the page and `rods inspect`."""

from typing import TYPE_CHECKING

from rods.functions import late
from rods.section import AtLeastOne, Section

if TYPE_CHECKING:
    from rods.family.provides import Provides

TRIAGE = "triage.jsonl"
WHILE_IDLE = "rods.family.triage.while_idle"


class TriageSettings(Section):
    """Triage of the tasks that were retired as too hard, by the daemon, while it has nothing else
    to do ([triage.md](triage.md))."""

    needs = (
        ("policy", "while_idle = true"),
        ("rung_seeds", "while_idle = true"),
        ("rung_seeds", 'policy = ["--url", "http://…/v1", "--model", "…"]'),
    )

    while_idle: bool = False  # whether it triages at all
    # who plays: options of `rods eval run`, as behind `rods triage RUN --`, such as ["--url",
    # "http://node7:8000/v1", "--model", "mine"]; empty: nobody, only ground truths are executed
    policy: tuple[str, ...] = ()
    samples: AtLeastOne = 4  # rollouts of a task at each rung
    # whether it triages given tasks that earn nothing, too, and writes variants of what a rung up
    # to 3 teaches, whose requests tell what that rung does
    rung_seeds: bool = False


PROVIDES: "Provides" = {
    "audits": late(f"{WHILE_IDLE}:audit"),
    "daemon_work": late(f"{WHILE_IDLE}:work"),
    "findings": (TRIAGE, "eval/triage/findings.jsonl"),
    "logs": (TRIAGE,),
    "operation": {"triage": TriageSettings()},
    "record_keys": {"triaged": ("task", "epoch")},
    "record_shapes": {"triaged": {"task": "text", "epoch": "count"}},
    "verbs": {
        "triage": (
            "rods.family.triage.verbs:triage",
            "Say why tasks are hopeless: teachable, broken, unfair or beyond reach.",
            "repair",
        )
    },
}
