"""`rods dash`: a page over run folders that moves while they are written, or as files."""

import secrets
import socket
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from zipfile import ZipFile

import uvicorn
from cyclopts import Parameter

from rods.commands import Json
from rods.console.dash.page_file import export_page, export_report
from rods.console.dash.server import Connection, Registry, application, local
from rods.console.output import FoldersOfRuns, Port, find_runs, holds_runs, print_result
from rods.errors import UserError
from rods.files import explained
from rods.llm.connections import allow_connections

# The recorded run: that of `make demo`, but with daemon/stand_ins as author, so that calls of
# models are on record too (docs/generate/recorded_run.py).
ARCHIVE = files("rods.console.dash").joinpath("example.zip")
STREAMS = 10_000  # pages that may be open at a time, where the process may open as many files
Host = Annotated[str, Parameter(help="The address to listen at.")]
Export = Annotated[
    Path | None,
    Parameter(
        help="Write the page as files into this folder, which open from the disk, and serve "
        "nothing."
    ),
]
Report = Annotated[
    bool,
    Parameter(
        negative="",
        help="Write the page as one file into each run's report/; say what the run shows.",
    ),
]
Example = Annotated[
    bool, Parameter(negative="", help="Show a small recorded run that ships with the program, too.")
]


def dash(
    runs: FoldersOfRuns = None,
    /,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8417,
    export: Export = None,
    report: Report = False,
    example: Example = False,
    as_json: Json = False,
) -> None:
    """Show runs in a browser, live: progress, the boundary step by step, the pool, tasks, episodes,
    logs, comparison.

    Reads files only, and only while somebody looks. Prints the page's address with the token that a
    reader needs, any other account of this machine too; Ctrl-C ends it. Held-out scores appear once
    `rods trainer score` has made them.
    """
    if report:
        if export is not None or example:
            raise UserError(
                "a report is one run's, in its folder",
                where="--report",
                remedy="leave out the rest",
            )
        for path in runs or [Path("runs")]:
            for run in find_runs([path]).values() if holds_runs(path) else [path]:
                page, said = export_report(run)
                lines = [str(page), *(f"  {line}" for line in said["findings"])]
                print_result(as_json, {"report": lines[0], **said["numbers"]}, lines)
        return
    with TemporaryDirectory() as folder:
        recorded = [unpacked(Path(folder))] if example else []
        shown = [*(runs or ([] if example else [Path("runs")])), *recorded]
        if export is None:
            _serve(Registry(shown), host, port, as_json)
        else:
            written = str(export_page(Registry(shown), export)[0])
            print_result(as_json, {"page": written}, written)


def unpacked(folder: Path) -> Path:
    """Writes the recorded run into `folder`; the run's own folder there."""
    with ARCHIVE.open("rb") as file, ZipFile(file) as archive:
        archive.extractall(folder / "example")
    return folder / "example"


def _serve(registry: Registry, host: str, port: int, as_json: bool) -> None:
    own = local(host)
    token = secrets.token_urlsafe(24)
    hosts = ["127.0.0.1", "localhost", "[::1]", "::1", host] if own else ["*"]
    with explained(
        "cannot be listened at", f"{host}:{port}", "name another with --port (0 takes a free one)"
    ):
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    with listening:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/?token={token}"
        print_result(as_json, {"address": address}, address)
        app = application(registry, hosts=hosts, token=token, room=allow_connections(STREAMS))
        settings = uvicorn.Config(
            app, http=Connection, log_level="warning", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(settings)
        server.run(sockets=[listening])
