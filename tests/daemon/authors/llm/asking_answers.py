"""What the stub says in tests of the asking core: it plays a model with one habit each."""

from __future__ import annotations

import json
from typing import Any

from tests.daemon.authors.llm.world import assignment

GOOD = {"reason": "fine", "verdict": ["aligned"], "problem": ""}


def _asked_for_json(request: dict[str, Any]) -> bool:
    return "response_format" in request


def _complained(request: dict[str, Any]) -> str:
    """The last complaint, empty at the first try."""
    return str(request["messages"][-1]["content"]) if len(request["messages"]) > 2 else ""


def obedient(request: dict[str, Any]) -> str:
    return (
        json.dumps(GOOD)
        if _asked_for_json(request)
        else "<reason>fine</reason><verdict>aligned</verdict>"
    )


def learning(request: dict[str, Any]) -> str:
    """Wrong at first, right once it is told what was missing."""
    return (
        obedient(request)
        if "verdict" in _complained(request)
        else '{"reason": "fine", "problem": ""}'
    )


def tags_only(request: dict[str, Any]) -> str:
    """Breaks off under a schema (see the rule `length` of the test), and answers in tags
    otherwise."""
    return (
        ""
        if _asked_for_json(request)
        else "Well.\n<reason>fine</reason>\n<verdict>aligned</verdict> That is all."
    )


def thinking(request: dict[str, Any]) -> str:
    return f"<think>hm <verdict>misaligned</verdict></think>\n{obedient(request)}"


def long_thinking(request: dict[str, Any]) -> str:
    """5,000 tokens of thoughts, whatever it is told, and then the answer."""
    return f"<think>{'hm, ' * 5000}</think>\n{obedient(request)}"


def open_thinking(request: dict[str, Any]) -> str:
    """The same behind a chat template that writes the opening tag itself."""
    return long_thinking(request).removeprefix("<think>")


def rambling(request: dict[str, Any]) -> str:
    """No thoughts, and no end."""
    return "hm, " * 50_000


def stubborn(request: dict[str, Any]) -> str:
    return "I would rather not."


def wild(request: dict[str, Any]) -> str:
    """A NaN, a lone surrogate and a number that fits nowhere, one try each, then a good answer."""
    said = [
        '{"reason": "", "verdict": NaN}',
        '{"reason": "\\ud800", "verdict": ["x"]}',
        '{"verdict": [1' + "0" * 40 + "]}",
    ]
    before = str(request["messages"][-2]["content"])
    number = int(before[6]) + 1 if before.startswith("(wild ") else 0
    return f"(wild {number}) {said[number]}" if number < len(said) else json.dumps(GOOD)


def parrot(request: dict[str, Any]) -> str:
    """Repeats the wrong answer that it is shown. Asked anew, under another random seed, it knows
    better."""
    if _complained(request):
        return str(request["messages"][-2]["content"])
    return '{"verdict": "what?"}' if request["seed"] == FIRST else obedient(request)


# the random seed of the first try
FIRST = assignment().rng("query_verification 2 0").getrandbits(31)
