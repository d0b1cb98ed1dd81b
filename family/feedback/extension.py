"""What feedback adds to the core."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rods.extension import DaemonWork, EpochNotes, Extension, StepFold
from rods.family.feedback.settings import (
    DROPPED,
    FEEDBACK,
    Feedback,
    FeedbackStage,
    by_agents,
    mines,
)

# a hint of an interface knows the call itself, and a rule could only say it again
ORDER = 10
FAILURE = {"failure": "text"}
NAMES = dict.fromkeys(("environment", "tool", "pattern"), "text")


def _failures(value: Any) -> None:
    from rods.family.feedback.failures import check_failures

    check_failures(value)


class AgentsFeedback(Extension):
    name = "feedback"

    def fold(self, config: Any) -> StepFold | None:
        from rods.family.feedback.failures import Mining

        return Mining(config.feedback) if by_agents(config) else None

    def fold_key(self, config: Any) -> Any:
        return config.feedback.model_dump() if by_agents(config) else None

    def follows(self, stage: Any) -> bool:
        return bool(stage.feedback == "agents")

    def rollout(
        self, trace: Any, task: Any, environments: Any, config: Any, stage: int
    ) -> Mapping[str, Any]:
        from rods.family.feedback.failures import failed_calls

        if not mines(config, stage):
            return {}
        steps = (step for turn in trace.turns for step in turn.steps)
        failures = failed_calls(
            pair for step in steps for pair in zip(step.calls, step.results, strict=True)
        )
        return {"failures": failures} if failures else {}

    def epoch_notes(self, run: Any, *, strict: bool = False) -> EpochNotes | None:
        from rods.family.feedback.cases import FeedbackNotes

        return FeedbackNotes(run, strict=strict) if by_agents(run.config) else None

    def shown(self, fold: Any, opened: Any) -> Any:
        return opened

    def interface(self, stage: Any, dialect: str, base: Any, shown: Any) -> Any:
        from rods.dialects import TERSE
        from rods.family.feedback.hints import NOTHING_APPROVED, AgentFeedback, Hints

        if stage.feedback == "agents":
            return AgentFeedback(base, shown or NOTHING_APPROVED, brief=dialect in TERSE)
        return Hints(base, brief=dialect in TERSE) if stage.feedback == "hints" else base

    def asks(self, config: Any) -> bool:
        return by_agents(config)

    def daemon_work(
        self, run: Any, writers: Any, threads: Any, tasks: Callable[[], Sequence[Any]]
    ) -> DaemonWork | None:
        from rods.family.feedback.correcting import Correcting

        return Correcting(run, writers, threads, tasks) if by_agents(run.config) else None

    def verify(self, run: Any, findings: Any, *, replay: bool) -> None:
        from rods.family.feedback.cases import check

        check(run, findings, replay=replay)


EXTENSION = AgentsFeedback()
PROVIDES = {
    "sections": {"feedback": Feedback()},
    "stage": FeedbackStage,
    "logs": (FEEDBACK, DROPPED),
    "record_keys": {
        **dict.fromkeys(("asked", "unanswered", "objected"), ("failure", "number")),
        **dict.fromkeys(("approved", "given_up", "dropped"), ("failure",)),
    },
    "rollout_fields": {"failures": _failures},
    "record_shapes": {
        "asked": {"number": "count", **FAILURE, **NAMES},
        "unanswered": {"number": "count", "why": "text", **FAILURE},
        "objected": {"number": "count", "by": "text", "why": "text", "text": "text", **FAILURE},
        "approved": {
            "number": "count",
            "text": "text",
            "remedy": {"tool": "text"},
            "judge": "object",
            **FAILURE,
        },
        "given_up": {"why": "text", **FAILURE, **NAMES},
        "dropped": {"why": "text", **FAILURE},
    },
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
