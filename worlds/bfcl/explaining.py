"""Hints after refused calls: rules of BFCL's tools that its error messages do not state (000 §3.3, Appendix H).

Sentences say what a tool takes, never what to give it, and name no tool: which are visible differs from task to task.
"""

from __future__ import annotations

import re

from rods.calls import Call
from rods.environments.base import Result

PATHS = (
    "Paths are not allowed here: give the mere name of a file or directory in the current directory, and change the"
    " directory first if it lies elsewhere."
)
ABSENT = "There is nothing of that name in the current directory; it may lie in another one."
LEVELS = "Only one folder level at a time: go down folder by folder; two dots go up."
AIRPORTS = "Airports are given by their codes of three capital letters."
ZIP_CODES = "Distances are known between zip codes, not between names of cities."
TANK = "What is in the tank and what is added may not exceed its capacity: look how much is in it."
_NAMES = ("file_name", "file_name1", "file_name2", "dir_name", "source", "destination")
_FILE_TOOLS = frozenset(
    ("cat", "cd", "cp", "diff", "echo", "find", "grep", "mkdir", "mv", "rm", "rmdir", "sort", "tail", "touch", "wc")
)
_CODE, _ZIP = re.compile(r"[A-Z]{3}"), re.compile(r"\d+")


def explain(call: Call, result: Result) -> str:
    """The rule that a refused call has broken, as far as its own arguments show; empty where none is known."""
    said = result.text
    texts = {name: value for name, value in call.arguments.items() if isinstance(value, str)}
    if any("/" in texts.get(name, "") for name in _NAMES) and call.name in _FILE_TOOLS:
        return PATHS
    if call.name in _FILE_TOOLS and re.search(r"No such (file|directory)", said):
        return LEVELS if "/" in texts.get("folder", "").strip("/") else ABSENT
    if call.name == "cd" and "Unsupported path" in said:
        return LEVELS
    if call.name in ("get_flight_cost", "book_flight"):
        codes = [texts.get("travel_from", ""), texts.get("travel_to", "")]
        return "" if all(_CODE.fullmatch(code) for code in codes) else AIRPORTS
    if call.name == "estimate_distance":
        return "" if all(_ZIP.fullmatch(code) for code in texts.values()) else ZIP_CODES
    return TANK if call.name == "fillFuelTank" and "capacity" in said else ""
