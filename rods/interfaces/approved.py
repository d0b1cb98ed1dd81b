"""Feedback that agents wrote and that passed judge and gates (000 §3.3, Appendix C): what stands for a kind of failure.

`Approved` are the texts in force in an epoch: the trainer reads them at its merge. They stand under environment, tool
and pattern (rods.analysis.failures), beside the refusal or in its place. A text that names a tool which the policy does
not see now is not shown. Everything that they leave open SEAL's hints answer, where the stage has them, and then the
rules (rods.interfaces.hints): a refusal has one hint, and a text that was judged and tried for just this tool and
pattern knows most about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rods.analysis.failures import pattern
from rods.calls import Call
from rods.canonical import content_id
from rods.environments.base import Environment, Result, Tool, kept
from rods.interfaces.base import Interface, Shown, beside, hinted
from rods.interfaces.hints import Hints

VERSION = "agents-1"  # raise it whenever the same texts are shown otherwise
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
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
    """The texts in force, and whether they stand in the place of the refusal. Picklable: rank 0 broadcasts it."""

    texts: tuple[ApprovedText, ...] = ()
    in_place: bool = False
    _by_key: Mapping[tuple[str, str, str], str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = {(one.environment, one.tool, one.pattern): one.text for one in self.texts}
        object.__setattr__(self, "_by_key", found)

    @cached_property
    def version(self) -> str:
        """Names the texts and their form; it does not depend on the order in which they were approved."""
        parts = sorted([one.failure, one.text] for one in self.texts)
        return f"{self.lineage}-{content_id(parts)[:12]}"

    @property
    def lineage(self) -> str:
        """What the versions of all texts in this form have in common."""
        return f"{VERSION}-{'place' if self.in_place else 'beside'}"

    def find(self, environment: str, tool: str, pattern: str) -> str:
        """The text for a kind of failure; empty where there is none."""
        return self._by_key.get((environment, tool, pattern), "")


NOTHING_APPROVED = Approved()


class AgentFeedback:
    """Shows approved texts after refusals, and everything else as `base` with hints by rule does."""

    def __init__(self, base: Interface, approved: Approved, *, brief: bool = False) -> None:
        self._plain, self._hints, self._approved = base, Hints(base, brief=brief), approved
        self.version = f"{self._hints.version}+{approved.version}"
        self.lineage = f"{self._hints.lineage}+{approved.lineage}"  # texts come and go, the policy's windows stay

    def guidelines(self) -> str:
        return self._plain.guidelines()

    def complaint(self, shown: Shown, error: str) -> str:
        return self._plain.complaint(shown, error)

    def documents(self, environment: str, tools: Sequence[Tool]) -> Sequence[Tool]:
        return self._plain.documents(environment, tools)

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        text = ""
        if result.error == "tool":
            text = self._approved.find(shown.environment.name, call.name, pattern(call, result))
        if not text or tools_named(shown.environment, text) - shown.tools.keys():
            return self._hints.observation(shown, call, result)
        seen = self._plain.observation(shown, call, result)
        seen = result if hinted(seen) else seen
        return instead(seen, text) if self._approved.in_place else beside(seen, text)


def instead(result: Result, text: str) -> Result:
    """The result with `text` in the place of the refusal."""
    if isinstance(result.value, dict) and "error" in result.value:
        value = {**result.value, "error": text}
        return Result(json.dumps(value, ensure_ascii=False), value, result.error)
    return Result(text, None, result.error)


def tools_named(environment: Environment, text: str) -> set[str]:
    """The tools whose names a text holds, but for names that are plain words, which may mean just these."""
    return set(_WORD.findall(text)) & _marked(environment)


@kept
def _marked(environment: Environment) -> frozenset[str]:
    return frozenset(name for name in environment.tools() if not (name.isalpha() and name.islower()))
