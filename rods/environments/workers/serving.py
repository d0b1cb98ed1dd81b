"""The child's side of a worker (`worker`): reads requests, answers them by one function, and stays within its limits.

Runs as `python -c …` with one JSON object as argument: {"target": "package.module:function", "path": [entries of
sys.path], "seconds", "memory", "reply_bytes", "opening": a first request or null, "quiet": whether nobody reads what it
prints from the opening request on, "confinement": limits that are laid on before anything foreign is imported, or
null}. Messages in both directions are four bytes of length, the four of the request's number, and JSON. The first reply
is number 0, to the opening request.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson

from rods.environments.workers.wire import loads

HEADER = struct.Struct(">II")
_CHUNK = 1 << 16


def main() -> None:
    """The child's program: answers until its input closes."""
    order = orjson.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    pipe = os.dup(0)  # one socket for both directions
    confined = order["confinement"] is not None
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # a function that prints must not write into the protocol
    module, _, name = order["target"].partition(":")
    function: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    if confined:
        from rods.environments.sandbox.confining import confine

        confine(order["confinement"], order["memory"])
    else:
        limit(resource.RLIMIT_AS, order["memory"])
        limit(resource.RLIMIT_CORE, 0)
    if order["quiet"]:  # so far it told why it does not start; what foreign code prints is for nobody
        os.dup2(null, 1)
        os.dup2(null, 2)
    limit_bytes = order["reply_bytes"]
    opening = order["opening"]
    _write(pipe, 0, orjson.dumps(["ok", None]) if opening is None else _answer(function, opening, limit_bytes))
    while (header := _read(pipe, HEADER.size)) is not None:
        length, number = HEADER.unpack(header)
        request = _read(pipe, length)
        if request is None:
            return
        if not confined:  # should the parent die, a computation that hangs ends by itself
            limit(resource.RLIMIT_CPU, int(time.process_time() + order["seconds"]) + 2)
        _write(pipe, number, _answer(function, loads(request), limit_bytes))


def _answer(function: Callable[[Any], Any], request: Any, reply_bytes: int) -> bytes:
    try:
        reply = orjson.dumps(["ok", function(request)])
    except MemoryError:
        return orjson.dumps(["too_large", "more memory than allowed"])
    except RecursionError:
        return orjson.dumps(["raised", "RecursionError: maximum recursion depth exceeded"])
    except Exception as error:  # noqa: BLE001 whatever the function raises is the answer
        text = f"{type(error).__name__}: {error}"[:2000].encode("utf-8", "replace").decode()
        return orjson.dumps(["raised", text])
    if len(reply) > reply_bytes:
        return orjson.dumps(["too_large", f"an answer of {len(reply)} bytes; at most {reply_bytes}"])
    return reply


def limit(kind: int, value: int) -> None:
    """Sets a soft limit, as far as the system lets us."""
    _, hard = resource.getrlimit(kind)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _read(pipe: int, count: int) -> bytes | None:
    part = os.read(pipe, count)
    if len(part) == count:
        return part
    parts: list[bytes] = []
    while part:
        parts.append(part)
        count -= len(part)
        if not count:
            return b"".join(parts)
        part = os.read(pipe, min(count, _CHUNK))
    return None


def _write(pipe: int, number: int, content: bytes) -> None:
    content = HEADER.pack(len(content), number) + content
    while content:
        content = content[os.write(pipe, content) :]
