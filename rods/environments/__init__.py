"""Where tasks run. `load(name)` finds an environment: `desk`, `bfcl`, or a user's own `package.module:factory`."""

from __future__ import annotations

import importlib
from functools import cache

from rods.environments.base import Environment
from rods.errors import UserError

BUILT_IN = {"desk": "rods.environments.desk:environment", "bfcl": "rods.environments.bfcl:environment"}


@cache
def load(name: str) -> Environment:
    """The environment called `name`, made once a process. Raises UserError when it cannot be found or made."""
    target = BUILT_IN.get(name, name)
    module_name, _, factory_name = target.partition(":")
    where = f"environment {name!r}"
    if not factory_name:
        raise UserError(
            "unknown environment", where=where, remedy=f"use {', '.join(BUILT_IN)} or your own 'package.module:factory'"
        )
    try:
        factory = getattr(importlib.import_module(module_name), factory_name)
    except ModuleNotFoundError as error:
        raise UserError(f"no module {error.name!r}", where=where, remedy="install it beside rods") from error
    except AttributeError as error:
        raise UserError(f"{module_name} has no {factory_name!r}", where=where) from error
    environment: Environment = factory()
    return environment
