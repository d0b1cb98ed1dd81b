"""What the policy is shown, stage by stage: everything as it is, hints after failures by rule or from agents (000
§3.3), SEAL's components (002 §3.3), or your own."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from rods.dialects import TERSE
from rods.errors import UserError
from rods.functions import made_by
from rods.interfaces.base import IDENTITY, Interface

if TYPE_CHECKING:
    from rods.config import Component, Stage
    from rods.interfaces.approved import Approved

LONGEST_GUIDELINES = 2000  # characters that may stand in every system prompt of a stage


def load(stage: Stage, dialect: str, shown: Collection[Component] = (), approved: Approved | None = None) -> Interface:
    """The interface of a curriculum stage, for a policy that reads `dialect`, with the evolving components that are
    `shown` now (rods.rules.evolution) and the texts of agents that are in force. Raises UserError when its `interface`
    names none, or its guidelines are long."""
    from rods.interfaces.approved import NOTHING_APPROVED, AgentFeedback
    from rods.interfaces.hints import Hints
    from rods.interfaces.seal import Seal

    base: Interface = IDENTITY
    if stage.components:
        base = Seal(stage, dialect, shown)
    elif stage.interface:
        base = _own(stage.interface)
    if (length := len(base.guidelines())) > LONGEST_GUIDELINES:
        raise UserError(
            f"the guidelines of {stage.interface} have {length} characters; at most {LONGEST_GUIDELINES} are shown "
            "with every episode",
            where="curriculum.stages.interface",
            remedy="say it in fewer words",
        )
    if stage.feedback == "agents":
        return AgentFeedback(base, approved or NOTHING_APPROVED, brief=dialect in TERSE)
    return Hints(base, brief=dialect in TERSE) if stage.feedback == "hints" else base


@cache
def _own(name: str) -> Interface:
    made: Interface = made_by(name, Interface, where="curriculum.stages.interface")
    return made
