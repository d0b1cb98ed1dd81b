"""What became of each turn of an episode, or why it failed: one label a turn (002 §3.2 and Appendix C.2)."""

from __future__ import annotations

from collections.abc import Mapping

from rods.environments.base import Tool
from rods.episode.engine import Trace
from rods.faults import Label
from rods.tasks import Task


def diagnose(trace: Trace, task: Task, tools: Mapping[str, Tool]) -> tuple[Label, ...]:
    """One label for each turn that the policy finished, in order. `tools` are all of the environment's, by name."""
    raise NotImplementedError
