"""What desk's refusals leave unsaid: the rule behind each, without a value of the world (000 §3.3)."""

from __future__ import annotations

from rods.calls import Call
from rods.environments.base import Result

RULES = {
    "contact exists": "A contact of that name is there already: change that one, or choose another name.",
    "hour taken": "Another event begins at that hour: choose a free one.",
    "too many guests": "The event has as many guests as it may have.",
    "file exists": "A file of that name is there already: write to that one, or choose another name.",
    "file locked": "A locked file can be read and not changed: it has to be unlocked first.",
    "file not locked": "The file is not locked, so nothing has to be done.",
    "same account": "Source and target must be two accounts.",
    "not enough money": "The account holds less than that: take less, or put money into it first.",
    "bill paid": "That bill has been paid already.",
    "no change": "It is so already, so nothing has to be done.",
}


def explain(call: Call, result: Result) -> str:
    """The rule that a refused call has broken; empty where the refusal says it all."""
    return RULES.get(str(result.value.get("error")), "") if isinstance(result.value, dict) else ""
