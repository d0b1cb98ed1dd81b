"""Actionable feedback (000 §3.3 and Appendix C): a failed call is answered with what may help, beside the error.

By kind of failure: an unknown tool → tools that are alike; arguments that break the document → what it asks; a refusal
→ the rule that the environment explains (its optional `explain`), the tools that supply what was missing, or those that
speak of the same. Hints give a direction, not the solution: they name visible tools, parameters and documented rules,
never a value that was not documented.
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.calls import Call
from rods.environments.base import Environment, Result, Tool
from rods.faults import OVER_LIMIT, WRONG_ARGUMENTS
from rods.interfaces.base import IDENTITY, Interface, Shown, beside
from rods.interfaces.remedies import alike, constraints, lookups, misuse, named, refusal_text, related

VERSION = "hints-1"  # raise it whenever a hint changes: windows are kept apart by it (a golden test tells)


class Hints:
    """Adds hints to what `base` shows; documents stay those of `base`."""

    def __init__(self, base: Interface = IDENTITY) -> None:
        self.base = base
        self.version = VERSION if base is IDENTITY else f"{base.version}+{VERSION}"

    @property
    def lineage(self) -> str:
        return VERSION if self.base is IDENTITY else f"{self.base.lineage}+{VERSION}"

    def guidelines(self) -> str:
        return self.base.guidelines()

    def complaint(self, shown: Shown, error: str) -> str:
        return self.base.complaint(shown, error)

    def documents(self, environment: str, tools: Sequence[Tool]) -> Sequence[Tool]:
        return self.base.documents(environment, tools)

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        seen = self.base.observation(shown, call, result)
        text = hint(shown, call, result)
        return beside(seen, text) if text else seen


def hint(shown: Shown, call: Call, result: Result) -> str:
    """What may help after `result`; empty after a success, or where nothing helpful is known."""
    kind = result.error
    if kind is None:
        return ""
    tool = shown.tools.get(call.name)
    if tool is None:
        close = named(alike(call.name, shown.tools))
        return f"Similar tools: {close}." if close else "No such tool is available; if none fits, say so."
    if kind in WRONG_ARGUMENTS:
        return " ".join(misuse(tool, call.arguments)[:2])
    if kind in OVER_LIMIT:
        return "Ask for less: smaller numbers, shorter texts."
    if kind != "tool":
        return ""
    refusal = refusal_text(result)
    rule = _explained(shown.environment, call, result)
    missing = lookups(shown, call, refusal)
    if rule or missing:
        return " ".join([*([rule] if rule else []), *missing])
    return " ".join(constraints(shown, call, refusal) or related(shown, call, refusal))


def _explained(environment: Environment, call: Call, result: Result) -> str:
    """What the environment itself says of the refusal, where it has more to say."""
    explain = getattr(environment, "explain", None)
    return str(explain(call, result)) if callable(explain) else ""
