"""Modules that do nothing, in the place of what a package's code imports at its top and never needs
here."""

import sys
import types
from typing import Any


class StandIn(types.ModuleType):
    """Whatever is asked of it that it was not given: itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self


def stand_in(*names: str) -> None:
    """Puts stand-ins in place, before anything that imports them is imported."""
    sys.modules.update({name: StandIn(name) for name in names})
