"""`rods dash`: a page over run folders that moves while they are written."""

from __future__ import annotations

import secrets
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.types import UInt16

from rods.errors import UserError

if TYPE_CHECKING:
    from console.dash.server import Registry

Runs = Annotated[
    list[Path] | None,
    Parameter(help="Run folders, and folders that hold some; runs/ where none is named."),
]
Host = Annotated[str, Parameter(help="The address to listen at; any other than this machine's own needs a token.")]
Port = Annotated[UInt16, Parameter(help="The port; 0 takes a free one.")]
Export = Annotated[
    Path | None,
    Parameter(help="Write the page as files into this folder, which open from the disk, and serve nothing."),
]
Example = Annotated[bool, Parameter(negative="", help="Show a small recorded run that ships with the program, too.")]


def dash(
    runs: Runs = None,
    /,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8417,
    export: Export = None,
    example: Example = False,
) -> None:
    """Show runs in a browser, live: progress, the boundary step by step, the pool, tasks, episodes, logs, comparison.

    Reads files only, and only while somebody looks. Prints the page's address; Ctrl-C ends it.
    """
    from console.dash.example import unpacked
    from console.dash.server import Registry

    with TemporaryDirectory() as folder:
        recorded = [unpacked(Path(folder))] if example else []
        registry = Registry([*(runs or ([] if example else [Path("runs")])), *recorded])
        if export is None:
            _serve(registry, host, port)
        else:
            from console.dash.export import export_page

            print(export_page(registry, export))


def _serve(registry: Registry, host: str, port: int) -> None:
    import socket

    import uvicorn

    from console.dash.server import application, local

    own = local(host)
    token = "" if own else secrets.token_urlsafe(24)
    hosts = ["127.0.0.1", "localhost", "[::1]", "::1", host] if own else ["*"]
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        remedy = "name another with --port (0 takes a free one)"
        raise UserError(f"cannot be listened at ({error.strerror})", where=f"{host}:{port}", remedy=remedy) from error
    with listening:
        shown = f"[{host}]" if ":" in host else host
        ending = f"?token={token}" if token else ""
        print(f"http://{shown}:{listening.getsockname()[1]}/{ending}", flush=True)
        app = application(registry, hosts=hosts, token=token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        server.run(sockets=[listening])
