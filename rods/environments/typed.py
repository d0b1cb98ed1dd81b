"""A world of your own from typed Python functions over a dataclass of state:

    world = TypedEnvironment("library.py:environment", Library, behaviour=1)

    @world.tool("Loans")
    def lend(library: Library, book: BookId, days: Annotated[int, Field(ge=1, le=60)] = 14) -> Loan:
        '''Lends a book.'''
        if book in library.loans:
            raise ToolError(f"book {book} is lent")
        …

    def environment() -> TypedEnvironment:
        return world

Schemas, the checks of arguments, results as JSON, snapshots, forks, equality and the hash follow
from the annotations, which are pydantic's. What does not follow is asked for when the world is
defined (TypeError: what, and what to write).
"""

import copy
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import orjson
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from rods.calls import Call, ReadsJudged
from rods.canonical import JsonMapping, JsonObject, content_id, frozen
from rods.environments.base import Features, Instance, Parameter, Result, Tool, Tools
from rods.environments.changes import Changes, changes, within
from rods.environments.failing import Rule, failed, rules
from rods.errors import BrokenEnvironment
from rods.tasks import state_json

S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])
_NOTHING = inspect.Parameter.empty
_BROKEN = TypeAdapter(dict[int, str])
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ToolError(Exception):
    """What a tool raises to refuse a call, before it has changed anything; its text is the
    answer."""


class TypedEnvironment(Generic[S]):
    """An environment (`rods.environments.base.Environment`) of the functions that `tool` is put on.

    `name`: "file.py:factory" or "package.module:factory". `state`: a dataclass that can be made
    without arguments. `behaviour` has to be raised when equal calls give other results than before:
    tasks remember the hash of the version that they were written for. `catalogue` makes a
    `rods.composing.catalogue.Catalogue`. `goal_reads`: what turns are judged by beside the state
    (`Features.reads_judged`). `fails`: how results of tools tell that they have failed
    (`rods.environments.failing`), where the functions do not raise ToolError; raises ValueError for
    what is no rule."""

    def __init__(
        self,
        name: str,
        state: type[S],
        *,
        behaviour: int,
        catalogue: Callable[[], Any] | None = None,
        goal_reads: ReadsJudged = "asked",
        fails: Sequence[Rule] | None = None,
    ) -> None:
        self.fails = rules(fails)
        if not is_dataclass(state):
            raise TypeError(f"the state {state.__name__} is no dataclass: put @dataclass on it")
        self.name = name
        self.features = Features(reads_judged=goal_reads)
        self._state = state
        self._behaviour = behaviour
        self._json: TypeAdapter[S] = _adapter(state, f"the state {state.__name__}")
        try:
            empty = state()
        except TypeError as error:
            raise TypeError(
                f"{error}: give every field of {state.__name__} a default, that is the empty state"
            ) from error
        try:
            kept = self._equal(self._json.validate_json(self._written(empty)), empty)
        except (ValidationError, PydanticSerializationError):
            kept = False
        if not kept:
            raise TypeError(
                f"{state.__name__} is another one after being written and read as JSON: use plain "
                f"types"
            )
        self._tools: dict[str, _TypedTool] = {}
        self._checks: dict[str, _TypedTool] = {}
        self._rules: Callable[[S, S], dict[int, str]] | None = None
        if catalogue is not None:
            self.catalogue = cache(catalogue)

    def tool(
        self, group: str, *, bounded: bool = True, reads: bool | None = None
    ) -> Callable[[F], F]:
        """A decorator that makes a function a tool of API class `group`.

        Its first parameter is the state; the others need types, their limits and descriptions stand
        in `Annotated[…, Field(…)]`. Its docstring is what the policy reads. `bounded`, `reads`: see
        `Tool`."""

        def register(function: F) -> F:
            self._register(_TypedTool.of(function, group, bounded, reads), self._tools)
            return function

        return register

    def check(self, function: F) -> F:
        """A decorator that makes a function a check: it says whether the state is as a goal asks,
        and changes nothing. Its first parameter is the state, its result a bool. Goals name checks
        with arguments; no policy sees one."""
        check = _TypedTool.of(function, "checks", bounded=True, reads=True)
        if check.document.result != {"type": "boolean"}:
            raise TypeError(
                f"check {check.document.name}: write `-> bool`, it answers true or false"
            )
        self._register(check, self._checks)
        return function

    def rules(self, function: F) -> F:
        """A decorator of the function that says which rules a state breaks: (before, state) → what
        is broken by the rule's number. `before` is the state before the latest call, at the start
        an equal one; both are copies.

        `reset` refuses a state that breaks a rule. A call that breaks one, or leaves a bound of the
        state's types, raises BrokenEnvironment with rule, tool and arguments, and is undone: the
        world is at fault, whoever called."""
        self._rules = function
        return function

    def kept(self, state: S, start: JsonMapping, most: Changes) -> bool:
        """Whether no more than `most` of `state` is other than at the `start`
        (`rods.environments.changes`)."""
        return within(changes(start, self._snapshot(state)), most)

    def _register(self, tool: "_TypedTool", tools: "dict[str, _TypedTool]") -> None:
        name = tool.document.name
        if name in self._tools or name in self._checks:
            raise TypeError(f"two tools are called {name}: rename one")
        tools[name] = tool

    @property
    def hash(self) -> str:
        """Over schemas and `behaviour`."""
        offered = (*self.tools().values(), *self.checks().values())
        described = [[tool.group, tool.schema(), tool.result] for tool in offered]
        return content_id([self._behaviour, *described, *(self.fails or ())])

    @property
    def state_schema(self) -> JsonMapping:
        """JSON Schema of the state: what models that write one are told of its fields."""
        return self._json.json_schema()

    def tools(self) -> Tools:
        return {name: tool.document for name, tool in self._tools.items()}

    def checks(self) -> Tools:
        return {name: check.document for name, check in self._checks.items()}

    def reset(self, state: JsonMapping | None) -> Instance:
        if state is None:
            return self._started(self._state())
        try:
            value = self._json.validate_json(state_json(state))
        except TypeError as error:
            raise ValueError(f"the state is not JSON: {error}") from error
        except ValidationError as error:
            raise ValueError(_faults(error)) from error
        if unknown := _unknown(state, self._snapshot(value)):
            raise ValueError(f"unknown field {unknown} in the state")
        return self._started(value)

    def _started(self, value: S) -> Instance:
        written = self._written(value)
        if self._rules is not None and (broken := self._broken(written, written)):
            raise ValueError(f"breaks {broken}")
        return TypedWorld(self, value)

    def _broken(self, before: bytes, after: bytes) -> str:
        """The rules, or the bounds of types, that a state breaks; "" where all hold. Raises
        BrokenEnvironment where the rules do not say."""
        assert self._rules is not None
        try:
            states = [self._json.validate_json(written) for written in (before, after)]
        except ValidationError as error:
            return f"bounds: {_faults(error)}"
        try:
            broken = _BROKEN.validate_python(self._rules(*states), strict=True)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"[:300]
            raise BrokenEnvironment(f"the rules raised {what}") from error
        return "; ".join(f"rule {number}: {what}" for number, what in broken.items())

    def _call(self, state: S, call: Call) -> Result:
        if tool := self._tools.get(call.name):
            return failed(self.fails, call.name, tool.run(state, call.arguments))
        check = self._checks.get(call.name)
        if check is None:
            return Result(f"no tool is called {call.name!r}", None, "unknown_tool")
        before = self._written(state)
        result = check.run(state, call.arguments)
        if self._written(state) != before:
            raise BrokenEnvironment(
                f"the check {call.name} changed the state that it was to look at"
            )
        return result

    def _written(self, state: S) -> bytes:
        return self._json.dump_json(state)

    def _snapshot(self, state: S) -> JsonObject:
        picture: JsonObject = orjson.loads(self._written(state))
        return picture

    def _equal(self, state: S, other: S) -> bool:
        return self._snapshot(state) == self._snapshot(other)


class TypedWorld(Generic[S]):
    """One living world (`rods.environments.base.Instance`)."""

    def __init__(self, environment: TypedEnvironment[S], state: S) -> None:
        self._environment = environment
        self._state = state

    def call(self, call: Call) -> Result:
        environment = self._environment
        if environment._rules is None:
            return environment._call(self._state, call)
        before = environment._written(self._state)
        try:
            result = environment._call(self._state, call)
            after = environment._written(self._state)
            if after != before and (broken := environment._broken(before, after)):
                raise BrokenEnvironment(f"{call} breaks {broken}")
        except Exception:
            self._state = environment._json.validate_json(before)
            raise
        return result

    def snapshot(self) -> JsonObject:
        return self._environment._snapshot(self._state)

    def fork(self) -> Instance:
        return TypedWorld(self._environment, copy.deepcopy(self._state))

    def same_state(self, other: Instance) -> bool:
        return isinstance(other, TypedWorld) and self._environment._equal(self._state, other._state)


@frozen
class _TypedTool:
    document: Tool
    function: Callable[..., Any]
    arguments: Mapping[str, TypeAdapter[Any]]
    result: TypeAdapter[Any]

    @staticmethod
    def of(
        function: Callable[..., Any], group: str, bounded: bool, reads: bool | None
    ) -> "_TypedTool":
        name = function.__name__
        what = f"tool {name}"
        if not (text := inspect.getdoc(function)):
            raise TypeError(f"{what} has no docstring: it is what the policy reads")
        hints = get_type_hints(function, include_extras=True)
        taken = list(inspect.signature(function).parameters.values())
        if not taken:
            raise TypeError(f"{what} takes nothing: its first parameter must be the state")
        parameters = []
        adapters = {}
        for parameter in taken[1:]:
            where = f"{what}, parameter {parameter.name!r}"
            if parameter.kind not in _BY_NAME:
                raise TypeError(f"{where}: * and ** have no schema, name what it takes")
            if parameter.name not in hints:
                raise TypeError(f"{where} has no type: write for instance `{parameter.name}: int`")
            adapters[parameter.name] = _adapter(hints[parameter.name], where)
            parameters.append(
                _parameter(parameter, hints[parameter.name], adapters[parameter.name], where)
            )
        declared = hints.get("return", Any)
        result = _adapter(declared, f"{what}, its result")
        schema = None if declared is Any else result.json_schema(mode="serialization")
        document = Tool(
            name, group, " ".join(text.split()), tuple(parameters), bounded, schema, reads
        )
        return _TypedTool(document, function, adapters, result)

    def run(self, state: Any, arguments: JsonMapping) -> Result:
        parameters = self.document.parameters
        missing = [
            parameter.name
            for parameter in parameters
            if parameter.required and parameter.name not in arguments
        ]
        if missing or (unknown := [name for name in arguments if name not in self.arguments]):
            what = (
                f"missing arguments: {', '.join(missing)}"
                if missing
                else f"unknown arguments: {', '.join(unknown)}"
            )
            return Result(what, None, "bad_arguments")
        checked = {}
        for name, value in arguments.items():
            try:
                checked[name] = self.arguments[name].validate_json(json.dumps(value), strict=True)
            except ValidationError as error:
                wrong_type = any(
                    fault["type"].endswith("_type") for fault in error.errors(include_url=False)
                )
                return Result(
                    f"{name}: {_faults(error)}", None, "bad_arguments" if wrong_type else "bounds"
                )
            except RecursionError:
                return Result(f"{name}: nested too deeply", None, "bounds")
        try:
            answer = self.function(state, **checked)
        except ToolError as refusal:
            return Result(str(refusal), None, "tool")
        text = self.result.dump_json(answer)
        return Result(text.decode(), orjson.loads(text))


def _parameter(
    parameter: inspect.Parameter, hint: Any, adapter: TypeAdapter[Any], where: str
) -> Parameter:
    required = parameter.default is _NOTHING
    # `X` of `X | None`
    if not required and parameter.default is None and get_origin(hint) in (Union, UnionType):
        # not known before
        kinds = tuple(kind for kind in get_args(hint) if kind is not NoneType)
        hint = Union[kinds]  # noqa: UP007
        adapter = _adapter(hint, where)
    schema = adapter.json_schema()
    if "type" not in schema:
        remedy = "take text, a number, true or false, a list or a dict"
        raise TypeError(f"{where}: {hint!r} has no single JSON type; {remedy}")
    schema.pop("title", None)
    description = str(schema.pop("description", ""))
    return Parameter(
        parameter.name, schema, description, required, None if required else parameter.default
    )


def _adapter(hint: Any, what: str) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise TypeError(f"{what} has no JSON form: {str(error).splitlines()[0]}") from error


def _faults(error: ValidationError) -> str:
    faults = [
        (".".join(map(str, fault["loc"])), fault["msg"])
        for fault in error.errors(include_url=False)[:3]
    ]
    return "; ".join(f"{place}: {what}" if place else what for place, what in faults)


def _unknown(value: Any, counterpart: Any, at: str = "") -> str:
    """The place of the first key of `value` that its counterpart lacks; empty when there is
    none."""
    if isinstance(value, Mapping) and isinstance(counterpart, Mapping):
        if lacking := [key for key in value if key not in counterpart]:
            return f"{at}{lacking[0]}"
        pairs = [(key, item, counterpart[key]) for key, item in value.items()]
    elif isinstance(value, list) and isinstance(counterpart, list):
        pairs = [(index, *pair) for index, pair in enumerate(zip(value, counterpart, strict=False))]
    else:
        return ""
    return next(
        (place for key, item, other in pairs if (place := _unknown(item, other, f"{at}{key}."))), ""
    )
