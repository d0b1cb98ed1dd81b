"""Hints after refused calls: rules of BFCL's tools that its error messages do not state (000 §3.3,
Appendix H).

Sentences (explaining.toml) say what a tool takes, never what to give it, and name no tool: which
are visible differs from task to task.
"""

import re

from rods.calls import Call
from rods.environments.base import Result
from rods.files import module_table

_TABLES = module_table(__file__)
_RULES: dict[str, str] = _TABLES["rules"]
_CODE = re.compile(r"[A-Z]{3}")
_ZIP = re.compile(r"\d+")


def explain(call: Call, result: Result) -> str:
    """The rule that a refused call has broken, as far as its own arguments show; empty where none
    is known."""
    text = result.text
    texts = {name: value for name, value in call.arguments.items() if isinstance(value, str)}
    if (
        any("/" in texts.get(name, "") for name in _TABLES["names"])
        and call.name in _TABLES["file_tools"]
    ):
        return _RULES["paths"]
    if call.name in _TABLES["file_tools"] and re.search(r"No such (file|directory)", text):
        return _RULES["levels"] if "/" in texts.get("folder", "").strip("/") else _RULES["absent"]
    if call.name == "cd" and "Unsupported path" in text:
        return _RULES["levels"]
    if call.name in ("get_flight_cost", "book_flight"):
        codes = [texts.get("travel_from", ""), texts.get("travel_to", "")]
        return "" if all(_CODE.fullmatch(code) for code in codes) else _RULES["airports"]
    if call.name == "estimate_distance":
        return "" if all(_ZIP.fullmatch(code) for code in texts.values()) else _RULES["zip_codes"]
    return _RULES["tank"] if call.name == "fillFuelTank" and "capacity" in text else ""
