"""Functions for the worker's tests: what tools with foreign arguments may do."""

from __future__ import annotations

import ctypes
import os
from typing import Any


def do(request: dict[str, Any]) -> Any:
    match request["do"]:
        case "echo":
            return request["value"]
        case "pid":
            return os.getpid()
        case "loop":
            while True:
                pass
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
    return None
