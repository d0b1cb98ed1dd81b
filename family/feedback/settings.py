"""What feedback adds to the configuration: what answers a failed call in a stage, and when agents
are asked."""

from typing import Any, Literal

from pydantic import Field

from rods.section import AtLeastOne, Count, Section

FEEDBACK = "feedback.jsonl"
DROPPED = "dropped.jsonl"  # texts that a person has taken out of force


class Feedback(Section):
    """Corrective feedback that agents write while training goes on, for stages with `feedback =
    "agents"` (000 §3.3, Appendix C; docs/feedback.md)."""

    # where an approved text stands: beside the refusal, as a hint does, or in its place (000)
    form: Literal["beside", "in_place"] = "beside"
    # who settles words that may tell a value: the judge, or nobody: refuse, where it is weak
    doubts: Literal["judge", "refuse"] = "judge"
    # in so many rollouts a failure must have occurred before anybody is asked about it
    rollouts: AtLeastOne = 8
    tasks: AtLeastOne = 2  # and in those of so many tasks
    # texts that are asked for until one is approved (000: at most 3)
    attempts: int = Field(3, ge=1, le=3)
    # kinds of failure that are asked about in a run, those first due; 0: none
    texts: Count = 200


class FeedbackStage(Section):
    """Keys of a curriculum stage."""

    # what answers a failed call: hints add what may help (family/feedback/hints.py), agents what
    # language models wrote for failures that repeat, and hints for all others (docs/feedback.md);
    # where seal-full has a hint, no rule adds another; never in validation and evaluation
    feedback: Literal["plain", "hints", "agents"] = "plain"


def by_agents(config: Any) -> bool:
    """Whether any stage shows feedback of agents."""
    return mines(config, 1)


def mines(config: Any, stage: int) -> bool:
    """Whether that stage (from 1) or a later one shows feedback of agents: then failures are
    mined."""
    return any(rules.feedback == "agents" for rules in config.curriculum.stages[stage - 1 :])


def settings_of(config: Any) -> Feedback:
    """The section of a run's configuration."""
    section: Feedback = config.feedback
    return section
