"""What the policy is shown, stage by stage: everything as it is, hints after failures by rule or from agents (000
§3.3), or your own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rods.functions import made_by
from rods.interfaces.base import IDENTITY, Interface

if TYPE_CHECKING:
    from rods.config import Stage
    from rods.interfaces.approved import Approved


def load(stage: Stage, approved: Approved | None = None) -> Interface:
    """The interface of a curriculum stage, with the texts of agents that are in force. Raises UserError when its
    `interface` names none."""
    from rods.interfaces.approved import NOTHING_APPROVED, AgentFeedback
    from rods.interfaces.hints import Hints

    base = _own(stage.interface) if stage.interface else IDENTITY
    if stage.feedback == "agents":
        return AgentFeedback(base, approved or NOTHING_APPROVED)
    return Hints(base) if stage.feedback == "hints" else base


def lineage(interface: Interface) -> str:
    """What the versions of an interface that changes have in common; empty for one that does not change."""
    return getattr(interface, "lineage", "")


@cache
def _own(name: str) -> Interface:
    made: Interface = made_by(name, Interface, where="curriculum.stages.interface")
    return made
