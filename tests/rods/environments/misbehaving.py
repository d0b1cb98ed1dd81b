"""Functions for the worker's tests: what tools with foreign arguments may do."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any, BinaryIO

from rods.environments.workers import serving


def do(request: dict[str, Any]) -> Any:
    match request["do"]:
        case "echo":
            return request["value"]
        case "pid":
            return os.getpid()
        case "loop":
            while True:
                pass
        case "sleep":
            time.sleep(request["seconds"])
        case "power":
            return (10 ** (10**9)) % 7
        case "memory":
            return len(bytearray(1 << 34))
        case "reply":
            return "x" * 1_000_000
        case "stack":
            return ctypes.string_at(0)  # what an overrun of the C stack ends as
        case "exit":
            os._exit(3)
        case "raise":
            raise ValueError("no such luck")
        case "recursion":
            return do(request)
        case "print":
            print("noise" * 1000, flush=True)
            return "printed"
        case "environment":
            return dict(os.environ)
        case "read_slowly":
            serving._read = _read_slowly
        case "write_slowly":
            serving._write = _write_slowly
    return None


def _read_slowly(requests: BinaryIO, count: int) -> bytes | None:
    """At most 1 MB in 0.8 s."""
    content = b""
    while len(content) < count:
        if not (part := requests.read(min(count - len(content), 1 << 14))):
            return None
        content += part
        time.sleep(0.0125)
    return content


def _write_slowly(pipe: int, number: int, content: bytes) -> None:
    """What is long: byte after byte for two seconds, and then the rest."""
    content = serving.HEADER.pack(len(content), number) + content
    end = time.monotonic() + 2
    while len(content) > 1000 and time.monotonic() < end:
        content = content[os.write(pipe, content[:1]) :]
    while content:
        content = content[os.write(pipe, content) :]
