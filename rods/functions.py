"""Functions that a configuration names: `package.module:function`."""

from __future__ import annotations

import importlib
from typing import Any

from rods.errors import RodsError, UserError


def named_function(name: str, *, where: str) -> Any:
    """What `name` stands for. Raises UserError, saying `where` it was asked for, when it cannot be found."""
    module_name, _, function_name = name.partition(":")
    if not function_name:
        raise UserError(f"{name!r} names no function", where=where, remedy="write it as 'package.module:function'")
    try:
        return getattr(importlib.import_module(module_name), function_name)
    except ModuleNotFoundError as error:
        raise UserError(f"no module {error.name!r}", where=where, remedy="install it beside rods") from error
    except AttributeError as error:
        raise UserError(f"{module_name} has no {function_name!r}", where=where) from error


def made_by(name: str, kind: type[Any], *, where: str) -> Any:
    """What the factory `name` makes, called without arguments. Raises UserError, saying `where`, when it cannot be
    found, raises something, or makes no `kind` (a protocol that can be asked)."""
    factory = named_function(name, where=where)
    try:
        made = factory()
    except RodsError:
        raise
    except Exception as error:
        what = f"{name}, called without arguments, raised {type(error).__name__}: {error}"
        raise UserError(what, where=where, remedy="name a function that makes the object") from error
    if not isinstance(made, kind):
        raise UserError(f"{name} makes a {type(made).__name__}, which is no {kind.__name__}", where=where)
    return made
