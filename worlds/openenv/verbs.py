"""`rods env serve`: an environment of ours for others, as an OpenEnv server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.types import PositiveInt, UInt16

if TYPE_CHECKING:
    from rods.environments.base import Environment

Name = Annotated[str, Parameter(help="Any environment, named as tasks name it.")]
Port = Annotated[UInt16, Parameter(help="The port on 127.0.0.1; 0 takes a free one.")]
Sessions = Annotated[PositiveInt, Parameter(help="How many worlds live at once; a further session is refused.")]


def serve_environment(name: Name, /, *, port: Port = 0, sessions: Sessions = 64) -> None:
    """Serve an environment with OpenEnv's protocol until Ctrl-C: a WebSocket, a world (docs/openenv.md).

    Its tools are called by OpenEnv's actions of tools, `reset` takes a task's state as `state`. Prints the address.
    """
    from rods.environments.loading import Environments

    with Environments() as environments:
        asyncio.run(_serve(environments.load(name), port, sessions))


async def _serve(environment: Environment, port: int, sessions: int) -> None:
    """Answers until a signal comes."""
    from rods.errors import UserError
    from rods.signals import on_signal
    from rods.worlds.openenv.serving import served

    stopped, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop(number: int) -> None:
        loop.call_soon_threadsafe(stopped.set)

    on_signal(stop)
    try:
        async with served(environment, port, sessions) as address:
            print(address, flush=True)
            await stopped.wait()
    except OSError as error:
        what = f"cannot listen there ({error.strerror})"
        raise UserError(what, where=f"port {port}", remedy="leave out --port: a free one is taken") from error
