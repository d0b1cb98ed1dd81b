"""The interface seam: what a policy is shown of its tools and of the results of its calls, stage by
stage: all as it is, an interface of your own, or an extension's.

An interface is a pure function of what the policy has been shown so far and of its own version: one
whose version changes is made anew (`load`). It is never given the task, so that it cannot show
ground truth, and verdicts compare the environment's own results. Evaluation and validation always
go through `IDENTITY`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

from rods.calls import Call
from rods.config import Stage
from rods.environments.base import Environment, Result, Tool
from rods.errors import UserError
from rods.extension import NOTHING, Door, extensions
from rods.functions import made_by

LONGEST_GUIDELINES = 2000  # characters that may stand in every system prompt of a stage

# names that `interface` of a stage may have because a feature makes them (002)
INTERFACES: Door[frozenset[str]] = Door("interfaces")


@dataclass(frozen=True, slots=True)
class Shown:
    """What an episode has shown by the time of a result: the `tools` that are visible now, by name,
    and the `results` of all earlier calls, oldest first, as the environment gave them."""

    environment: Environment
    tools: Mapping[str, Tool]
    results: Sequence[tuple[Call, Result]] = ()


@runtime_checkable
class Interface(Protocol):
    """`version` names exactly what it may show, `lineage` what its versions have in common: windows
    of rewards are kept apart by lineage (rods.rules.tracker). What a class inherits shows
    everything as it is, in a lineage of its own."""

    version: str

    @property
    def lineage(self) -> str:
        return self.version

    def guidelines(self) -> str:
        """What the system prompt ends with; empty: nothing."""
        return ""

    def documents(self, environment: str, tools: Sequence[Tool]) -> Sequence[Tool]:
        """The tools as they are documented."""
        return tools

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        """The result as it is shown. Its kind of error stays."""
        return result

    def complaint(self, shown: Shown, error: str) -> str:
        """What answers a reply that the dialect cannot read; `error` says what is wrong with it."""
        return error


class Identity(Interface):
    """Shows everything as it is."""

    version = "identity"


IDENTITY = Identity()


def beside(result: Result, text: str) -> Result:
    """The result with a hint as a field of its object, or as a sentence behind its text."""
    value = result.value
    if isinstance(value, dict) and value and result.text.endswith("}"):
        written = f'{result.text[:-1]}, "hint": {json.dumps(text, ensure_ascii=False)}}}'
        return Result(written, {**value, "hint": text}, result.error)
    return Result(f"{result.text} Hint: {text}", None, result.error)


def load(stage: Stage, dialect: str, shown: Mapping[str, Any] = NOTHING) -> Interface:
    """The interface of a curriculum stage, for a policy that reads `dialect`, with what is `shown`
    now (by extension: rods.extension.shown_next). Raises UserError when its `interface` names none,
    or its guidelines are long."""
    known = {name for names in INTERFACES.providers().values() for name in names}
    made: Interface = (
        _own(stage.interface) if stage.interface and stage.interface not in known else IDENTITY
    )
    for extension in extensions():
        made = extension.interface(stage, dialect, made, shown.get(extension.name))
        if (length := len(made.guidelines())) > LONGEST_GUIDELINES:
            most = f"at most {LONGEST_GUIDELINES} are shown with every episode"
            what = f"the guidelines of {stage.interface} have {length} characters; {most}"
            raise UserError(
                what, where="curriculum.stages.interface", remedy="say it in fewer words"
            )
    return made


@cache
def _own(name: str) -> Interface:
    made: Interface = made_by(name, Interface, where="curriculum.stages.interface")
    return made
