"""Finds environments by name: `desk`, `bfcl`, `repository`, or a user's own: `package.module:factory`,
`file.py:factory`, `folder/`, a folder of tool documents (docs/trustee.md), or `file.json`, the description of an MCP
server (docs/mcp.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rods.environments import addressed
from rods.environments.base import Environment
from rods.errors import UserError
from rods.functions import made_by, named_function

if TYPE_CHECKING:
    from rods.config import Sandbox
    from rods.environments.workers.pool import Pool, Spares

BUILT_IN = ("desk", "bfcl", "repository")  # "NAME" is short for "worlds.NAME:environment"
# what makes an environment of the files that its name leads to, by how the name ends
DESCRIBED = {
    "/": "worlds.repository:of_folder",
    ".openenv.json": "worlds.openenv:described",  # before the endings that it has too
    ".json": "worlds.mcp:described",
}


class Environments:
    """The environments of one program or one run, each made when it is first asked for.

    Those that `sandbox` names, and generated ones (`addressed`), run in confined worker processes (docs/sandbox.md),
    the others in this process. The files of generated ones are looked for below `folders`, then from the current one.
    There are no more processes at a time than `sandbox` says: the environment that was asked the longest ago gives up
    its own, and is the same when it comes back. Two objects with different settings can be used side by side. As a
    context manager it ends their processes; otherwise they end with this process.
    """

    def __init__(self, sandbox: Sandbox | None = None, *folders: Path) -> None:
        self.folders: tuple[Path, ...] = folders
        self._sandbox = sandbox
        self._spares: Spares | None = None  # for generated worlds, whichever is needed next
        self._pool: Pool | None = None
        self._made: dict[str, Environment] = {}

    def load(self, name: str) -> Environment:
        """The environment called `name`, the same object at every call. Raises UserError when it cannot be found, made,
        or confined as well as the settings demand."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def close(self) -> None:
        """Ends the processes of environments that have some; these cannot be used any more."""
        while self._made:
            close: Callable[[], None] | None = getattr(self._made.popitem()[1], "close", None)
            if close is not None:
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _make(self, name: str) -> Environment:
        where = f"environment {name!r}"
        for ending, factory in DESCRIBED.items():
            if name.endswith(ending):
                described: Environment = named_function(factory, where=where)(name)
                return described
        factory = f"worlds.{name}:environment" if name in BUILT_IN else name
        if ":" not in factory:
            raise UserError(
                "unknown environment",
                where=where,
                remedy=f"use {', '.join(BUILT_IN)} or your own 'package.module:factory', 'file.py:factory', 'folder/', "
                "'file.json'",
            )
        if addressed.address_of(name) is not None:
            from rods.config import Sandbox

            source = addressed.source_of(name, self.folders)
            return self._confine(name, factory, self._sandbox or Sandbox(), source)
        if self._sandbox is not None and name in self._sandbox.environments:
            return self._confine(name, factory, self._sandbox)
        environment: Environment = made_by(factory, Environment, where=where)
        return environment

    def _confine(self, name: str, factory: str, sandbox: Sandbox, source: str | None = None) -> Environment:
        from rods.environments.sandbox.confined import confined
        from rods.environments.workers.pool import Pool, Spares

        if name == "bfcl":
            raise UserError(
                "bfcl runs in this process only: it starts a worker of its own",
                where="operation.sandbox.environments",
                remedy="leave it out; its tools are bounded and its data checked by their hash",
            )
        if source is None and (file := factory.rpartition(":")[0]).endswith(".py"):
            factory = str(Path(file).absolute()) + factory.removeprefix(file)  # the process starts elsewhere
        if self._pool is None:
            self._pool = Pool(sandbox.processes)
            self._spares = Spares(sandbox.workers, self._pool, ahead=True)
        return confined(
            factory,
            source=None if source is None else addressed.text_of(source),
            lowest_tier=sandbox.lowest_tier,
            workers=sandbox.workers,
            seconds=sandbox.seconds,
            memory=sandbox.memory_bytes,
            readable=sandbox.readable,
            spares=Spares(sandbox.workers, self._pool) if source is None else self._spares,
        )
