"""What the policy is shown, stage by stage: all as it is, an interface of your own, or an extension's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from rods.errors import UserError
from rods.extension import NOTHING, extensions
from rods.functions import made_by
from rods.interfaces.base import IDENTITY, Interface

if TYPE_CHECKING:
    from rods.config import Stage

LONGEST_GUIDELINES = 2000  # characters that may stand in every system prompt of a stage


def load(stage: Stage, dialect: str, shown: Mapping[str, Any] = NOTHING) -> Interface:
    """The interface of a curriculum stage, for a policy that reads `dialect`, with what is `shown` now (by extension:
    rods.extension.shown_next). Raises UserError when its `interface` names none, or its guidelines are long."""
    known = {name for extension in extensions() for name in extension.interfaces}
    made: Interface = _own(stage.interface) if stage.interface and stage.interface not in known else IDENTITY
    for extension in extensions():
        made = extension.interface(stage, dialect, made, shown.get(extension.name))
        if (length := len(made.guidelines())) > LONGEST_GUIDELINES:
            what = (
                f"the guidelines of {stage.interface} have {length} characters; at most {LONGEST_GUIDELINES} are shown"
            )
            where = "curriculum.stages.interface"
            raise UserError(f"{what} with every episode", where=where, remedy="say it in fewer words")
    return made


@cache
def _own(name: str) -> Interface:
    made: Interface = made_by(name, Interface, where="curriculum.stages.interface")
    return made
