"""What feedback adds to the core."""

from pathlib import Path
from typing import TYPE_CHECKING

from rods.family.feedback.settings import DROPPED, FEEDBACK, Feedback, FeedbackStage
from rods.files import read_toml
from rods.functions import late

if TYPE_CHECKING:
    from rods.config import Stage
    from rods.family.provides import Provides
    from rods.interfaces import Interface
    from rods.rules.step_folds import StepFold

# a hint of an interface knows the call itself, and a rule could only say it again
ORDER = 10
RECORDS = read_toml(Path(__file__).with_name("records.toml"))


class FeedbackLayer:
    """Hints over what other interfaces show (`rods.interfaces.InterfaceLayer`)."""

    names = frozenset[str]()

    def follows(self, stage: "Stage") -> bool:
        return bool(stage.feedback == "agents")

    def inputs(self, fold: "StepFold | None", opened: object) -> object:
        return opened

    def interface(
        self, stage: "Stage", dialect: str, base: "Interface", inputs: object
    ) -> "Interface":
        from rods.dialects import TERSE
        from rods.family.feedback.hints import NOTHING_APPROVED, AgentFeedback, Approved, Hints

        brief = dialect in TERSE
        if stage.feedback == "agents":
            approved = inputs if isinstance(inputs, Approved) else NOTHING_APPROVED
            return AgentFeedback(base, approved, brief=brief)
        return Hints(base, brief=brief) if stage.feedback == "hints" else base


PROVIDES: "Provides" = {
    "audits": late("rods.family.feedback.cases:check"),
    "daemon_work": late("rods.family.feedback.correcting:work"),
    "episode_fields": late("rods.family.feedback.failures:episode_fields"),
    "epoch_notes": late("rods.family.feedback.cases:notes"),
    "interfaces": FeedbackLayer(),
    "step_folds": late("rods.family.feedback.failures:fold"),
    "sections": {"feedback": Feedback()},
    "stage": FeedbackStage,
    "logs": (FEEDBACK, DROPPED),
    "record_keys": {kind: tuple(form["key"]) for kind, form in RECORDS.items()},
    "rollout_fields": {"failures": late("rods.family.feedback.failures:check_failures")},
    "record_shapes": {kind: form["fields"] for kind, form in RECORDS.items()},
    "epoch_fields": {
        "feedback": {"approved": "count", "dropped": "count", "texts": "count", "version": "text"}
    },
    "stand_ins": "rods.family.feedback.stand_in",
    "verbs": {
        "env feedback": ("", "What agents wrote about failures."),
        "env feedback list": (
            "rods.family.feedback.verbs:list_cases",
            "List failures that agents were asked about, and what was approved.",
        ),
        "env feedback drop": (
            "rods.family.feedback.verbs:drop",
            "Take an approved text out of force.",
        ),
    },
}
