"""The child's side of a worker: reads requests, answers each by one function, and limits itself.

Runs as `python -c …` with one JSON object as argument: the fields of `child.WorkerSpec`, "quiet":
whether nobody reads what it prints from the opening request on, and "confinement": what the
function that it names in "by" gets before the target runs, or null. Messages in both directions are
four bytes of length, the four of the request's number, and JSON. The first reply is number 0, to
the opening request."""

import contextlib
import json
import os
import pkgutil
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import orjson

from rods.canonical import refuse_nan

HEADER = struct.Struct(">II")
COMPLAINT = 2_000  # characters of an error's text
_BY_JSON = b" "  # how a request begins that Python's own json wrote


def main() -> None:
    """The child's program: answers until its input closes."""
    spec = orjson.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    pipe = os.dup(0)  # one socket for both directions
    requests = os.fdopen(pipe, "rb")
    confined = spec["confinement"] is not None
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # a function that prints must not write into the protocol
    function = pkgutil.resolve_name(spec["target"])
    if confined:
        pkgutil.resolve_name(spec["confinement"]["by"])(spec["confinement"], spec["memory"])
    else:
        limit(resource.RLIMIT_AS, spec["memory"])
        limit(resource.RLIMIT_CORE, 0)
    # so far it told why it does not start; what foreign code prints is for nobody
    if spec["quiet"]:
        os.dup2(null, 1)
        os.dup2(null, 2)
    limit_bytes = spec["reply_bytes"]
    opening = spec["opening"]
    _write(
        pipe,
        0,
        orjson.dumps(["ok", None]) if opening is None else _answer(function, opening, limit_bytes),
    )
    while (header := _read(requests, HEADER.size)) is not None:
        length, number = HEADER.unpack(header)
        request = _read(requests, length)
        if request is None:
            return
        if not confined:  # should the parent die, a computation that hangs ends by itself
            limit(resource.RLIMIT_CPU, int(time.process_time() + spec["seconds"]) + 2)
        if spec["cpu"]:  # SIGPROF ends this process, in the middle of whatever it computes
            signal.setitimer(signal.ITIMER_PROF, spec["seconds"])
        answer = _answer(function, loads(request), limit_bytes)
        if spec["cpu"]:
            signal.setitimer(signal.ITIMER_PROF, 0)
        _write(pipe, number, answer)


def _answer(function: Callable[[Any], Any], request: Any, reply_bytes: int) -> bytes:
    try:
        reply = orjson.dumps(["ok", function(request)])
    except MemoryError:
        return orjson.dumps(["too_large", "more memory than allowed"])
    except RecursionError:
        return orjson.dumps(["raised", "RecursionError: maximum recursion depth exceeded"])
    except Exception as error:  # noqa: BLE001 whatever the function raises is the answer
        text = f"{type(error).__name__}: {error}"[:COMPLAINT].encode("utf-8", "replace").decode()
        return orjson.dumps(["raised", text])
    if len(reply) > reply_bytes:
        return orjson.dumps(
            ["too_large", f"an answer of {len(reply)} bytes; at most {reply_bytes}"]
        )
    return reply


def limit(kind: int, value: int) -> None:
    """Sets a soft limit, as far as the system lets us."""
    _, hard = resource.getrlimit(kind)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(
            kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard)
        )


def _read(requests: BinaryIO, count: int) -> bytes | None:
    content = requests.read(count)
    return content if len(content) == count else None


def _write(pipe: int, number: int, content: bytes) -> None:
    content = HEADER.pack(len(content), number) + content
    while content:
        content = content[os.write(pipe, content) :]


def dumps(value: Any) -> bytes:
    """A request as JSON: by orjson, or by Python's own module where orjson would refuse or change a
    value (integers beyond 64 bits, infinities, lone surrogates: policies write them, and an
    environment must see them). Replies are orjson's alone. Raises ValueError or TypeError for what
    is no JSON, or nested too deeply."""
    try:
        text = orjson.dumps(value)
        if b"null" in text:
            refuse_nan(value)  # which orjson writes as null
        return text
    except (TypeError, ValueError):
        try:
            return _BY_JSON + json.dumps(value).encode()
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def loads(content: bytes) -> Any:
    """Reads what `dumps` wrote. Raises ValueError for what is no JSON, or nested too deeply."""
    if content[:1] != _BY_JSON:
        return orjson.loads(content)
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
