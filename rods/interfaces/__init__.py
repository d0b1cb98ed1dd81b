"""What the policy is shown, stage by stage: everything as it is, hints after failures (000 §3.3), or your own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rods.functions import made_by
from rods.interfaces.base import IDENTITY, Interface

if TYPE_CHECKING:
    from rods.config import Stage


def load(stage: Stage) -> Interface:
    """The interface of a curriculum stage. Raises UserError when its `interface` names none."""
    from rods.interfaces.hints import Hints

    base = _own(stage.interface) if stage.interface else IDENTITY
    return Hints(base) if stage.feedback == "hints" else base


@cache
def _own(name: str) -> Interface:
    made: Interface = made_by(name, Interface, where="curriculum.stages.interface")
    return made
