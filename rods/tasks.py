"""The task: one frozen, content-addressed record.

On disk a task is one JSON object a line:

    {"id": …, "schema": 1, "environment": {"name": "desk", "hash": …}, "type": "base",
     "state": {…},                                    absent: the environment's own empty state
     "user": {"script": ["first turn's text", …]},
     "goal": {"calls": [[{"name": …, "arguments": {…}}, …], …]},     one list a turn; [] where no call is right
     "tools": {"names": ["ls", …], "held_out": {"3": ["sort"]}},     held-out tools return in that turn (from 0)
     "split": "train", "provenance": {…}}                              outside the id

The id hashes everything but `id`, `split` and `provenance`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import orjson

from rods.calls import Call
from rods.canonical import content_id
from rods.errors import UserError
from rods.files import open_regular

SCHEMA = 1
TaskType = Literal["base", "long_context", "miss_func", "miss_param"]
TASK_TYPES: tuple[TaskType, ...] = ("base", "long_context", "miss_func", "miss_param")
Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
HELD_OUT_SPLITS: tuple[Split, ...] = ("validation", "test")
# What the user says in a turn whose only news is that held-out tools return. Fixed, so that no gate compares it.
RETURN_SENTENCE = "Some further tools are ready for you from here on. Please pick up the open request with their help."


@dataclass(frozen=True, slots=True)
class EnvironmentRef:
    """Which environment a task lives in. The hash covers tool schemas, data and behaviour version."""

    name: str
    hash: str


class InitialState(dict[str, Any]):
    """The state that a task's worlds begin in. As part of a frozen record it refuses to be changed (TypeError); what
    `dict(state)` and `copy.deepcopy(state)` give is a plain dict."""

    __slots__ = ("_json",)
    _json: bytes

    @property
    def json(self) -> bytes:
        """Its JSON, written once: environments know a state by its JSON, and every rollout of the task needs it."""
        try:
            return self._json
        except AttributeError:
            self._json = orjson.dumps(self)
            return self._json

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a task's state never changes: change a copy, dict(state) or copy.deepcopy(state)")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy(dict(self), memo)

    def __reduce__(self) -> tuple[type[InitialState], tuple[dict[str, Any]]]:
        return InitialState, (dict(self),)


def state_json(state: Mapping[str, Any]) -> bytes:
    """The JSON of a state. Raises TypeError for what has none."""
    return state.json if type(state) is InitialState else orjson.dumps(state)


@dataclass(frozen=True, slots=True)
class Task:
    """A multi-turn instance: what the user says, what must come of it, with which tools, from which state.

    `script[t]` is the user's text of turn t; `calls[t]` its ground-truth calls (empty where no call is right).
    `tools` are the names that the policy may call; `held_out[t]` are those of them that are missing until turn t.
    """

    environment: EnvironmentRef
    type: TaskType
    script: tuple[str, ...]
    calls: tuple[tuple[Call, ...], ...]
    tools: tuple[str, ...]
    held_out: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    split: Split = "train"
    provenance: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""

    def __post_init__(self) -> None:
        if not self.script or len(self.script) != len(self.calls):
            raise ValueError(
                f"{len(self.script)} user turns but {len(self.calls)} turns of ground truth; both must be equal and ≥ 1"
            )
        names = set(self.tools)
        for turn, returned in self.held_out.items():
            if not 0 <= turn < len(self.script):
                raise ValueError(f"tools held out until turn {turn}, but the task has turns 0–{len(self.script) - 1}")
            if missing := set(returned) - names:
                raise ValueError(f"held-out tools {sorted(missing)} are not among the task's tools")
        expected = content_id(self._content())
        if self.id and self.id != expected:
            raise ValueError(f"id {self.id} does not match the content ({expected}): the record was edited")
        object.__setattr__(self, "id", expected)
        if self.state is not None and type(self.state) is not InitialState:
            object.__setattr__(self, "state", InitialState(self.state))

    @property
    def expected_turns(self) -> int:
        return len(self.script)

    def tools_at(self, turn: int) -> tuple[str, ...]:
        """The names callable in `turn` (counted from 0): all but those still held out."""
        missing = {name for until, names in self.held_out.items() if turn < until for name in names}
        return tuple(name for name in self.tools if name not in missing)

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "environment": {"name": self.environment.name, "hash": self.environment.hash},
            "type": self.type,
            "user": {"script": list(self.script)},
            "goal": {"calls": [[call.as_json() for call in turn] for turn in self.calls]},
            "tools": {"names": list(self.tools)},
        }
        if self.held_out:
            content["tools"]["held_out"] = {str(turn): list(names) for turn, names in sorted(self.held_out.items())}
        if self.state is not None:
            content["state"] = self.state
        return content

    def as_json(self) -> dict[str, Any]:
        record = {"id": self.id, **self._content(), "split": self.split}
        if self.provenance:
            record["provenance"] = dict(self.provenance)
        return record

    @staticmethod
    def from_json(record: Any) -> Task:
        """Raises ValueError naming the field at fault."""
        if not isinstance(record, dict):
            raise ValueError("a task must be a JSON object")
        known = {"id", "schema", "environment", "type", "state", "user", "goal", "tools", "split", "provenance"}
        if unknown := set(record) - known:
            raise ValueError(f"unknown fields {sorted(unknown)}")
        if record.get("schema") != SCHEMA:
            raise ValueError(f"'schema' is {record.get('schema')!r}; this version reads {SCHEMA}")
        if record.get("type") not in TASK_TYPES:
            raise ValueError(f"'type' is {record.get('type')!r}; it must be one of {', '.join(TASK_TYPES)}")
        if record.get("split", "train") not in SPLITS:
            raise ValueError(f"'split' is {record.get('split')!r}; it must be one of {', '.join(SPLITS)}")
        state = record.get("state")
        if state is not None and not isinstance(state, dict):
            raise ValueError("'state' must be an object")
        environment = _part(record, "environment", dict)
        tools = _part(record, "tools", dict)
        held_out = _part(tools, "held_out", dict, "tools") if "held_out" in tools else {}
        goal = _part(record, "goal", dict)
        return Task(
            environment=EnvironmentRef(
                _part(environment, "name", str, "environment"), _part(environment, "hash", str, "environment")
            ),
            type=record["type"],
            script=_texts(_part(record, "user", dict).get("script"), "user.script"),
            calls=tuple(
                tuple(Call.from_json(call) for call in turn)
                for turn in _lists(_part(goal, "calls", list, "goal"), "goal.calls")
            ),
            tools=_texts(tools.get("names"), "tools.names"),
            held_out={_turn(turn): _texts(names, f"tools.held_out.{turn}") for turn, names in held_out.items()},
            state=state,
            split=record.get("split", "train"),
            provenance=_part(record, "provenance", dict) if "provenance" in record else {},
            id=record.get("id", ""),
        )


def read_tasks(path: Path) -> Iterator[Task]:
    """The tasks of a JSONL file, in order. Raises UserError naming file, line and remedy, also for duplicate ids."""
    seen: dict[str, int] = {}
    try:
        lines = open_regular(path)
    except OSError as error:
        raise UserError(
            f"cannot read the task file ({error.strerror})", where=str(path), remedy="check the path under [data] tasks"
        ) from error
    with lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                task = Task.from_json(orjson.loads(line))
            except ValueError as error:  # orjson.JSONDecodeError is one
                raise UserError(str(error), where=where, remedy="run `rods data check` on the file") from error
            if task.id in seen:
                raise UserError(
                    f"task {task.id} repeats line {seen[task.id]}", where=where, remedy="remove one of the two lines"
                )
            seen[task.id] = number
            yield task


def task_lines(tasks: Iterable[Task]) -> bytes:
    """The JSONL bytes of `tasks`. Keys keep their order: BFCL's worlds list files and messages in the order of their
    state's keys, so sorting them would make another world of a task that has the same id."""
    return b"".join(orjson.dumps(task.as_json()) + b"\n" for task in tasks)


def _part(record: Mapping[str, Any], key: str, kind: type, inside: str = "") -> Any:
    value = record.get(key)
    if not isinstance(value, kind):
        name = f"{inside}.{key}" if inside else key
        raise ValueError(f"'{name}' must be {'text' if kind is str else 'a list' if kind is list else 'an object'}")
    return value


def _lists(value: Any, name: str) -> list[list[Any]]:
    if not isinstance(value, list) or not all(isinstance(item, list) for item in value):
        raise ValueError(f"'{name}' must be a list of lists")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"'{name}' must be a list of texts")
    return tuple(value)


def _turn(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"'tools.held_out' has the key {text!r}; it must be a turn number, counted from 0")
    return int(text)
