"""Functions that a configuration names: `package.module:function`."""

from __future__ import annotations

import importlib
from typing import Any

from rods.errors import UserError


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
