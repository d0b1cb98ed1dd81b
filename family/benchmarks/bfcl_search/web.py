"""The tools of BFCL V4's web search: the wheel's own class, with what it imports replaced by what
is bounded.

A search is a request to SerpAPI with the user's key. One that fails is nobody's failure: it is
tried again, and then ends the episode. A page that a policy asks for is read from public addresses
alone, wherever a name or a redirection leads, with bounds of time and size; one that cannot be read
is an error that the policy is told, as in the package."""

import asyncio
import codecs
import errno
import importlib.util
import random
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any, TypeVar

from rods.analysis.containment import read_json
from rods.calls import Call
from rods.canonical import JsonMapping
from rods.environments.base import Features, Result
from rods.episode.watchdog import outside
from rods.errors import InfrastructureError, UserError
from rods.family.benchmarks.bfcl.harness import taken
from rods.family.benchmarks.bfcl.questions import WheelTools, executed
from rods.family.benchmarks.workers import worker
from rods.known_keys import remember_address
from rods.llm.connections import Key, read_reply
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.classes import SOURCES
from rods.worlds.pinned import OnlyCalled

BEHAVIOUR = 1  # to be raised when equal calls may give other results
SERPAPI = "https://serpapi.com/search"
OWNER = "WebSearchAPI"
NEEDED = ("html2text", "bs4")
# of one request; the latter is the package's
SEARCH_SECONDS = 60.0
PAGE_SECONDS = 20.0
# seconds between tries of a search; doubles
FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
MOST_PAGE = 4 << 20  # bytes of a page
# which a page may be written in: those of the web. Some others that Python has take a time that
# grows as the square of a page.
_WRITTEN = re.compile(
    r"ascii|utf-(8|16|16-[bl]e)|iso8859-\d+|cp(125\d|866|874|932|949|950)|koi8-[ru]"
    r"|gb(k|2312|18030)|big5(hkscs)?|euc_(jp|kr)|shift_jis|iso2022_jp"
).fullmatch
_ROUTED = ip_network("2000::/3")  # all that is routed of the sixth version


def public(address: str) -> bool:
    """Whether a host of the internet at large has this address: not this machine, nor its
    network."""
    ip = ip_address(address.partition("%")[0])
    if ip.version == 6:
        return ip in _ROUTED and ip.is_global and ip.sixtofour is None and ip.teredo is None
    return ip.is_global and not ip.is_multicast


@dataclass
class Page:
    """What the package reads of a response."""

    url: str
    status: int
    reason: str
    text: str

    def raise_for_status(self) -> None:
        if self.status >= 400:
            whose = "Client" if self.status < 500 else "Server"
            raise OSError(f"{self.status} {whose} Error: {self.reason} for url: {self.url}")


NOTHING = Page("", 200, "", "")
T = TypeVar("T")


class Web:
    """What an evaluation reads of the web, from whichever thread: searches at `url` with `key`,
    which are tried for `patience` seconds, and pages from addresses that are `reachable`."""

    def __init__(
        self, url: str, key: str, patience: float, reachable: Callable[[str], bool] = public
    ) -> None:
        remember_address(url)
        self.url = url
        self.patience = patience
        self._key = key
        self._reachable = reachable
        self._reader = worker(
            "rods.family.benchmarks.bfcl_search.pages:text", reply_bytes=8 * MOST_PAGE
        )

    def search(self, asked: JsonMapping) -> Any:
        """SerpAPI's answer, JSON. Raises InfrastructureError where there is none."""
        parameters = {**asked, "api_key": self._key, "output": "json"}
        end = time.monotonic() + self.patience
        wait = FIRST_WAIT
        with outside():
            while True:
                try:
                    page = asyncio.run(
                        _get(self.url, {name: str(value) for name, value in parameters.items()})
                    )
                    answer = read_json(page.text)
                    complaint = f"HTTP {page.status}: {page.text}"
                    busy = page.status == 429 or (
                        isinstance(answer, dict) and "429" in str(answer.get("error", ""))
                    )
                    if page.status in (200, 400) and isinstance(answer, dict) and not busy:
                        return answer
                    if page.status in (401, 403):
                        end = 0.0
                except (OSError, ValueError) as error:
                    complaint = f"{type(error).__name__}: {error}"
                if time.monotonic() + wait > end:
                    raise InfrastructureError(f"the search: {Key(self._key).complaint(complaint)}")
                time.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)

    def page(self, url: str, *, headers: Mapping[str, str], **_: Any) -> Page:
        """In the place of `requests.get`. Raises OSError or ValueError for what cannot be read."""
        with outside():
            return asyncio.run(_get(url, {}, headers, self._reachable))

    def text(self, page: str, mode: str) -> str:
        """Raises Overrun where it exceeds the worker's bounds."""
        with outside():
            return str(self._reader.call({"page": page, "mode": mode}))


async def _get(
    url: str,
    asked: Mapping[str, str],
    headers: Mapping[str, str] = {},
    reachable: Callable[[str], bool] | None = None,
) -> Page:
    import aiohttp  # late, as in rods.llm.connections

    pool = aiohttp.TCPConnector(socket_factory=partial(_socket, reachable))
    timeout = aiohttp.ClientTimeout(total=SEARCH_SECONDS if reachable is None else PAGE_SECONDS)
    accepted = {**headers, "Accept-Encoding": "gzip, deflate"}
    try:
        async with (
            aiohttp.ClientSession(connector=pool, timeout=timeout, trust_env=False) as session,
            session.get(url, params=asked, headers=accepted) as response,
        ):
            content = await read_reply(response)
            if len(content) > MOST_PAGE:
                raise OSError(f"the page has more than {MOST_PAGE >> 20} MB")
            written = codecs.lookup(response.charset or "utf-8").name
            if not _WRITTEN(written):
                raise OSError(f"the page is written in {written}, which is not read")
            text = content.decode(written, errors="replace")
            return Page(url, response.status, response.reason or "", text)
    except LookupError as error:  # an encoding that nobody knows
        raise OSError(str(error)) from error
    except TimeoutError as error:
        raise OSError(f"no answer within {timeout.total:g} s") from error
    except aiohttp.ClientError as error:
        raise OSError(str(error) or type(error).__name__) from error


def _socket(reachable: Callable[[str], bool] | None, address: Any) -> socket.socket:
    """A socket for an address that a name or a redirection has led to. Raises OSError for one out
    of reach."""
    family, kind, protocol, _, place = address
    if reachable is not None and not reachable(place[0]):
        raise OSError(errno.EACCES, f"{place[0]} is no public address")
    return socket.socket(family, kind, protocol)


class WebTools(WheelTools):
    """The environment of these tools."""

    name = "bfcl_search"
    features = Features(snapshot=False, fork=False, state_visible=False)

    def __init__(self) -> None:
        super().__init__("web_search", OWNER, behaviour=BEHAVIOUR, search=True)
        # parses the class; where other threads run meanwhile, CPython 3.11 may fail at that
        self.reset(None)

    def reset(self, state: JsonMapping | None) -> "Searcher":
        return Searcher(self, None, snippets=True)


class Searcher(OnlyCalled):
    """One episode's tools. `trouble`: what broke that is not the policy's."""

    trouble = ""

    def __init__(self, tools: WebTools, web: Web | None, *, snippets: bool) -> None:
        self._tools = tools
        self._web = web
        self._object = _kind(self)()
        self._object._load_scenario({"show_snippet": snippets})

    def call(self, call: Call) -> Result:
        result = executed(self._object, self._tools.tools(), call)
        if self.trouble:
            raise InfrastructureError(self.trouble)
        return result

    def asked(self, read: Callable[[Web], T], otherwise: T) -> T:
        """What is read of the web. A failure of the machinery is kept, since the class would tell
        the policy of it."""
        try:
            if self._web is None:
                raise InfrastructureError("there is no web here")
            return read(self._web)
        except InfrastructureError as error:
            self.trouble = str(error)
            return otherwise


def _kind(searcher: Searcher) -> type:
    """The wheel's class, with the web of `searcher` in the place of what it imports."""

    class Markdown:
        def handle(self, page: str) -> str:
            return searcher.asked(lambda web: web.text(page, "markdown"), "")

    class Soup:
        def __init__(self, page: str, parser: str) -> None:
            self._page = page

        def __call__(self, names: list[str]) -> list[Any]:
            return []  # scripts and styles go with the rest, in the worker

        def get_text(self, separator: str, *, strip: bool) -> str:
            return searcher.asked(lambda web: web.text(self._page, "truncate"), "")

    modules = {
        "random": random,
        "os": SimpleNamespace(getenv=lambda name: None),  # the key is added where it is sent
        "GoogleSearch": lambda asked: SimpleNamespace(
            get_dict=lambda: searcher.asked(lambda w: w.search(asked), {})
        ),
        "requests": SimpleNamespace(
            get=lambda url, **more: searcher.asked(lambda w: w.page(url, **more), NOTHING)
        ),
        "html2text": SimpleNamespace(HTML2Text=Markdown),
        "BeautifulSoup": Soup,
    }
    kind: type = taken(wheel.path(), f"{SOURCES}/web_search.py", (OWNER,), modules)[OWNER]
    return kind


def check_installed() -> None:
    """Raises UserError where what reads pages is not installed."""
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise UserError(
            f"needs {' and '.join(missing)}, which is not installed",
            where="--benchmark bfcl_search",
            remedy="pip install '.[search]' in the clone",
        )
