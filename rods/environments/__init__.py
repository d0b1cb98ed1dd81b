"""Where tasks run. `load(name)` finds an environment: `desk`, `bfcl`, or a user's own `package.module:factory`."""

from __future__ import annotations

from functools import cache

from rods.environments.base import Environment
from rods.errors import UserError
from rods.functions import named_function

BUILT_IN = {"desk": "rods.environments.desk:environment", "bfcl": "rods.environments.bfcl:environment"}


@cache
def load(name: str) -> Environment:
    """The environment called `name`, made once a process. Raises UserError when it cannot be found or made."""
    where = f"environment {name!r}"
    target = BUILT_IN.get(name, name)
    if ":" not in target:
        raise UserError(
            "unknown environment", where=where, remedy=f"use {', '.join(BUILT_IN)} or your own 'package.module:factory'"
        )
    environment: Environment = named_function(target, where=where)()
    return environment
