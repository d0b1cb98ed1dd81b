"""Where tasks run. `load(name)` finds an environment: `desk`, `bfcl`, or a user's own `package.module:factory`.

They run in this process, but for those that `use` was told to lock into worker processes (docs/sandbox.md).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rods.environments.base import Environment
from rods.errors import UserError
from rods.functions import made_by

if TYPE_CHECKING:  # at run time only its user loads it: confined processes start with this module
    from rods.config import Sandbox

BUILT_IN = {"desk": "worlds.desk:environment", "bfcl": "worlds.bfcl:environment"}
_sandbox: Sandbox | None = None


def use(sandbox: Sandbox) -> None:
    """From now on `load` gives confined ones of the environments that `sandbox` names."""
    global _sandbox
    _sandbox = sandbox


def load(name: str) -> Environment:
    """The environment called `name`, made once a process. Raises UserError when it cannot be found or made, or not be
    confined well enough."""
    return _load(name, _sandbox if _sandbox is not None and name in _sandbox.environments else None)


@cache
def _load(name: str, sandbox: Sandbox | None) -> Environment:
    target = BUILT_IN.get(name, name)
    where = f"environment {name!r}"
    if ":" not in target:
        raise UserError(
            "unknown environment", where=where, remedy=f"use {', '.join(BUILT_IN)} or your own 'package.module:factory'"
        )
    if sandbox is not None:
        return _confined(name, target, sandbox)
    environment: Environment = made_by(target, Environment, where=where)
    return environment


def _confined(name: str, factory: str, sandbox: Sandbox) -> Environment:
    from rods.environments.sandbox.confined import confined

    if name == "bfcl":
        raise UserError(
            "bfcl runs in this process only: it starts a worker of its own",
            where="operation.sandbox.environments",
            remedy="leave it out; its tools are bounded and its data checked by their hash",
        )
    return confined(
        factory,
        lowest_tier=sandbox.lowest_tier,
        workers=sandbox.workers,
        seconds=sandbox.seconds,
        memory=sandbox.memory_bytes,
        readable=sandbox.readable,
    )
