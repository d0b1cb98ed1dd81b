"""The environment seam: what an environment offers (tools, `reset`) and an instance of it (calls,
snapshots, forks). `reset` makes a fresh `Instance` that shares nothing mutable with any other. An
ability that is missing is declared in `Features` and answered with `Unsupported`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import orjson

from rods.calls import Call, ReadsJudged
from rods.canonical import JsonMapping, JsonObject, frozen
from rods.transcripts import one_line

if TYPE_CHECKING:
    from rods.tasks import AnyTask, EnvironmentRef

MOST_ANSWERED = 100_000  # characters of what a call of a tool from outside says


@frozen
class Features:
    """What an environment can do. What it declares not to have raises `rods.errors.Unsupported`
    when it is asked."""

    deterministic: bool = True  #: equal state and calls give equal results, byte for byte
    snapshot: bool = True  #: its instances answer `snapshot`
    fork: bool = True  #: its instances answer `fork`
    state_visible: bool = True  #: its instances answer `same_state`
    #: calls wait for another process: episodes are advanced in threads, together
    waits: bool = False
    reads: frozenset[str] = frozenset()  #: tools that are declared to change nothing
    #: what the results of a turn are judged by, beside the state: `asked`, what its user asked to
    #: know was shown (`rods.episode.asked`); `all`, so was each result of the ground truth, as
    #: BFCL's scorer has it; `state`, by nothing. A task's `goal.reads` goes before it
    reads_judged: ReadsJudged = "asked"


@frozen
class Parameter:
    """One argument of a tool."""

    name: str  #: as the policy reads it
    #: JSON Schema with one `type`: `enum`, `items`, `minimum`, `maximum`, `maxLength`, `maxItems`
    schema: JsonMapping
    description: str = ""  #: as the policy reads it
    required: bool = True  #: whether a call must give it
    default: Any = None  #: what holds where it is left out
    #: limits in the words of `schema`, checked and not shown
    bounds: JsonMapping = field(default_factory=dict)
    #: the values that the description lists, of the value itself or of a list's entries, where the
    #: schema that is shown does not
    options: tuple[Any, ...] = ()
    cue: str = ""  #: what an interface adds to the description (`rods.interfaces`); leave it out


@frozen
class Tool:
    """A typed function that the policy may call."""

    name: str  #: what a call names
    group: str  #: the API class; a variant has its seed's pattern of classes
    description: str  #: what the policy reads; its first sentence stands alone in short signatures
    parameters: tuple[Parameter, ...] = ()  #: in the order in which they are shown
    #: whether the bounds of the parameters (in `schema` or `bounds`) keep every legal call fast and
    #: small; a tool that is not bounded needs a confined world, whose worker can be killed
    bounded: bool = True
    #: JSON Schema of the value that a call gives when it succeeds, where the tool declares one; not
    #: shown to the policy
    result: JsonMapping | None = None
    #: True: no call changes the state; False: every call that succeeds does; None: nothing is said.
    #: `rods env check` holds it to that; not shown to the policy
    reads: bool | None = None
    #: what JSON Schema says of the arguments together (`oneOf`, `if`, …), in the words of it
    rules: JsonMapping = field(default_factory=dict)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def by_name(self) -> dict[str, Parameter]:
        """Its parameters by their names."""
        return {parameter.name: parameter for parameter in self.parameters}

    @property
    def summary(self) -> str:
        """What it does: the first sentence of its description, after a preamble that ends in
        "description:" (BFCL's begin with a sentence about the whole class)."""
        sentence = re.split(r"\bdescription:\s+", self.description)[-1].partition(". ")[0]
        return one_line(sentence).rstrip(".")

    def schema(self) -> JsonObject:
        """The tool as an OpenAI-style function document (JSON Schema of its arguments)."""
        properties: JsonObject = {}
        for parameter in self.parameters:
            document = properties[parameter.name] = dict(parameter.schema)
            if about := f"{parameter.description} {parameter.cue}".strip():
                document["description"] = about
            if not parameter.required and parameter.default is not None:
                document["default"] = parameter.default
        arguments = {
            "type": "object",
            "properties": properties,
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            **self.rules,
        }
        return {"name": self.name, "description": self.description, "parameters": arguments}

    def signature(self) -> str:
        """One compact line, `name(a: string, b: integer = 3)`, for prompts with little room (FACTS
        §1)."""
        parts = []
        for parameter in self.parameters:
            text = f"{parameter.name}: {parameter.schema.get('type', 'any')}"
            parts.append(text if parameter.required else f"{text} = {parameter.default!r}")
        return f"{self.name}({', '.join(parts)})"


Tools = Mapping[str, Tool]  # by name


class Result(NamedTuple):
    """What a call gave."""

    text: str  #: what the policy sees, and what ground truth is compared by
    value: Any = None  #: the same as JSON, from which recipes take fields
    #: None, or the kind of failure: `unknown_tool`, `bad_arguments` (missing, extra, of another
    #: type), `bounds` (over a declared limit), `tool` (refused by the world); of the machinery:
    #: `hidden_tool` (held out in this turn), `timeout`, `too_large`, `infrastructure`
    error: str | None = None


Results = Sequence[Sequence[Result]]  # of a task's calls, one sequence a turn


def value_of(result: Result) -> Any:
    """What a call returned: its value, else its text, read as JSON where it is that."""
    if result.value is not None:
        return result.value
    try:
        return orjson.loads(result.text)
    except ValueError:
        return result.text


class Instance(Protocol):
    """One episode's world. Not shared between episodes; needs no closing."""

    def call(self, call: Call) -> Result:
        """Executes `call`; a policy's mistake is a `Result` with an error, never an exception."""

    def snapshot(self) -> JsonObject:
        """The state as JSON; `Environment.reset(snapshot)` restores it. Changes nothing. May raise
        Unsupported."""

    def fork(self) -> "Instance":
        """An independent copy. May raise Unsupported."""

    def same_state(self, other: "Instance") -> bool:
        """Whether both worlds are equal by this environment's own notion. May raise Unsupported."""


@runtime_checkable
class Environment(Protocol):
    """A kind of world. Tasks name it `file.py:factory` or `package.module:factory`; the factory
    takes no arguments."""

    name: str  #: the name that the factory is loaded by
    #: changes whenever equal calls may give something else: over tool schemas, data and a behaviour
    #: version. Tasks remember it; after a change `rods data rehash` renews them
    hash: str
    features: Features  #: what it can do

    def tools(self) -> Tools:
        """All tools by name."""

    def reset(self, state: JsonMapping | None) -> Instance:
        """A fresh instance in `state` (None: the environment's empty state). Raises ValueError for
        an illegal state."""


def opened(environment: Environment, task: "AnyTask") -> Instance:
    """A fresh instance in the state of `task`. An environment with a method `reset_json` takes the
    JSON that the task keeps, so that whatever it remembers by it is never parsed again. Raises
    ValueError for an illegal state."""
    reset: Callable[[bytes | None], Instance] | None = getattr(environment, "reset_json", None)
    return reset(task.state_bytes) if reset else environment.reset(task.state)


def checks(environment: Environment) -> Tools:
    """The check functions of an environment, by name: functions of the state that answer true or
    false and change nothing, for goals (`rods.episode.goals`). An instance answers them as it does
    calls; no policy is offered one. An environment without a method `checks` has none."""
    offered: Callable[[], Tools] = getattr(environment, "checks", dict)
    return offered()


def parameters(environment: Environment) -> JsonMapping:
    """What an environment was made from, for the record of a run: its `kind`, and what it was told
    (a command, an address, a file; no secrets). One without a method `parameters` is the Python
    code that its name leads to."""
    method: Callable[[], JsonMapping] = getattr(
        environment, "parameters", lambda: {"kind": "python"}
    )
    return method()


def reference(environment: Environment) -> "EnvironmentRef":
    # pydantic, which reads tasks, takes 13 MB of a confined process, where nobody asks for this
    from rods.tasks import EnvironmentRef

    return EnvironmentRef(environment.name, environment.hash)


T = TypeVar("T")
_DERIVED = "_derived_values"  # the attribute that holds them


def kept(derive: Callable[[Environment], T]) -> Callable[[Environment], T]:
    """A decorator for pure functions of an environment: computed once an object, the value lives in
    it (not by name: a confined environment has the name of the one that it confines). An object
    without a `__dict__` keeps nothing."""

    @wraps(derive)
    def derived(environment: Environment) -> T:
        values: dict[Any, T] = getattr(environment, "__dict__", {}).setdefault(_DERIVED, {})
        if derive not in values:
            values[derive] = derive(environment)
        return values[derive]

    return derived
