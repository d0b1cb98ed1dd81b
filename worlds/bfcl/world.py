"""BFCL's multi-turn world: the benchmark's own API classes behind our executor.

A task's state is {"classes": [names, in order], "config": {class: its scenario}, "long_context":
bool}; a snapshot adds "objects" for what has changed since. `reset` builds the objects of a state
once and keeps them, never to be written; a world shares them, and owns a copy of an object from its
first write on. So a fresh world costs microseconds, reading costs no copy, and comparing two worlds
skips whatever neither has touched.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import orjson

from rods.analysis.schemas import Checker
from rods.calls import Call
from rods.canonical import JsonMapping, JsonObject, content_id, frozen, without
from rods.composing.catalogue import Catalogue
from rods.environments.base import Features, Instance, Result, Tools
from rods.environments.workers.worker import Overrun, Worker, WorkerSpec
from rods.errors import InfrastructureError
from rods.tasks import state_json
from rods.worlds.bfcl import bounds, wheel
from rods.worlds.bfcl.classes import MODULES, STATELESS, keep_stocks, load
from rods.worlds.bfcl.copies import ATOMS, copy_plain, decode, encode, same_object, view
from rods.worlds.bfcl.execution import (
    COMPUTE,
    PREFIX,
    BoundTool,
    answer,
    bound_tool,
    kind_of_error,
    reports_error,
)
from rods.worlds.bfcl.explaining import explain
from rods.worlds.bfcl.jsontext import KeptDict, value_of, write, write_padded
from rods.worlds.bfcl.ownership import FILE_SYSTEM, SCRATCH
from rods.worlds.bfcl.trees import decode_system, encode_system, same_tree

# to be raised when equal calls may give other results (the golden transcript's test forces it)
BEHAVIOUR = 1
MAX_NAME = 200  # characters of an unknown tool's name that are repeated
KEPT_STATES = 1_024  # initial states whose objects are kept
_UNWRITTEN = SCRATCH | {"_api_description"}
_ALL = orjson.dumps({"classes": list(MODULES), "config": {}})
STATE_SCHEMA: JsonMapping = {
    "type": "object",
    "required": ["classes", "config"],
    "additionalProperties": False,
    "properties": {
        "classes": {
            "type": "array",
            "items": {"enum": list(MODULES)},
            "uniqueItems": True,
            "readOnly": True,
        },
        "config": {"type": "object", "additionalProperties": {"type": "object"}},
        "long_context": {"type": "boolean", "readOnly": True},
        "objects": {"type": "object", "readOnly": True},
    },
}
_STATE = Checker(STATE_SCHEMA)


class Bfcl:
    """The environment. `file` is the wheel, checked by `wheel.path`."""

    name = "bfcl"
    features = Features(reads_judged="all")
    state_schema = STATE_SCHEMA
    # the rule that a refused call has broken, for hints (rods.family.feedback.hints)
    explain = staticmethod(explain)

    def __init__(self, file: Path) -> None:
        self.file = file
        self.apis = load(file)
        self._tools = {name: tool for api in self.apis.values() for name, tool in api.tools.items()}
        documents = [
            [
                tool.group,
                tool.schema(),
                {arg.name: dict(arg.bounds) for arg in tool.parameters if arg.bounds},
            ]
            for tool in self._tools.values()
        ]
        self.hash = content_id({"wheel": wheel.SHA256, "behaviour": BEHAVIOUR, "tools": documents})
        self._bound = cache(self._bind)
        self.catalogue = cache(self._catalogue)
        self._built = lru_cache(KEPT_STATES)(self._build)
        self._worker = Worker(WorkerSpec(COMPUTE, cpu=True))

    def tools(self) -> Tools:
        return self._tools

    def tools_of(self, classes: Sequence[str]) -> tuple[str, ...]:
        """The names of the documented tools of `classes`, in the benchmark's order."""
        return tuple(name for group in classes for name in self.apis[group].tools)

    def parameters(self) -> dict[str, tuple[str, ...]]:
        """The positional order of every tool's parameters."""
        return {name: tool.parameter_names for name, tool in self._tools.items()}

    def _catalogue(self) -> Catalogue:
        """What `rods.composing` needs to write variants of these tasks."""
        # its tables take a tenth of a second: only on demand
        from rods.worlds.bfcl.catalogue import catalogue

        return catalogue({name: tool.group for name, tool in self._tools.items()})

    def reset(self, state: JsonMapping | None) -> "BfclWorld":
        try:
            return self.reset_json(None if state is None else state_json(state))
        except TypeError as error:
            raise ValueError(f"the state is not JSON: {error}") from error

    def reset_json(self, state: bytes | None) -> "BfclWorld":
        """`reset` with a state's JSON (`rods.environments.base.opened`)."""
        initial = self._built(state or _ALL)
        return BfclWorld(initial, initial.objects)

    def _build(self, key: bytes) -> "_Initial":
        state = orjson.loads(key)
        # what is inside a class's scenario is for the class itself to refuse
        if what := _STATE.fault(state):
            raise ValueError(f"the state: {what}")
        changes = state.get("objects", {})
        if not changes.keys() <= set(state["classes"]):
            raise ValueError("'objects' must hold objects of the state's classes")
        long_context = state.get("long_context", False)
        objects: JsonObject = {}
        for name in state["classes"]:
            instance = self.apis[name].type()
            changed = changes.get(name)
            try:
                if name not in STATELESS:
                    scenario = {} if changed is not None else state["config"].get(name, {})
                    instance._load_scenario(scenario, long_context=long_context)
                if changed is not None and name == FILE_SYSTEM:
                    decode_system(instance, changed)
                elif changed is not None:
                    instance.__dict__.update(decode(changed))
                if name == "TradingBot":
                    keep_stocks(instance)
            except Exception as error:  # a scenario can break its class in any way
                raise ValueError(f"state of {name}: {type(error).__name__}: {error}") from error
            objects[name] = instance
        return _Initial(key, tuple(objects), self._bound(tuple(objects), long_context), objects)

    def _bind(self, classes: tuple[str, ...], long_context: bool) -> dict[str, BoundTool]:
        return {
            name: bound_tool(
                self.apis[group].type, tool, self._precise, write_padded if long_context else write
            )
            for group in classes
            for name, tool in self.apis[group].tools.items()
        }

    def _precise(self, bound: BoundTool, target: Any, arguments: JsonMapping) -> Result | None:
        """Few digits in-process, many in the worker, more not at all."""
        if arguments.keys() != set(bound.tool.parameter_names):
            return None  # all are required: the call itself will fail, and say how
        asked = bounds.digits(arguments)
        precision = arguments.get("precision")
        if asked is not None and asked <= bounds.IN_PROCESS_DIGITS:
            return None
        if isinstance(precision, (int, float)) and precision > bounds.MAX_DIGITS:
            return Result(
                f"{PREFIX}a precision of {precision}; at most {bounds.MAX_DIGITS}", None, "bounds"
            )
        request = {"wheel": str(self.file), "name": bound.tool.name, "arguments": dict(arguments)}
        try:
            reply = self._worker.call(request)
        except InfrastructureError as error:
            return Result(str(error), None, "infrastructure")
        except Overrun as overrun:
            return Result(
                f"{PREFIX}{overrun}", None, "timeout" if overrun.kind == "timeout" else "too_large"
            )
        return Result(reply["text"], value_of(reply["text"]), "tool" if reply["failed"] else None)


@frozen
class _Initial:
    """An initial state: its JSON bytes, and its objects, which are never written."""

    key: bytes
    classes: tuple[str, ...]
    tools: Mapping[str, BoundTool]
    objects: JsonObject


class BfclWorld:
    """One living world (`Instance`). Not for two threads at once."""

    __slots__ = ("_equal", "_initial", "_objects", "_owned")

    def __init__(self, initial: _Initial, objects: JsonMapping) -> None:
        self._initial = initial
        self._objects = dict(objects)
        # classes whose object no other world holds, and what is owned in it
        self._owned: dict[str, set[str]] = {}
        self._equal: JsonObject = {}  # per class, the other world's object last found equal

    def call(self, call: Call) -> Result:
        """One call, in the words of the benchmark's executor. Written in one piece: it is what
        everything waits for."""
        bound = self._initial.tools.get(call.name)
        if bound is None:
            return Result(
                f"{PREFIX}name '{call.name[:MAX_NAME]}' is not defined", None, "unknown_tool"
            )
        tool, group, function, takes, before, write = bound
        arguments = call.arguments
        nested = False
        for value in arguments.values():
            kind = type(value)
            if kind is str:
                if len(value) <= bounds.MAX_TEXT:
                    continue
            elif kind is int:
                if bounds.MIN_INTEGER <= value <= bounds.MAX_INTEGER:
                    continue
            elif kind is bool:
                continue
            elif kind not in ATOMS:
                nested = True
                if kind is list and bounds.short(value):
                    continue
            if (why := bounds.over(value)) is not None:
                return Result(f"{PREFIX}{call.name}: {why}", None, "bounds")
        target = self._objects[group]
        if takes is not None:
            if nested:  # the tool may keep what it is given
                arguments = copy_plain(arguments)
            owned = self._owned.get(group)
            if owned is None:
                target = self._objects[group] = view(target)
                owned = self._owned[group] = set()
            for take in takes:
                take(target, owned, arguments)
            if self._equal and call.name != "cd":  # where one stands is not compared
                self._equal.pop(group, None)
        if before is not None and (result := before(bound, target, arguments)) is not None:
            return result
        error = None
        try:
            value = function(target, **arguments)
            kind = type(value)
            if kind is dict:
                if "error" in value:
                    error = "tool"
                try:
                    text = write(value)
                except (TypeError, ValueError, RecursionError):
                    text = str(value)
            elif kind is str:
                return Result(value, value)
            elif kind is KeptDict:
                text = value.json
            else:
                text = str(value)
                if kind is list and reports_error(value):
                    error = "tool"
        except RecursionError:
            return Result(f"{PREFIX}maximum recursion depth exceeded", None, "bounds")
        except Exception as problem:  # noqa: BLE001 the exception is the tool's answer
            return Result(f"{PREFIX}{problem}", None, kind_of_error(tool, arguments, problem))
        if len(text) > bounds.MAX_RESULT:
            return Result(
                f"{PREFIX}a result of {len(text)} characters; at most {bounds.MAX_RESULT}",
                None,
                "too_large",
            )
        return answer((text, None, error))

    def snapshot(self) -> JsonObject:
        state: JsonObject = orjson.loads(self._initial.key)
        for name, instance in self._objects.items():
            if instance is self._initial.objects[name]:
                continue
            if name == FILE_SYSTEM:
                record = encode_system(instance)
            else:
                record = encode(without(vars(instance), *_UNWRITTEN))
            state.setdefault("objects", {})[name] = record
        return state

    def fork(self) -> "BfclWorld":
        self._owned.clear()
        return BfclWorld(self._initial, self._objects)

    def same_state(self, other: Instance) -> bool:
        """The benchmark's state check, class by class (FACTS: public attributes, by Python's
        `!=`)."""
        if not isinstance(other, BfclWorld) or self._initial.classes != other._initial.classes:
            return False
        theirs = other._objects
        for name, mine in self._objects.items():
            expected = theirs[name]
            if mine is expected or self._equal.get(name) is expected:
                continue
            if name == FILE_SYSTEM:
                if mine.long_context != expected.long_context or not same_tree(
                    mine.root, expected.root
                ):
                    return False
            elif not same_object(mine, expected):
                return False
            if name not in other._owned:  # what nobody owns is never written again
                self._equal[name] = expected
        return True


_environment = cache(Bfcl)


def environment(cache: Path | None = None) -> Bfcl:
    """The environment over the fetched wheel, made once a process. Raises UserError when the data
    are missing."""
    return _environment(wheel.path(cache))
