"""Actionable feedback (000 §3.3, Appendix C): a failed call is answered with what may help, by rule
or in the words of agents that passed judge and gates. Rules name visible tools, parameters and
documented rules, never a value that was not documented; a terse policy reads a few words. A result
has one hint: an approved text comes first, then what `base` shows, then the rules. A text that
names a tool which the policy does not see now is not shown."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rods.calls import Call
from rods.canonical import content_id, frozen
from rods.environments.base import Environment, Result, kept
from rods.family.feedback.failures import pattern, refusal_text
from rods.faults import OVER_LIMIT, WRONG_ARGUMENTS
from rods.interfaces import IDENTITY, Interface, Shown, beside
from rods.interfaces.remedies import (
    Advice,
    Misuse,
    alike,
    constraints,
    lookups,
    misuses,
    named,
    related,
    similar,
)

# raise it whenever a hint changes: windows are kept apart by it (a golden test tells)
VERSION = "hints-2"


class Hints:
    """Adds hints to the results that `base` shows, `brief` ones for a terse dialect; all else stays
    that of `base`."""

    def __init__(self, base: Interface = IDENTITY, *, brief: bool = False) -> None:
        self.base = base
        self.brief = brief
        own = f"{VERSION}-terse" if brief else VERSION
        self.version = own if base is IDENTITY else f"{base.version}+{own}"
        self.lineage = own if base is IDENTITY else f"{base.lineage}+{own}"
        self.guidelines = base.guidelines
        self.complaint = base.complaint
        self.documents = base.documents

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        seen = self.base.observation(shown, call, result)
        text = "" if hinted(seen) else hint(shown, call, result, brief=self.brief)
        return beside(seen, text) if text else seen


def hinted(result: Result) -> bool:
    """Whether a result that is shown has a hint beside it already."""
    return "hint" in result.value if isinstance(result.value, dict) else " Hint: " in result.text


def hint(shown: Shown, call: Call, result: Result, *, brief: bool = False) -> str:
    """What may help after `result`, in sentences or in a few words; empty after a success, or where
    nothing helpful is known."""
    kind = result.error
    if kind is None:
        return ""
    tool = shown.tools.get(call.name)
    if tool is None:
        close = alike(call.name, shown.tools)
        if brief:
            return similar(close)
        return (
            f"Similar tools: {named(close)}."
            if close
            else "No such tool is available; if none fits, say so."
        )
    if kind in WRONG_ARGUMENTS:
        return _said(misuses(tool, call.arguments)[:2], brief)
    if kind in OVER_LIMIT:
        return "ask less" if brief else "Ask for less: smaller numbers, shorter texts."
    if kind != "tool":
        return ""
    refusal = refusal_text(result)
    # what the environment itself has more to say
    explain = getattr(shown.environment, "explain", None)
    advice = explain(call, result) if callable(explain) else ""
    advice = advice if isinstance(advice, Advice) else Advice(str(advice), "")
    rule = advice.brief if brief else advice.sentence
    missing = lookups(shown, call, refusal)
    if rule or missing:
        return f"{rule} {_said(missing, brief)}".strip()
    return _said(constraints(shown, call, refusal) or related(shown, call, refusal), brief)


def _said(advice: Sequence[Advice | Misuse], brief: bool) -> str:
    return " ".join(note.brief if brief else note.sentence for note in advice)


TEXTS_VERSION = "agents-1"  # raise it whenever the same texts are shown otherwise
_WORD = re.compile(r"\w+")


@frozen
class ApprovedText:
    """What answers a refusal of `tool` whose words have this `pattern`."""

    environment: str
    tool: str
    pattern: str
    text: str

    @property
    def failure(self) -> str:
        return failure_id(self.environment, self.tool, self.pattern)


def failure_id(environment: str, tool: str, pattern: str) -> str:
    """The id of a kind of failure."""
    return content_id([environment, tool, pattern])


@dataclass(frozen=True)
class Approved:
    """The texts in force, and whether they stand in the place of the refusal. Picklable: rank 0
    broadcasts it."""

    texts: tuple[ApprovedText, ...] = ()
    in_place: bool = False

    @cached_property
    def version(self) -> str:
        """Names the texts and their form; it does not depend on the order in which they were
        approved."""
        parts = sorted([text.failure, text.text] for text in self.texts)
        return f"{self.lineage}-{content_id(parts)[:12]}"

    @property
    def lineage(self) -> str:
        """What the versions of all texts in this form have in common."""
        return f"{TEXTS_VERSION}-{'place' if self.in_place else 'beside'}"

    def find(self, environment: str, tool: str, pattern: str) -> str:
        """The text for a kind of failure; empty where there is none."""
        key = environment, tool, pattern
        return next(
            (
                text.text
                for text in self.texts
                if (text.environment, text.tool, text.pattern) == key
            ),
            "",
        )


NOTHING_APPROVED = Approved()


class AgentFeedback(Hints):
    """Shows approved texts after refusals, and everything else as `base` with hints by rule
    does."""

    def __init__(self, base: Interface, approved: Approved, *, brief: bool = False) -> None:
        super().__init__(base, brief=brief)
        self.approved = approved
        self.version = f"{self.version}+{approved.version}"
        # texts come and go, the policy's windows stay
        self.lineage = f"{self.lineage}+{approved.lineage}"

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        text = ""
        if result.error == "tool":
            text = self.approved.find(shown.environment.name, call.name, pattern(call, result))
        if not text or tools_named(shown.environment, text) - shown.tools.keys():
            return super().observation(shown, call, result)
        seen = self.base.observation(shown, call, result)
        seen = result if hinted(seen) else seen
        return instead(seen, text) if self.approved.in_place else beside(seen, text)


def instead(result: Result, text: str) -> Result:
    """The result with `text` in the place of the refusal."""
    if isinstance(result.value, dict) and "error" in result.value:
        value = {**result.value, "error": text}
        return Result(json.dumps(value, ensure_ascii=False), value, result.error)
    return Result(text, None, result.error)


def tools_named(environment: Environment, text: str) -> set[str]:
    """The tools whose names a text holds, but for names that are plain words, which may mean just
    these."""
    return set(_WORD.findall(text)) & _marked(environment)


@kept
def _marked(environment: Environment) -> frozenset[str]:
    return frozenset(
        name for name in environment.tools() if not (name.isalpha() and name.islower())
    )
