"""The interface seam: what a policy is shown of its tools and of the results of its calls.

An interface is a pure function of what the policy has been shown so far and of its own version. It is never given the
task, so that it cannot show ground truth, and verdicts never see what it writes: they compare the
environment's own results. Evaluation and validation always go through `IDENTITY`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rods.calls import Call
from rods.environments.base import Environment, Result, Tool


@dataclass(frozen=True, slots=True)
class Shown:
    """What an episode has shown by the time of a result: the `tools` that are visible now, by name, and the `results`
    of all earlier calls, oldest first, as the environment gave them."""

    environment: Environment
    tools: Mapping[str, Tool]
    results: Sequence[tuple[Call, Result]] = ()


@runtime_checkable
class Interface(Protocol):
    """`version` names everything that it may show: windows of rewards are kept apart by it (rods.rules.tracker)."""

    version: str

    def documents(self, environment: str, tools: Sequence[Tool]) -> Sequence[Tool]:
        """The tools as they are documented."""
        ...

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        """The result as it is shown. Its kind of error stays."""
        ...


class Identity:
    """Shows everything as it is."""

    version = "identity"

    def documents(self, environment: str, tools: Sequence[Tool]) -> Sequence[Tool]:
        return tools

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        return result


IDENTITY = Identity()
