"""The server of the page: the shell, and the views as JSON, which run in threads. Nothing is
written; every request is GET."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rods.canonical import JsonObject
from rods.console.output import find_runs, json_bytes
from rods.errors import RodsError, UserError
from rods.family.page.follower import Follower
from rods.family.page.views import VIEWS

# and the port: pages at other ports of this machine have tokens of their own
COOKIE = "rods_token_"
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
STATIC = files("rods.family.page").joinpath("static")
MODULES = (
    *("source", "dom", "chart", "conversation", "keys", "main", "run", "boundary", "pool"),
    *("funnel", "task", "models", "compare", "logs", "report"),
)


class Registry:
    """The runs that the page knows, by name, found anew at each listing; followed from the first
    request on."""

    def __init__(self, folders: list[Path]) -> None:
        """`folders`: run folders, and folders that hold some. Raises UserError where one is
        neither."""
        self._paths = folders
        self._lock = Lock()
        self._followers: dict[Path, Follower] = {}
        self.names()

    def names(self) -> dict[str, Path]:
        """As of `find_runs`."""
        return find_runs(self._paths)

    def listing(self) -> JsonObject:
        """The runs as the page chooses among them."""
        return {
            "runs": [{"name": name, "folder": str(folder)} for name, folder in self.names().items()]
        }

    def follower(self, name: str) -> Follower:
        """Raises UserError for a name that no run has, RodsError for a run that cannot be
        opened."""
        names = self.names()
        folder = next(iter(names.values()), None) if name == "latest" else names.get(name)
        if folder is None:
            raise UserError("there is no such run", where=name, remedy="choose another")
        with self._lock:
            if folder not in self._followers:
                self._followers[folder] = Follower(folder)
            return self._followers[folder]

    def answer(self, name: str, view: str, query: Mapping[str, str]) -> Any:
        """What a view says of a run. Raises as `follower`, and for a run that is damaged."""
        if view not in VIEWS:
            raise UserError(
                "there is no such view", where=view, remedy=f"there are {', '.join(VIEWS)}"
            )
        return VIEWS[view](self.follower(name), query)


def script_json(value: Any) -> str:
    """JSON as it may stand in the page, where nothing may close its tag."""
    return json_bytes(value).decode().replace("<", "\\u003c")


def import_map(addresses: Mapping[str, str]) -> str:
    """The import map by which the modules find each other."""
    return script_json({"imports": addresses})


def hashed(script: str) -> str:
    """How a content security policy names a script that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def static(name: str) -> str:
    """The text of a file that the page is made of."""
    return STATIC.joinpath(name).read_text(encoding="utf-8")


def application(registry: Registry, *, hosts: list[str], token: str) -> Starlette:
    """The page over `registry`. `hosts`: names under which it may be asked for; `token`: what a
    reader must show."""
    map_text = import_map({name: f"/static/{name}.js" for name in MODULES})
    page = static("index.html").replace("{{map}}", map_text)
    policy = (
        "default-src 'none'; connect-src 'self'; img-src 'self' data:; style-src 'self' "
        f"'unsafe-inline'; script-src 'self' {hashed(map_text)}; base-uri 'none'; form-action "
        "'none'; frame-ancestors 'none'"
    )

    async def index(request: Request) -> Response:
        return Response(
            page,
            media_type="text/html",
            headers={"content-security-policy": policy, "referrer-policy": "no-referrer"},
        )

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            return Response(static(name), media_type=TYPES.get(Path(name).suffix, "text/plain"))
        except (OSError, ValueError) as error:  # a name with NUL in it is none
            raise HTTPException(404) from error

    async def runs(request: Request) -> Response:
        return _json(await run_in_threadpool(registry.listing))

    async def view(request: Request) -> Response:
        name = request.path_params["run"]
        wanted = request.path_params["view"]
        return await run_in_threadpool(
            _answered, registry, name, wanted, dict(request.query_params)
        )

    def right(shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), token.encode())

    async def guard(request: Request, answer: RequestResponseEndpoint) -> Response:
        """Refuses who does not show the token: in the address once, then in a cookie."""
        shown = request.query_params.get("token", "")
        name = f"{COOKIE}{request.url.port}"
        if right(shown) and request.url.path == "/":
            response = Response(status_code=303, headers={"location": "/"})
            response.set_cookie(name, shown, httponly=True, samesite="strict")
            return response
        if right(request.cookies.get(name, "")) or right(shown):
            return await answer(request)
        return Response(
            "This page needs the token that `rods dash` has printed: open the address with "
            "?token=… once.\n",
            401,
            media_type="text/plain",
        )

    return Starlette(
        routes=[
            Route("/", index),
            Route("/static/{name}", asset),
            Route("/api/runs", runs),
            Route("/api/{run}/{view}", view),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts),
            Middleware(BaseHTTPMiddleware, dispatch=guard),
        ],
    )


def _answered(registry: Registry, name: str, view: str, query: Mapping[str, str]) -> Response:
    """The JSON of a view; an error of the run or of the question as `error`, with where and what to
    do."""
    try:
        return _json(registry.answer(name, view, query))
    except UserError as error:
        return _json({"error": error.what, "where": error.where, "remedy": error.remedy}, 400)
    except RodsError as error:
        return _json({"error": str(error), "where": "", "remedy": "`rods verify` says more"}, 409)


def _json(value: Any, code: int = 200) -> Response:
    return Response(
        json_bytes(value),
        code,
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )


def local(host: str) -> bool:
    """Whether `host` names this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
