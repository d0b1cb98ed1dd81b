"""Finds environments by name: one that a folder declares by its short name or by the ending of what
describes it (`rods.environments.registry`), or a user's own:
`package.module:factory`, `file.py:factory`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rods.environments import addressed, registry
from rods.environments.base import Environment
from rods.errors import UserError
from rods.functions import made_by, named_function

if TYPE_CHECKING:
    from rods.config import Sandbox


class Environments(AbstractContextManager["Environments"]):
    """The environments of one program or one run, each made when it is first asked for.

    Those that `sandbox` names, and generated ones (`addressed`, looked for below `folders`, then
    from the current one), run in confined worker processes (docs/sandbox.md), of which there are no
    more at a time than `sandbox` says: the environment that was asked the longest ago gives up its
    own. As a context manager it ends their processes.
    Without `trust`, an environment whose code or command would run with all rights of this user is
    refused: a file of tasks may come from anywhere, and name any."""

    def __init__(
        self, sandbox: "Sandbox | None" = None, *folders: Path, trust: bool = True
    ) -> None:
        self.sandbox = sandbox
        self.folders = folders
        self._trust = trust
        self._confiner: Any = None  # runs environments in processes that can do no harm
        self._made: dict[str, Environment] = {}

    def load(self, name: str) -> Environment:
        """The environment called `name`, the same object at every call. Raises UserError when it
        cannot be found, made, or confined as well as the settings demand."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def close(self) -> None:
        """Ends the processes of environments that have some; these cannot be used any more."""
        while self._made:
            close: Callable[[], None] | None = getattr(self._made.popitem()[1], "close", None)
            if close is not None:
                close()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _make(self, name: str) -> Environment:
        where = f"environment {name!r}"
        makers = registry.environments()
        endings = sorted((ending for ending in makers if ending[0] in "/."), key=len, reverse=True)
        named_there = self.sandbox is not None and name in self.sandbox.environments
        has_address = addressed.address_of(name) is not None
        if not (self._trust or named_there or has_address) and (
            ":" in name or name.endswith(tuple(registry.having("ending").values()))
        ):
            raise UserError(
                "these tasks have its code run, or a command that it names, with all rights of "
                "this user",
                where=where,
                remedy="look at it, then add --trust, or confine it (docs/sandbox.md)",
            )
        for ending in endings:
            if name.endswith(ending):
                environment: Environment = named_function(makers[ending], where=where)(name)
                return environment
        factory = makers.get(name, name)
        if ":" not in factory:
            named = Path(name).suffix or name.endswith("/")
            what = (
                "nothing that is installed reads such a description"
                if named
                else "unknown environment"
            )
            short = ", ".join(key for key in makers if key not in endings)
            ways = (
                f", or what describes one: {', '.join(f'…{ending}' for ending in endings)}"
                if endings
                else ""
            )
            raise UserError(
                what,
                where=where,
                remedy=f"use {short} or your own 'package.module:factory', 'file.py:factory'{ways}",
            )
        if has_address:
            return self._confine(
                name, factory, addressed.text_of(addressed.source_of(name, self.folders))
            )
        if named_there:
            return self._confine(name, factory)
        own: Environment = made_by(factory, Environment, where=where)
        return own

    def _confine(self, name: str, factory: str, source: str | None = None) -> Environment:
        settings = "operation.sandbox.environments"
        if (world := registry.worlds().get(name)) is not None and world.unconfined:
            raise UserError(
                f"{name} runs in this process only: {world.unconfined['why']}",
                where=settings,
                remedy=world.unconfined["remedy"],
            )
        if source is None and (file := factory.rpartition(":")[0]).endswith(".py"):
            # the process starts elsewhere
            factory = str(Path(file).absolute()) + factory.removeprefix(file)
        if self._confiner is None:
            where = f"environment {name!r}" if source is not None else settings
            from rods.config import Sandbox

            if not (confiners := list(registry.having("confiner").values())):
                raise UserError(
                    "nothing here can confine an environment",
                    where=where,
                    remedy="install the folder of rods/worlds that declares `confiner`",
                )
            self._confiner = named_function(confiners[0], where=where)(self.sandbox or Sandbox())
        confined: Environment = self._confiner.confine(factory, source)
        return confined
