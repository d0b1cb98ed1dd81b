"""Modules that do nothing, in the place of what a package's code imports at its top and never needs
here."""

import sys
import types
from typing import Any


class StandIn(types.ModuleType):
    """Every attribute that it was not given is a class that can be called, subclassed, combined,
    and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_Nothing, name)


class _Kind(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        """As a decorator it gives back what it decorates."""
        return arguments[0] if len(arguments) == 1 and not named and callable(arguments[0]) else cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


class _Nothing(metaclass=_Kind): ...


def stand_in(*names: str) -> None:
    """Puts stand-ins in place, before anything that imports them is imported."""
    sys.modules.update({name: StandIn(name) for name in names})
