"""The interface seam: what a policy is shown of its tools and of the results of its calls, stage by
stage: all as it is, an interface of your own, or an extension's.

An interface is a pure function of what the policy has been shown so far and of its own version: one
whose version changes is made anew (`load`). It is never given the task, so that it cannot show
ground truth, and verdicts compare the environment's own results. Evaluation and validation always
go through `IDENTITY`."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Protocol, runtime_checkable

from rods.calls import Call
from rods.canonical import frozen, present
from rods.config import Stage
from rods.environments.base import Environment, Result, Tool, Tools
from rods.errors import UserError
from rods.extension import Door
from rods.functions import made_by
from rods.rules.step_folds import StepFold

LONGEST_GUIDELINES = 2000  # characters that may stand in every system prompt of a stage


@frozen
class Shown:
    """What an episode has shown by the time of a result: the `tools` that are visible now, by name,
    and the `results` of all earlier calls, oldest first, as the environment gave them."""

    environment: Environment
    tools: Tools
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


class InterfaceLayer(Protocol):
    """What a feature makes of what a stage shows."""

    # that `interface` of a stage may have because the feature makes them
    names: frozenset[str]

    def follows(self, stage: Stage) -> bool:
        """Whether what a stage shows follows from the run's records; `verify` derives it again
        then."""

    def inputs(self, fold: StepFold | None, opened: object) -> object:
        """What `interface` is given for the next step, by the feature's fold and what the open
        epoch has fixed. Can be pickled; None: nothing."""

    def interface(self, stage: Stage, dialect: str, base: Interface, inputs: object) -> Interface:
        """The interface of a stage, for a policy that reads `dialect`, over `base`, the one so
        far."""


INTERFACES: Door[InterfaceLayer] = Door("interfaces")
Inputs = Mapping[str, object]  # of interfaces, by the feature's name
NO_INPUTS: Inputs = {}


def follows_records(stage: Stage) -> bool:
    """Whether what a stage shows follows from the run's records."""
    return any(layer.follows(stage) for layer in INTERFACES)


def next_inputs(
    folds: Mapping[str, StepFold], opened: Mapping[str, object] = NO_INPUTS
) -> dict[str, object]:
    """What the interfaces of the next step are given, by the feature's name; `opened`: what its
    epoch has fixed."""
    inputs = {
        name: layer.inputs(folds.get(name), opened.get(name))
        for name, layer in INTERFACES.providers().items()
    }
    return present(**inputs)


def beside(result: Result, text: str) -> Result:
    """The result with a hint as a field of its object, or as a sentence behind its text."""
    value = result.value
    if isinstance(value, dict) and value and result.text.endswith("}"):
        written = f'{result.text[:-1]}, "hint": {json.dumps(text, ensure_ascii=False)}}}'
        return Result(written, {**value, "hint": text}, result.error)
    return Result(f"{result.text} Hint: {text}", None, result.error)


def load(stage: Stage, dialect: str, inputs: Inputs = NO_INPUTS) -> Interface:
    """The interface of a curriculum stage, for a policy that reads `dialect`, by `next_inputs`.
    Raises UserError when its `interface` names none, or its guidelines are long."""
    layers = INTERFACES.providers()
    of_features = {name for layer in layers.values() for name in layer.names}
    own = stage.interface and stage.interface not in of_features
    interface: Interface = _own(stage.interface) if own else IDENTITY
    for name, layer in layers.items():
        interface = layer.interface(stage, dialect, interface, inputs.get(name))
        if (length := len(interface.guidelines())) > LONGEST_GUIDELINES:
            most = f"at most {LONGEST_GUIDELINES} are shown with every episode"
            raise UserError(
                f"the guidelines of {stage.interface} have {length} characters; {most}",
                where="curriculum.stages.interface",
                remedy="say it in fewer words",
            )
    return interface


@cache
def _own(name: str) -> Interface:
    interface: Interface = made_by(name, Interface, where="curriculum.stages.interface")
    return interface
