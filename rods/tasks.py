"""The task: one frozen, content-addressed record; docs/protocol.md has its fields as they stand in
a JSONL file.

With "schema": 1 it has a script and ground-truth calls, a list a turn; with 2 it may have a persona
as its user, checks or a rubric as its goal, a text of its own for the system prompt, and limits of
the whole conversation. The schema is the lowest that has what the task has, so that no task has two
ids. The id hashes everything but `id`, `split` and `provenance`."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NoReturn, TypeVar, get_args

import orjson
from pydantic import NonNegativeInt, PlainValidator, TypeAdapter, ValidationError

from rods.calls import Call, ReadsJudged
from rods.canonical import JsonMapping, JsonObject, Texts, content_id, frozen
from rods.conversations import CLOSED, RUBRIC_LEVELS, Checks, Limits, Persona, Rubric, Script, Words
from rods.errors import UserError, first_fault
from rods.files import TASKS, bounded_lines, explained, open_regular
from rods.model_json import exact

T = TypeVar("T")
SCHEMA = 1
OPEN_SCHEMA = 2
UNPACKED = 64  # states whose objects are kept: those of tasks that are played or looked at together
SHARED = 4096  # values
TaskType = Literal["base", "long_context", "miss_func", "miss_param"]
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)
Split = Literal["train", "validation", "test"]
Places = tuple[tuple[NonNegativeInt, NonNegativeInt], ...]  # turn and call, both from 0
Reads = ReadsJudged | Places
OPEN_TYPES: tuple[TaskType, ...] = ("base", "long_context")  # of tasks without calls by turn
SPLITS: tuple[Split, ...] = get_args(Split)
HELD_OUT_SPLITS: tuple[Split, ...] = ("validation", "test")
# What the user says in a turn whose only news is that held-out tools return. Fixed, so that no gate
# compares it.
RETURN_SENTENCE = "I've just given you a few more tools. Can you do it now?"


@frozen
class EnvironmentRef:
    """Which environment a task lives in. The hash covers tool schemas, data and behaviour
    version."""

    name: str
    hash: str


class InitialState(JsonObject):
    """The state that a task's worlds begin in. As part of a frozen record it refuses to be changed
    (TypeError); what `dict(state)` and `copy.deepcopy(state)` give is a plain dict."""

    __slots__ = ("_json",)
    _json: bytes

    @property
    def json(self) -> bytes:
        """Its JSON, written once: environments know a state by its JSON, and every rollout of the
        task needs it."""
        if not hasattr(self, "_json"):
            self._json = orjson.dumps(self)
        return self._json

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "a task's state never changes: change a copy, dict(state) or copy.deepcopy(state)"
        )

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> JsonObject:
        return copy.deepcopy(dict(self), memo)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return unpacked, (self.json,)


@lru_cache(maxsize=UNPACKED)
def unpacked(json: bytes) -> InitialState:
    """The state that has this JSON."""
    state = InitialState(orjson.loads(json))
    state._json = json
    return state


@lru_cache(maxsize=UNPACKED)
def _unpacked_provenance(json: bytes) -> JsonObject:
    read: JsonObject = orjson.loads(json)
    return read


class _Packed:
    """An attribute of tasks whose slot has JSON, a tenth of the memory of the objects that it says:
    a process may hold a million tasks, and looks into few at a time."""

    def __init__(self, slot: Any, unpack: Callable[[bytes], Any]) -> None:
        self.slot = slot
        self._unpack = unpack

    def __get__(self, task: Any, owner: Any = None) -> Any:
        if task is None:
            return self
        held = self.slot.__get__(task, owner)
        return self._unpack(held) if type(held) is bytes else held

    def __set__(self, task: Any, value: Any) -> None:
        self.slot.__set__(task, value)


def _trimmed(json: bytes) -> bytes:
    """The same bytes without the rest of the buffer that orjson wrote them into, up to 4 kB."""
    return bytes(memoryview(json))


def state_json(state: JsonMapping) -> bytes:
    """The JSON of a state. Raises TypeError for what has none."""
    return state.json if type(state) is InitialState else orjson.dumps(state)


class AnyTask:
    """What `Task` and `OpenTask` have in common: what pools, logs, windows and episodes need of a
    task."""

    __slots__ = ()
    # both are dataclasses: `dataclasses.replace` takes either
    __dataclass_fields__: ClassVar[JsonObject]
    environment: EnvironmentRef  #: `{"name": …, "hash": …}`; `rods data rehash` writes the hash
    #: `long_context`: in a large state; `miss_func`: a tool is missing in a turn; `miss_param`: a
    #: value is
    type: TaskType
    tools: Texts  #: `tools.names` in a record: the tools that the policy may call
    #: `tools.held_out` in a record: tools that come later, by the turn in which they do, counted
    #: from 0: `{"2": ["pay"]}`
    later_tools: Mapping[int, Texts]
    state: JsonMapping | None  #: the initial state; absent: the environment's own empty state
    split: Split  #: those of `validation` and `test` are never trained on or varied
    provenance: JsonMapping  #: where it comes from; written by authors
    system: str  #: a text of its own for the system prompt; absent: the usual one
    #: a hash of all but `id`, `split` and `provenance`; `rods data rehash` and authors write it
    id: str

    @property
    def expected(self) -> int:
        """The most that an episode can earn: turns, checks, or the 2 of a rubric."""
        raise NotImplementedError

    @property
    def texts(self) -> Texts:
        """What the user is known to say, whatever the policy does."""
        raise NotImplementedError

    @property
    def goal_calls(self) -> tuple[Call, ...]:
        """The calls that the goal names: ground truth, checks, or what a rubric expects."""
        raise NotImplementedError

    @property
    def state_bytes(self) -> bytes | None:
        """The JSON of `state`, as it is kept; a task that was pickled has the object instead."""
        held: bytes | InitialState | None = vars(type(self))["state"].slot.__get__(self)
        return held.json if isinstance(held, InitialState) else held

    def tools_at(self, turn: int) -> Texts:
        """The names callable in `turn` (counted from 0): all but those still held out."""
        missing = {
            name for until, names in self.later_tools.items() if turn < until for name in names
        }
        return tuple(name for name in self.tools if name not in missing)

    def _content(self) -> JsonObject:
        """The record without id, split and provenance: what the id hashes."""
        raise NotImplementedError

    def _sealed(self) -> None:
        """Sets the id, or checks it; the state is frozen."""
        expected = content_id(self._content())
        if self.id and self.id != expected:
            raise ValueError(
                f"id {self.id} does not match the content ({expected}): the record was edited"
            )
        object.__setattr__(self, "id", expected)
        if self.state is not None:
            # these two are `_Packed`
            object.__setattr__(self, "state", _trimmed(state_json(self.state)))
        if self.provenance:
            object.__setattr__(self, "provenance", _trimmed(orjson.dumps(self.provenance)))

    @property
    def schema(self) -> int:
        """The number of its form, the lowest that has what it has."""
        raise NotImplementedError

    def _record(self, user: JsonMapping, goal: JsonMapping) -> JsonObject:
        later = {str(turn): list(names) for turn, names in sorted(self.later_tools.items())}
        where = {"name": self.environment.name, "hash": self.environment.hash}
        tools = {"names": list(self.tools), **({"held_out": later} if later else {})}
        record = {
            "schema": self.schema,
            "environment": where,
            "type": self.type,
            "user": user,
            "goal": goal,
            "tools": tools,
        }
        state = {} if self.state is None else {"state": self.state}
        return {**record, **state, **({"system": self.system} if self.system else {})}

    @staticmethod
    def from_json(record: Any) -> "AnyTask":
        """Raises ValueError naming the field at fault."""
        return _parsed(record)

    def as_json(self) -> JsonObject:
        provenance = {"provenance": dict(self.provenance)} if self.provenance else {}
        return {"id": self.id, **self._content(), "split": self.split, **provenance}


@frozen
class Task(AnyTask):
    """A task that is judged turn by turn: a script, and ground-truth calls."""

    environment: EnvironmentRef
    type: TaskType
    script: Texts  #: `user.script` in a record: what the user says, one text a turn
    #: `goal.calls` in a record: the ground truth, a list of calls a turn, each `{"name": …,
    #: "arguments": {…}}`; empty where no call is right
    calls: tuple[tuple[Call, ...], ...]
    tools: Texts
    later_tools: Mapping[int, Texts] = field(default_factory=dict)
    state: JsonMapping | None = None
    split: Split = "train"
    provenance: JsonMapping = field(default_factory=dict)
    id: str = ""
    system: str = ""
    #: `goal.reads` in a record: what is judged beside the state, as a word of `Features`, or as the
    #: places `[turn, call]` in `calls`, from 0, whose results have to be shown; absent: as the
    #: environment has it
    reads: Reads | None = None

    def __post_init__(self) -> None:
        if not self.script or len(self.script) != len(self.calls):
            counts = f"{len(self.script)} user turns but {len(self.calls)} turns of ground truth"
            raise ValueError(f"{counts}; both must be equal and ≥ 1")
        names = set(self.tools)
        for turn, returned in self.later_tools.items():
            if not 0 <= turn < len(self.script):
                raise ValueError(
                    f"tools held out until turn {turn}, but the task has turns "
                    f"0–{len(self.script) - 1}"
                )
            if missing := set(returned) - names:
                raise ValueError(f"held-out tools {sorted(missing)} are not among the task's tools")
        for turn, index in self.places or ():
            if turn >= len(self.calls) or index >= len(self.calls[turn]):
                raise ValueError(f"'goal.reads' has [{turn}, {index}], where 'goal.calls' has none")
        self._sealed()

    @property
    def places(self) -> Places | None:
        """The places of the calls whose results have to be shown, where the task lists them."""
        return None if isinstance(self.reads, str) else self.reads

    @property
    def expected(self) -> int:
        return len(self.script)

    @property
    def texts(self) -> Texts:
        return self.script

    @property
    def goal_calls(self) -> tuple[Call, ...]:
        return tuple(call for turn in self.calls for call in turn)

    @property
    def schema(self) -> int:
        return OPEN_SCHEMA if self.system or self.reads is not None else SCHEMA

    def _content(self) -> JsonObject:
        calls = [[call.as_json() for call in turn] for turn in self.calls]
        goal = {"calls": calls, **({} if self.reads is None else {"reads": self.reads})}
        return self._record({"script": list(self.script)}, goal)

    @staticmethod
    def from_json(record: Any) -> "Task":
        """Raises ValueError naming the field at fault, also for an open task."""
        task = AnyTask.from_json(record)
        if not isinstance(task, Task):
            raise ValueError("'user' and 'goal' must be a script and calls")
        return task


@frozen
class OpenTask(AnyTask):
    """A task that is judged once, at the end: by checks of the final state, or by a rubric. Its
    type is `base` or `long_context`, and none of its tools are held out."""

    environment: EnvironmentRef
    type: TaskType
    user: Script | Persona  #: who talks: texts that are written down, or a user who is played
    goal: Checks | Rubric  #: what it is judged by
    tools: Texts
    state: JsonMapping | None = None
    split: Split = "train"
    provenance: JsonMapping = field(default_factory=dict)
    id: str = ""
    system: str = ""
    limits: Limits | None = None  #: how long its conversation may be, besides its user's turns
    # always empty
    later_tools: Mapping[int, Texts] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.type not in OPEN_TYPES:
            raise ValueError(
                f"'type' is {self.type!r}; one without calls by turn is {' or '.join(OPEN_TYPES)}"
            )
        if isinstance(self.goal, Rubric) and (
            other := {call.name for call in self.goal.calls} - set(self.tools)
        ):
            raise ValueError(
                f"'goal.expected' has {sorted(other)}, which are not among the task's tools"
            )
        self._sealed()

    @property
    def expected(self) -> int:
        return len(self.goal.calls) if isinstance(self.goal, Checks) else RUBRIC_LEVELS

    @property
    def texts(self) -> Texts:
        return self.user.texts if isinstance(self.user, Script) else (self.user.query,)

    @property
    def goal_calls(self) -> tuple[Call, ...]:
        return self.goal.calls

    @property
    def schema(self) -> int:
        return OPEN_SCHEMA

    def _content(self) -> JsonObject:
        record = self._record(self.user.as_json(), self.goal.as_json())
        return record if self.limits is None else {**record, "limits": self.limits.as_json()}


for _kind in (Task, OpenTask):
    for _name, _unpack in (("state", unpacked), ("provenance", _unpacked_provenance)):
        setattr(_kind, _name, _Packed(getattr(_kind, _name), _unpack))


Line = tuple[int, bytes, AnyTask]  # at which byte of a file it begins, the bytes, what they say

CallRecord = Annotated[Call, PlainValidator(Call.from_json)]


@dataclass(slots=True)
class _User:
    __pydantic_config__ = CLOSED
    script: Texts | None = None
    persona: Persona | None = None


@dataclass(slots=True)
class _Goal:
    __pydantic_config__ = CLOSED
    calls: tuple[tuple[CallRecord, ...], ...] | None = None
    checks: tuple[CallRecord, ...] | None = None
    rubric: Texts | None = None
    expected: tuple[CallRecord, ...] | None = None
    reads: Reads | None = None


@dataclass(slots=True)
class _Tools:
    names: Texts
    held_out: dict[NonNegativeInt, Texts] = field(default_factory=dict)


@dataclass(slots=True)
class _Record:
    """The form of a task's record: what its fields may be, each by itself."""

    __pydantic_config__ = CLOSED
    schema: Literal[1, 2]
    environment: EnvironmentRef
    type: TaskType
    user: _User
    goal: _Goal
    tools: _Tools
    state: JsonObject | None = None
    system: Words = ""
    limits: Limits | None = None
    split: Split = "train"
    provenance: JsonObject = field(default_factory=dict)
    id: str = ""


FIELDS = tuple(entry.name for entry in fields(_Record))
_READER = TypeAdapter(_Record)


def asked(task: Task, turn: int) -> str:
    """What is asked in `turn`, with the request right before it that no call served."""
    text = task.script[turn]
    if turn and not task.calls[turn - 1]:
        before = task.script[turn - 1]
        return before if text == RETURN_SENTENCE else f"{before} {text}"
    return text


def scripted(task: AnyTask, what: str) -> Task:
    """`task` where it is judged turn by turn. Raises UserError saying that `what` is for these
    alone."""
    if isinstance(task, Task):
        return task
    why = (
        f"its user is played, or it is judged at the end: {what} takes a script with ground-truth "
        f"calls"
    )
    raise UserError(why, where=f"task {task.id}", remedy="leave it out")


def _parsed(content: Any) -> AnyTask:
    try:
        record = _READER.validate_python(content)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from None
    user = record.user
    goal = record.goal
    if (user.script is None) is (user.persona is None):
        raise ValueError("'user' must have one of script, persona")
    ways = [way for way in (goal.calls, goal.checks, goal.rubric) if way is not None]
    if (
        len(ways) != 1
        or (goal.rubric is None and goal.expected is not None)
        or (goal.calls is None and goal.reads is not None)
    ):
        fields = "calls (and `reads`), checks, rubric (and `expected`)"
        raise ValueError(f"'goal' must have one of {fields}")
    common: JsonObject = {
        "environment": _shared(record.environment),
        "type": record.type,
        "tools": _shared(record.tools.names),
        "state": record.state,
        "split": record.split,
        "provenance": record.provenance,
        "system": record.system,
        "id": record.id,
    }
    task: AnyTask
    if goal.calls is not None:
        if record.limits is not None:
            raise ValueError(
                "'limits' are of a conversation: only a task with checks or a rubric has them"
            )
        if user.script is None:
            what = "'goal.calls' go by turns, and a persona's are not known beforehand"
            raise ValueError(f"{what}: give checks or a rubric")
        task = Task(
            script=user.script,
            calls=goal.calls,
            later_tools=record.tools.held_out,
            reads=goal.reads,
            **common,
        )
    elif record.tools.held_out:
        raise ValueError(
            "'tools.held_out' goes by turns of ground truth: only a task with 'goal.calls' has it"
        )
    else:
        judged = (
            Checks(goal.checks or ())
            if goal.rubric is None
            else Rubric(goal.rubric, goal.expected or ())
        )
        speaker = user.persona or Script(user.script or ())
        task = OpenTask(user=speaker, goal=judged, limits=record.limits, **common)
    if task.schema != record.schema:
        raise ValueError(f"'schema' is {record.schema}; what the task has makes it {task.schema}")
    return task


@lru_cache(maxsize=SHARED)
def _shared(value: T) -> T:
    """One object for values that are equal, as most tasks' tools are."""
    return value


def write_task_file(tasks: Iterable[AnyTask], path: Path) -> None:
    """Writes a JSONL file of `tasks`. Raises UserError where it cannot be written."""
    with explained("cannot write", path, "choose another file"):
        path.write_bytes(task_lines(tasks))


def read_tasks(path: Path) -> list[AnyTask]:
    """The tasks of a JSONL file, in order. Raises UserError naming file, line and remedy, also for
    duplicate ids."""
    return [task for _, _, task in checked_lines(path)]


def checked_lines(path: Path) -> Iterator[Line]:
    """The same with their lines. Raises what `read_tasks` does."""
    seen: dict[str, int] = {}
    start = 0
    with explained(
        "cannot read the task file", path, "check the path, in a configuration data.tasks"
    ):
        lines = open_regular(path)
    with lines:
        for number, line in enumerate(bounded_lines(lines, path, TASKS), start=1):
            start += len(line)
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                task = AnyTask.from_json(exact(line.decode()))
            except ValueError as error:  # orjson.JSONDecodeError is one
                remedy = (
                    "run `rods data check` on it, or `rods data rehash FILE --trust` where a hash "
                    "is lacking"
                )
                raise UserError(str(error), where=where, remedy=remedy) from error
            if task.id in seen:
                what = f"task {task.id} repeats line {seen[task.id]}"
                raise UserError(what, where=where, remedy="remove one of the two lines")
            seen[task.id] = number
            yield start - len(line), line, task


def task_lines(tasks: Iterable[AnyTask]) -> bytes:
    """The JSONL bytes of `tasks`. Keys keep their order: a world may list files in that of its
    state's keys, so sorting them would make another world of a task that has the same id."""
    return b"".join(orjson.dumps(task.as_json()) + b"\n" for task in tasks)
