"""Actionable feedback (000 §3.3 and Appendix C): a failed call is answered with what may help, beside the error.

By kind of failure: an unknown tool → tools that are alike; arguments that break the document → what it asks; a refusal
→ the rule that the environment explains (its optional `explain`), the tools that supply what was missing, or those that
speak of the same. Hints give a direction, not the solution: they name visible tools, parameters and documented rules,
never a value that was not documented. A policy of a terse dialect reads a few words in place of sentences, and nothing
of what the environment explains.

A result has one hint. Where what `base` shows holds one already, of SEAL or of an interface of one's own, no rule adds
another: it names what is wrong with this very call, and a rule could only say that again.
"""

from __future__ import annotations

from collections.abc import Sequence

from rods.analysis.failures import refusal_text
from rods.calls import Call
from rods.environments.base import Environment, Result, Tool
from rods.faults import OVER_LIMIT, WRONG_ARGUMENTS
from rods.interfaces.base import IDENTITY, Interface, Shown, beside, hinted
from rods.interfaces.remedies import Advice, Misuse, alike, constraints, lookups, misuses, named, related, similar

VERSION = "hints-1"  # raise it whenever a hint changes: windows are kept apart by it (a golden test tells)


class Hints:
    """Adds hints to what `base` shows, `brief` ones for a terse dialect; documents stay those of `base`."""

    def __init__(self, base: Interface = IDENTITY, *, brief: bool = False) -> None:
        self.base, self.brief = base, brief
        own = f"{VERSION}-terse" if brief else VERSION
        self.version = own if base is IDENTITY else f"{base.version}+{own}"
        self._lineage = own if base is IDENTITY else f"{base.lineage}+{own}"

    @property
    def lineage(self) -> str:
        return self._lineage

    def guidelines(self) -> str:
        return self.base.guidelines()

    def complaint(self, shown: Shown, error: str) -> str:
        return self.base.complaint(shown, error)

    def documents(self, environment: str, tools: Sequence[Tool]) -> Sequence[Tool]:
        return self.base.documents(environment, tools)

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        seen = self.base.observation(shown, call, result)
        text = "" if hinted(seen) else hint(shown, call, result, brief=self.brief)
        return beside(seen, text) if text else seen


def hint(shown: Shown, call: Call, result: Result, *, brief: bool = False) -> str:
    """What may help after `result`, in sentences or in a few words; empty after a success, or where nothing helpful is
    known."""
    kind = result.error
    if kind is None:
        return ""
    tool = shown.tools.get(call.name)
    if tool is None:
        close = alike(call.name, shown.tools)
        if brief:
            return similar(close)
        return f"Similar tools: {named(close)}." if close else "No such tool is available; if none fits, say so."
    if kind in WRONG_ARGUMENTS:
        return _said(misuses(tool, call.arguments)[:2], brief)
    if kind in OVER_LIMIT:
        return "ask less" if brief else "Ask for less: smaller numbers, shorter texts."
    if kind != "tool":
        return ""
    refusal = refusal_text(result)
    rule = "" if brief else _explained(shown.environment, call, result)
    missing = lookups(shown, call, refusal)
    if rule or missing:
        return f"{rule} {_said(missing, brief)}".strip()
    return _said(constraints(shown, call, refusal) or related(shown, call, refusal), brief)


def _said(advice: Sequence[Advice | Misuse], brief: bool) -> str:
    return " ".join(one.brief if brief else one.sentence for one in advice)


def _explained(environment: Environment, call: Call, result: Result) -> str:
    """What the environment itself says of the refusal, where it has more to say."""
    explain = getattr(environment, "explain", None)
    return str(explain(call, result)) if callable(explain) else ""
