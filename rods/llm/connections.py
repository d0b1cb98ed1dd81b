"""Connections to model servers: one pool for a client, and the API key that goes into its headers.

No proxies, credentials or cookies from the environment; idle connections are dropped before the
server drops them, and hosts that went away without closing noticed within a minute. Printing or
formatting a `Key` shows three stars, pickling it is an error. Servers repeat keys: what is kept or
shown of their texts passes through `Key.heard` whole, then is cut.
"""

import os
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import aiofiles

from rods.config import Endpoint
from rods.errors import UserError
from rods.known_keys import SHORTEST_KEY, remember, without_keys
from rods.logs import log
from rods.model_json import valid_unicode

if TYPE_CHECKING:
    import aiohttp

# seconds; uvicorn closes idle connections after 5, and a request must not meet that
KEEP_ALIVE = 3.0
MAX_BODY = 32 << 20  # bytes of a reply
SPARE_DESCRIPTORS = 128  # for what a process will open besides
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",
    "User-Agent": "rods",
}
# characters of a complaint: those that are looked at, those that are shown
MOST_READ = 2000
MOST_COMPLAINT = 300


class Key:
    """One endpoint's key, or none."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "***" if self._value else "no key"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written anywhere")

    def headers(self) -> dict[str, str]:
        """What authorises a request."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def heard(self, words: str | bytes, most: int, *, complaint: bool = False) -> str:
        """What a server has said, fit for being kept and shown: Unicode without the key and others
        that are known (rods.known_keys), of at most `most` characters, the last of which then is an
        ellipsis. What addresses hold is cut out of a `complaint` alone: in an answer "secret" is a
        word, whatever the password of somebody's proxy is."""
        text = valid_unicode(words) if isinstance(words, str) else words.decode(errors="replace")
        text = without_keys(text, self._value, addresses=complaint)
        return text if len(text) <= most else text[: most - 1] + "…"

    def begins_in(self, text: str) -> bool:
        """Whether there is more of the key in `text` than its first few characters, perhaps cut off
        by others."""
        return bool(self._value) and self._value[:SHORTEST_KEY] in text.replace(self._value, "")

    def complaint(self, words: str | bytes) -> str:
        """The same in a line of at most `MOST_COMPLAINT` characters."""
        text = " ".join(self.heard(words, MOST_READ, complaint=True).split())
        return self.heard(text, MOST_COMPLAINT, complaint=True)


async def read_key(endpoint: Endpoint) -> Key:
    """The key that `endpoint` names. Raises UserError when it is not there. Files are read without
    blocking."""
    if endpoint.key_env:
        return _checked(
            os.environ.get(endpoint.key_env, ""), f"environment variable {endpoint.key_env}"
        )
    if not endpoint.key_file:
        return Key()
    path = os.path.expanduser(endpoint.key_file)  # noqa: ASYNC240, PTH111 — asks no file system
    try:
        async with aiofiles.open(path, encoding="utf-8") as file:
            text = await file.read()
        return _checked(text, path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(
            f"the API key cannot be read ({reason})",
            where=path,
            remedy="check operation.endpoints.key_file",
        ) from None


def _checked(text: str, where: str) -> Key:
    value = text.strip()
    if len(value) < SHORTEST_KEY or not value.isascii() or not value.isprintable() or " " in value:
        what = (
            "does not look like an API key (one word of printable ASCII)"
            if value
            else "holds no API key"
        )
        raise UserError(
            what,
            where=where,
            remedy="set it, or remove key_env and key_file for an endpoint without a key",
        )
    remember(value)
    return Key(value)


def handed_on(name: str) -> str:
    """The value of the environment variable `name`, for a process that is started with it: a key
    like others, which no text repeats from then on. Raises UserError where there is none."""
    if not (value := os.environ.get(name, "")):
        raise UserError(
            "is not set", where=f"environment variable {name}", remedy=f"export {name}=…"
        )
    remember(value)
    return value


def open_session(connections: int) -> "aiohttp.ClientSession":
    """A session, and files enough for so many connections at a time. How many there are is for its
    user to bound."""
    import aiohttp  # late, here and below: 0.3 s that a command without a model need not take

    if (room := allow_connections(connections)) < connections:
        log.warning(
            "few open files allowed", room=room, needed=connections, remedy="raise `ulimit -n`"
        )
    pool = aiohttp.TCPConnector(
        limit=0, keepalive_timeout=KEEP_ALIVE, socket_factory=_keep_alive_socket
    )
    return aiohttp.ClientSession(
        connector=pool, headers=HEADERS, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    )


async def read_reply(response: "aiohttp.ClientResponse") -> bytes:
    """The whole body. Raises aiohttp.ClientPayloadError for one longer than any answer needs to be,
    once it is decompressed: half a megabyte of gzip may hold a gigabyte."""
    import aiohttp

    length = response.content_length
    if (
        length is not None
        and length <= MAX_BODY
        and aiohttp.hdrs.CONTENT_ENCODING not in response.headers
    ):
        return await response.read()
    parts = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            response.close()
            raise aiohttp.ClientPayloadError(f"a reply of more than {MAX_BODY >> 20} MB")
    return b"".join(parts)


def reason(error: BaseException, key: Key) -> str:
    """What the HTTP library has to say, in a line; it quotes what a server has said."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        why = error.strerror or str(error.os_error) or "the connection was closed while it was made"
        return f"cannot connect ({why})"
    text = "" if key.begins_in(str(error)) else key.complaint(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _keep_alive_socket(address: Any) -> socket.socket:
    """A socket that notices when the host at the other end is gone: who lost power says no
    goodbye."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return opened


def allow_connections(connections: int) -> int:
    """Raises this process's limit on open files for so many connections, as far as it may; how many
    have room then."""
    try:
        held = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:  # the system does not tell
        held = SPARE_DESCRIPTORS
    needed = held + connections + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connections
    target = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return max(0, connections - (needed - target))
