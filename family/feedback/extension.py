"""What feedback adds to the core."""

from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from rods.canonical import JsonMapping
from rods.family.feedback.settings import (
    DROPPED,
    FEEDBACK,
    Feedback,
    FeedbackStage,
    by_agents,
    mines,
)
from rods.files import read_toml
from rods.functions import late

if TYPE_CHECKING:
    from rods.buffers.run.run import Run
    from rods.config import Config, Stage
    from rods.daemon.writers import Beside, Writers
    from rods.episode.engine import Trace
    from rods.family.feedback.cases import FeedbackNotes
    from rods.family.feedback.correcting import Correcting
    from rods.family.feedback.failures import Mining
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


class AgentsAtWork:
    """Has agents write while training goes on (`rods.daemon.writers.WorkBeside`)."""

    def asks(self, config: "Config") -> bool:
        return by_agents(config)

    def work(
        self, run: "Run", writers: "Writers", threads: Executor, daemon: "Beside"
    ) -> "Correcting | None":
        from rods.family.feedback.correcting import Correcting

        return Correcting(run, writers, threads, daemon.tasks) if by_agents(run.config) else None


def _fold(config: "Config") -> "Mining | None":
    from rods.family.feedback.failures import Mining

    return Mining(config.feedback) if by_agents(config) else None


def _episode_fields(trace: "Trace", config: "Config", stage: int) -> "JsonMapping":
    from rods.family.feedback.failures import failed_calls

    if not mines(config, stage):
        return {}
    failures = failed_calls(pair for turn in trace.turns for pair in turn.pairs)
    return {"failures": failures} if failures else {}


def _notes(run: "Run", strict: bool) -> "FeedbackNotes | None":
    from rods.family.feedback.cases import FeedbackNotes

    return FeedbackNotes(run, strict=strict) if by_agents(run.config) else None


PROVIDES: "Provides" = {
    "audits": late("rods.family.feedback.cases:check"),
    "daemon_work": AgentsAtWork(),
    "episode_fields": _episode_fields,
    "epoch_notes": _notes,
    "interfaces": FeedbackLayer(),
    "step_folds": _fold,
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
