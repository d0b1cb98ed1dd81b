"""What descriptions of worlds from outside have in common: a JSON file beside the tasks, the tools
that are pinned in it, what is known about the state.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Self, TypeVar
from urllib.parse import unquote

import orjson
from jsonschema_rs import ReferencingError, Registry
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from rods.analysis.schemas import fits
from rods.calls import Call, ReadsJudged, parse_python_call
from rods.canonical import JsonMapping, JsonObject, without
from rods.config.operation import base_address
from rods.environments.base import Environment, Features, Parameter, Tool
from rods.environments.failing import rules
from rods.environments.replay import Replayed
from rods.errors import Unsupported, UserError, first_fault
from rods.files import explained, read_regular

T = TypeVar("T")
_ROOT = "schema:"  # what the whole of a schema is called
_DEPTH = 6  # of references that are written out in a schema
_NODES = 20_000  # parts of a schema, after which no reference is written out any more
# what says whether there may be others than those that are named
_OTHERS = {"additionalProperties", "patternProperties", "unevaluatedProperties"}
_DEPENDING = ("dependentSchemas", "dependencies")
_ALTERNATIVES = ("anyOf", "oneOf", "if", "then", "else", *_DEPENDING)
# what a tool has by fields of its own, or has been written out
_OWN = ("type", "properties", "required", "title", "description", "$defs", "definitions")


class Room:
    """How much more of what somebody else says or leaves is looked at."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, amount: int) -> bool:
        """Whether there is room for so much more, which takes it."""
        self._left -= amount
        return self._left >= 0


class Pinned(BaseModel):
    """What every description may say. `tools` are records of `name`, `description` and
    `inputSchema`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    page: ClassVar[str] = ""  # the guide that says what a description may hold

    url: str = ""
    deterministic: bool = True  # equal calls give equal results
    reads: list[str] = []  # tools that change nothing
    # tools that change something, whatever they say of themselves
    writes: list[str] = []
    # how results tell of a failure (`rods.environments.failing`); null: nobody has said
    fails: Annotated[list[JsonObject] | None, AfterValidator(rules)] = None
    # calls of these whose answers are the state; null: nothing shows it
    probes: list[str] | None = None
    compared: list[str] = []  # what else is part of the state
    minted: dict[str, str] = {}  # kind: pattern with one group
    without: list[str] = []  # tools that are not offered
    # what turns are judged by beside the state (`Features.reads_judged`)
    goal: dict[Literal["reads"], ReadsJudged] = {}
    seconds: float = Field(30.0, gt=0)  # a call may take
    server: dict[str, str] = {}  # what it says of itself, for people
    tools: list[JsonObject] = []  # pinned: as the server lists them

    @property
    def started(self) -> str:
        """The command line that starts the server, if one does."""
        return ""

    @field_validator("url")
    @classmethod
    def _without_secrets(cls, url: str) -> str:  # runs record it, and errors repeat it
        return url if not url or base_address(url) else ""

    @field_validator("tools")
    @classmethod
    def _as_json(cls, tools: list[JsonObject]) -> list[JsonObject]:
        names = {name for tool in tools if isinstance(name := tool.get("name"), str) and name}
        if len(names) < len(tools):
            raise ValueError("each tool needs a name of its own")
        for tool in tools:
            if not isinstance(tool.get("inputSchema"), dict):
                raise ValueError(f"{tool['name']!r} has no inputSchema that is an object")
        try:
            orjson.dumps(tools)
        except TypeError as error:  # a default of 2^80, say
            raise ValueError(f"no JSON that every reader takes: {error}") from None
        return tools

    def harmless(self) -> list[str]:
        """The tools that change nothing."""
        return [name for name in self.reads if name not in self.writes]

    @classmethod
    def read(cls, name: str) -> Self:
        """The description in the file `name`. Raises UserError."""
        with explained(
            "cannot be read", f"environment {name!r}", f"`rods env add` writes it ({cls.page})"
        ):
            return cls.of(name, read_regular(Path(name)))

    @classmethod
    def of(cls, name: str, fields: JsonMapping | bytes) -> Self:
        """The description `fields`, or of which they are the JSON, checked. Raises UserError."""
        try:
            return (
                cls.model_validate_json(fields)
                if isinstance(fields, bytes)
                else cls.model_validate(fields)
            )
        except ValidationError as error:
            raise UserError(
                first_fault(error),
                where=f"environment {name!r}",
                remedy=f"{cls.page} says what it may hold",
            ) from None

    def features(self, *, waits: bool) -> Features:
        """What its worlds can do by themselves; `waits`: whether calls wait for another process."""
        return Features(
            self.deterministic,
            snapshot=False,
            fork=False,
            state_visible=False,
            waits=waits,
            reads_judged=self.goal.get("reads", "asked"),
        )

    def probe_calls(self) -> tuple[Call, ...] | None:
        return None if self.probes is None else tuple(map(_call, self.probes))

    def replayed(self, inner: Environment) -> Replayed:
        """The environment with worlds that can be copied and compared, of one whose worlds only
        answer calls."""
        return Replayed(
            inner,
            reads=self.harmless(),
            probes=self.probe_calls(),
            minted=self.minted,
            fails=self.fails,
        )

    def written(self) -> bytes:
        return (
            orjson.dumps(self.model_dump(exclude_defaults=True), option=orjson.OPT_INDENT_2) + b"\n"
        )

    def offered(self, group: str) -> dict[str, Tool]:
        """The tools that are, of the class `group`, each with whether it is known to change
        nothing."""
        return {
            record["name"]: tool_of(
                {**record, "reads": record["name"] in self.harmless() or None}, group
            )
            for record in self.tools
            if record["name"] not in self.without
        }

    def hold(self, name: str, listed: Iterable[JsonMapping]) -> None:
        """Raises UserError where the environment `name` lists other tools than those that are
        pinned."""
        listed = list(map(dict, listed))
        if listed != self.tools:
            pin = "pin these (`rods env add --replace`) and renew the tasks (`rods data rehash`)"
            raise UserError(
                f"the server lists other tools than those that were pinned: "
                f"{_difference(listed, self.tools)}",
                where=f"environment {name!r}",
                remedy=f"start the version that it was, or {pin}",
            )


def _call(text: str) -> Call:
    """The call in `name(key=value)`; the name of a tool need be none of Python's."""
    name, opened, rest = text.partition("(")
    return Call(name.strip(), parse_python_call(f"probe{opened}{rest}", {}).arguments)


def _difference(listed: Sequence[JsonMapping], pinned: Sequence[JsonMapping]) -> str:
    now, then = ({record["name"]: record for record in tools} for tools in (listed, pinned))
    return ", ".join(
        f"{'gone' if name not in now else 'changed' if name in then else 'new'} {name}"
        for name in sorted(now | then)
        if now.get(name) != then.get(name)
    )


def closed(schema: JsonMapping) -> JsonObject:
    """An input schema that refuses arguments which it names nowhere, unless it says that there may
    be others."""
    whole = _written_out(schema, schema, Room(_NODES))
    if any(part.keys() & _OTHERS for part, _ in _parts(whole)):
        return dict(schema)
    names: JsonObject = {name: {} for name in _arguments(whole)[0]}
    rest = {**schema, "properties": {**names, **_part(schema, "properties", dict)}}
    if reference := rest.pop("$ref", None):  # what stands beside one means nothing before 2019-09
        rest["allOf"] = [{"$ref": reference}, *_part(rest, "allOf", list)]
    return {"additionalProperties": False, **rest}


def tool_of(record: JsonMapping, group: str) -> Tool:
    """The tool that a server lists as `record`. It is not bounded: what can be killed need not
    be."""
    schema = record["inputSchema"]
    whole = _written_out(schema, schema, Room(_NODES))
    properties, required = _arguments(whole)
    parameters = []
    for name, value in properties.items():
        # JSON Schema: true takes anything, false nothing
        plain = dict(value) if isinstance(value, dict) else {} if value else {"not": {}}
        about = str(plain.pop("description", ""))
        default = plain.pop("default", None)
        plain.pop("title", None)
        parameters.append(Parameter(name, plain, about, name in required, default))
    about = record.get("description") or record["name"]
    result = record.get("outputSchema") or {}
    wrapped = _part(result, "properties", dict).keys() == {"result"}
    if wrapped and fits(result, {"result": ""}):  # a text, of which the result is what is in it
        result = {}
    return Tool(
        record["name"],
        group,
        about,
        tuple(parameters),
        bounded=False,
        result=result or None,
        reads=record.get("reads"),
        rules={key: value for key, value in without(whole, *_OWN).items() if value},
    )


def _part(schema: JsonMapping, key: str, kind: type[T]) -> T:
    """What stands under `key`, where it is of that kind."""
    value = schema.get(key)
    return value if isinstance(value, kind) else kind()


def _parts(schema: Any, always: bool = True) -> Iterator[tuple[JsonObject, bool]]:
    """A schema without references and those inside of it that are about the same value, each with
    whether it holds always."""
    if isinstance(schema, dict):
        yield schema, always
        for part in _part(schema, "allOf", list):
            yield from _parts(part, always)
        for key in _ALTERNATIVES:
            inner = schema.get(key)
            if key in _DEPENDING:
                inner = list(_part(schema, key, dict).values())
            for part in inner if isinstance(inner, list) else [inner]:
                yield from _parts(part, False)


def _arguments(schema: JsonMapping) -> tuple[JsonObject, set[str]]:
    """The properties that a schema without references names anywhere, each as what holds always has
    it, or else any part; and those that a value must have."""
    certain: JsonObject = {}
    possible: dict[str, list[Any]] = {}
    required: set[str] = set()
    for part, always in _parts(schema):
        named = dict.fromkeys(map(str, _part(part, "required", list)), True)
        required.update(named if always else ())
        for name, form in (named | _part(part, "properties", dict)).items():
            if always and certain.get(name, True) is True:
                certain[name] = form
            elif form is not True and form not in possible.setdefault(name, []):
                possible[name].append(form)
    for name, forms in possible.items():
        certain.setdefault(name, {"anyOf": forms} if forms[1:] else (forms or [{}])[0])
    return certain, required


def _written_out(schema: Any, root: JsonMapping, room: Room, depth: int = 0) -> Any:
    """A part of the schema `root` in the words of draft 2020-12, without references, as far as they
    do not go round in a circle and there is `room`, which each part takes a place of."""
    if isinstance(schema, list):
        return [_written_out(part, root, room, depth) for part in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        followed = depth < _DEPTH and room.take(1)
        target = referred(root, reference) if followed else None
        whole = target if isinstance(target, dict) else {}
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return {
            **_written_out(whole, root, room, depth + 1),
            **_written_out(rest, root, room, depth),
        }
    room.take(1)
    written = {
        key: _written_out(value, root, room, depth)
        for key, value in schema.items()
        if key != "$schema" or isinstance(value, dict)
    }
    if isinstance(written.get("items"), list):  # a tuple, before 2020-12
        written["prefixItems"] = written.pop("items")
        written |= {"items": written.pop("additionalItems")} if "additionalItems" in written else {}
    return written


def referred(root: JsonMapping, reference: str) -> Any:
    """The part of the schema `root` that `reference` means: a JSON pointer ("#/$defs/Day",
    "#/properties/a"), the whole ("#"), an anchor or an identifier. None where there is none."""
    part = root
    try:
        if not reference.startswith("#/"):
            return Registry([(_ROOT, dict(root))]).resolver(_ROOT).lookup(reference).contents
        # not looked up there, too: the order of keys would be lost
        for key in unquote(reference[2:]).split("/"):
            name = key.replace("~1", "/").replace("~0", "~")
            part = part[int(name) if isinstance(part, list) else name]
    except (ReferencingError, LookupError, ValueError, TypeError):
        return None
    return part


def json_value(text: str | bytes) -> Any:
    """The object or list that a text is the JSON of; None for any other text."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, (dict, list)) else None


class OnlyCalled:
    """A world of which only calls can be asked, since it lies in another process, or with somebody
    who plays it: `rods.environments.replay` adds the rest of an `Instance`."""

    def _refuse(self, *_: object) -> NoReturn:
        raise Unsupported("there is no state here to be shown, copied or compared")

    snapshot = fork = same_state = _refuse
