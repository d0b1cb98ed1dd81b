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

from rods.commands import Json, Port
from rods.console.output import FoldersOfRuns, print_result
from rods.errors import UserError
from rods.family.page.page_file import export_page
from rods.family.page.server import Registry, application, local
from rods.files import explained

# The recorded run: that of `make demo`, but with daemon/stand_ins as author, so that calls of
# models are on record too (docs/generate/recorded_run.py).
ARCHIVE = files("rods.family.page").joinpath("example.zip")


def dash(
    runs: FoldersOfRuns = None,
    /,
    *,
    host: str = "127.0.0.1",
    port: Port = 8417,
    export: Annotated[
        Path | None,
        Parameter(
            help="Write the page as one file into this folder, which opens from the disk, say "
            "what the runs show, and serve nothing."
        ),
    ] = None,
    example: bool = False,
    as_json: Json = False,
) -> None:
    """Show runs in a browser, live: progress, the boundary step by step, the pool, tasks, episodes,
    logs, comparison.

    Reads files only, and only while somebody looks. Prints the page's address with the token that a
    reader needs, any other account of this machine too; Ctrl-C ends it. Held-out scores appear once
    `rods trainer score` has made them.

    Args:
        host: The address to listen at.
        example: Show a small recorded run that ships with the program, too.
    """
    with TemporaryDirectory() as folder:
        recorded = [unpacked(Path(folder))] if example else []
        paths = [*(runs or ([] if example else [Path("runs")])), *recorded]
        if export is None:
            _serve(Registry(paths), host, port, as_json)
        else:
            registry = Registry(paths)
            if not registry.names():
                raise UserError(
                    "there is no run to export",
                    where=", ".join(map(str, paths)),
                    remedy="name run folders, or a folder that holds some",
                )
            page, reports = export_page(registry, export)
            numbers = {name: report["numbers"] for name, report in reports.items()}
            lines = [str(page)]
            for name, report in reports.items():
                lines += [f"{name}:", *(f"  {line}" for line in report["findings"])]
            print_result(as_json, {"page": str(page), "runs": numbers}, lines)


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
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listening.getsockname()[1]}/?token={token}"
        print_result(as_json, {"address": address}, address)
        app = application(registry, hosts=hosts, token=token)
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(settings).run(sockets=[listening])
