"""A worker's function that answers as the item that it is asked about is called: with nonsense,
too much, or not at all."""

from __future__ import annotations

import os
import signal
from typing import Any

from rods.canonical import JsonMapping

DEEP: Any = "x"
for _ in range(120):
    DEEP = [DEEP]
NONSENSE: dict[str, Any] = {
    "a number": 5,
    "nothing": None,
    "a text": "x",
    "a list of nothing": [],
    "numbers": [1, 2],
    "four fields": [["x", False, 1, 2]],
    "more than was asked": [["x", False]] * 9,
    "an object": {"a": 1, "official": "x"},
    "no number": {"official": float("nan")},
}
# what a request itself makes of the package's code
OVERRUN: dict[str, Any] = {
    "nested deeply": DEEP,
    "an integer beyond 64 bits": {"official": 10**400},
    "a lone surrogate": [["\ud800", False]],
    "17 MB": [["x" * (17 << 20), False]],
}
BROKEN = ("no files", "full disk", "killed", "stray lines")
LIES = (*NONSENSE, *BROKEN, *OVERRUN)


def answer(request: JsonMapping) -> Any:
    how = request.get("task") or request["item"]
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "no files":
        raise OSError(24, "Too many open files")
    if how == "full disk":
        raise BlockingIOError(28, "No space left on device")
    if how == "stray lines":
        print('["ok", []]\n\x00\x00\x00\x05\x00\x00\x00\x01[5]', flush=True)
        return 5
    return {**NONSENSE, **OVERRUN}[how]
