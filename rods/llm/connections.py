"""Connections to model servers: one pool for a client, with its traps closed.

No proxies or credentials from the environment, no cookies; explicit limits; idle connections dropped before the server
drops them; hosts that died without a word noticed within a minute.
"""

from __future__ import annotations

import resource
import socket
from pathlib import Path
from typing import Any

import aiohttp
import structlog

KEEP_ALIVE = 3.0  # seconds; uvicorn closes idle connections after 5, and a request must not meet that
MAX_BODY = 32 << 20  # bytes of a reply
SPARE_DESCRIPTORS = 128  # for what a process will open besides
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "rods"}

log = structlog.get_logger()


def open_session(connections: int) -> aiohttp.ClientSession:
    """A session for at most so many connections at a time."""
    _allow_descriptors(_open_descriptors() + connections + SPARE_DESCRIPTORS)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections, keepalive_timeout=KEEP_ALIVE, socket_factory=_keep_alive_socket
        ),
        headers=HEADERS,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


def _open_descriptors() -> int:
    """How many this process holds now; a guess where the system does not tell."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return SPARE_DESCRIPTORS


async def read_reply(response: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises aiohttp.ClientPayloadError for one longer than any answer needs to be."""
    length = response.content_length
    if length is not None and length <= MAX_BODY:
        return await response.read()
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            response.close()
            raise aiohttp.ClientPayloadError(f"a reply of more than {MAX_BODY >> 20} MB")
    return b"".join(parts)


def reason(error: BaseException) -> str:
    """What the HTTP library has to say, in a line."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect ({error.strerror})"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _keep_alive_socket(address: Any) -> socket.socket:
    """A socket that notices when the host at the other end is gone: a node that lost its power sends no goodbye, and
    an answer may take minutes."""
    family, kind, protocol, _, _ = address
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return found


def _allow_descriptors(needed: int) -> None:
    """Raises this process's limit on open files as far as it may: the usual 1,024 are too few for 1,024 connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        target = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        if target < needed:
            log.warning("few open files allowed", limit=target, needed=needed, remedy="raise `ulimit -n`")
