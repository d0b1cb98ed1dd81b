"""A tool repository: documents of tools by category, without code (001 §2.2.1, D.2).

It is read from a folder of JSON files, whose form docs/trustee.md shows, or from an environment's
own tools. `$ref` into the same file is written out when it is read, so that a tool's schemas stand
alone. `effect` is what `rods.family.simulation.ledger` keeps account by; without one, nothing is
known of what a tool does.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from rods.analysis.schemas import tool_faults
from rods.buffers.log.shapes import fault_of
from rods.canonical import JsonMapping, frozen, without
from rods.environments.base import Environment, Parameter, Tool
from rods.errors import UserError, disk_error
from rods.files import read_regular
from rods.model_json import read_exact
from rods.worlds.pinned import referred

CATEGORIES = "categories.json"
DEEPEST = 32  # references inside of references
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,127}")

EFFECT_KEYS = {"does", "entity", "sets", "touches"}
EFFECT = fault_of({"does": "text", "entity?": "text", "sets?": "object", "touches?": ["text"]})
FILE = fault_of({"category": "text", "entities?": {"*": "text"}, "tools": ["object"]})
OBJECT = fault_of({"type": "text", "properties?": {"*": "object"}, "required?": ["text"]})

# looks_up: nothing is changed, and equal calls give equal results. finds: a selection of things,
# while lists gives all that match.
Does = Literal["creates", "reads", "lists", "finds", "changes", "removes", "looks_up"]
DOES: tuple[Does, ...] = get_args(Does)
# of a thing that is named by a parameter
OF_ONE: frozenset[Does] = frozenset({"reads", "changes", "removes"})
OF_MANY: frozenset[Does] = frozenset({"lists", "finds"})


@frozen
class Effect:
    """What a tool does to things of the kind `entity`, which the field `key` names. Parameters
    called like a field say what it becomes (creates, changes) or has to be (lists, finds). `sets`
    are fields that get this value whatever is asked, `touches` those that may change besides.
    `items`: the field of the result that holds the list."""

    does: Does
    entity: str = ""
    key: str = ""
    sets: JsonMapping = field(default_factory=dict)
    touches: frozenset[str] = frozenset()
    items: str = ""


@frozen
class SimulatedTool:
    """A tool's document, and what it does where that is known. `where` it was read, for
    messages."""

    tool: Tool
    effect: Effect | None = None
    where: str = field(default="", compare=False)


@frozen
class ToolRepository:
    """Tools by name, in the order in which they were read; `categories` says what each category is
    about."""

    tools: Mapping[str, SimulatedTool]
    categories: Mapping[str, str]

    def of(self, category: str) -> tuple[SimulatedTool, ...]:
        return tuple(entry for entry in self.tools.values() if entry.tool.group == category)


def read_folder(folder: Path) -> ToolRepository:
    """Raises UserError (what, where, what to do) for the first thing that is wrong with it."""
    categories = _read(folder / CATEGORIES)
    if fault_of({"*": "text"})(categories) or not all(categories.values()):
        raise UserError(
            "is no object of texts",
            where=folder / CATEGORIES,
            remedy='write {"category": "what it is about"}',
        )
    files = sorted(path for path in folder.glob("*.json") if path.name != CATEGORIES)
    tools = [tool for path in files for tool in _of_file(path, categories)]
    if not tools:
        raise UserError(
            "holds no tools", where=folder, remedy="put files of tools there, one a category"
        )
    return ToolRepository(_named(tools), categories)


def from_environment(environment: Environment) -> ToolRepository:
    """The environment's own tools; its API classes are the categories. What they do is known to the
    environment alone. Raises UserError for a document that is broken."""
    items = environment.tools().items()
    tools = [
        _checked(SimulatedTool(tool, where=f"{environment.name}: {name}")) for name, tool in items
    ]
    return ToolRepository(_named(tools), {entry.tool.group: entry.tool.group for entry in tools})


def _of_file(path: Path, categories: Mapping[str, str]) -> Iterator[SimulatedTool]:
    record = _read(path)
    if fault := FILE(record):
        raise UserError(
            f"is no file of tools ({fault.strip()})",
            where=path,
            remedy='write {"category": …, "entities": {kind: key}, "tools": [{"name": …}]}',
        )
    category = record["category"]
    if category not in categories:
        raise UserError(
            f"has the unknown category {category[:80]!r}",
            where=path,
            remedy=f"name one of {', '.join(categories)}, or add it to {CATEGORIES}",
        )
    for number, document in enumerate(record["tools"]):
        where = f"{path}: tools[{number}]"
        if not document.get("result"):
            raise UserError(
                "has no result",
                where=f"{where} {document.get('name')}",
                remedy="say what it returns, as JSON Schema; models that play it are held to that",
            )
        entry = read_tool(document, category, where, record)
        if "effect" in document:
            entities = record.get("entities", {})
            entry = replace(
                entry,
                effect=_effect(document["effect"], entry.tool, entities, f"{entry.where}: effect"),
            )
        yield entry


def read_tool(
    record: JsonMapping, category: str, where: str, root: JsonMapping | None = None
) -> SimulatedTool:
    """The tool that `record` names and describes, with JSON Schemas of its `parameters` and of its
    `result`, where that is known; `root` is what references point into, None: each schema itself.
    Raises UserError for what is wrong."""
    name = record.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(
            f"has the name {str(name)[:80]!r}",
            where=where,
            remedy="letters, digits and _ . / -, at most 128, not a digit first",
        )
    where = f"{where} {name}"
    schema = _schema("parameters", record.get("parameters"), root, where)
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if lacking := [key for key in required if key not in properties]:
        raise UserError(
            f"requires {lacking[0][:80]!r}, which is not among its properties",
            where=where,
            remedy="declare the parameter, or drop it there",
        )
    parameters = tuple(_parameter(key, value, key in required) for key, value in properties.items())
    result = record.get("result")
    returned = None if result is None else _schema("result", result, root, where)
    about = record.get("description")
    about = " ".join(about.split()) if isinstance(about, str) else ""
    tool = Tool(name, category, about, parameters, bounded=False, result=returned)
    return _checked(SimulatedTool(tool, where=where))


def _schema(what: str, schema: Any, root: JsonMapping | None, where: str) -> JsonMapping:
    """A schema of an object, with what it refers to written out. Raises UserError for any
    other."""
    whole = _inlined(schema, root or schema, where)
    fault = OBJECT(whole)
    if fault or whole["type"] != "object":
        remedy = 'write {"type": "object", "properties": {…}, "required": […]}'
        note = f" ({fault.strip()})" if fault else ""
        raise UserError(f"has no schema of an object as {what}{note}", where=where, remedy=remedy)
    return dict(whole)


def _parameter(name: str, schema: JsonMapping, required: bool) -> Parameter:
    """Examples are for whoever draws values; a policy that reads the document is not shown them."""
    rest = without(schema, "description", "default")
    bare = _without_examples(rest)
    about = str(schema.get("description", ""))
    return Parameter(
        name, bare, about, required, schema.get("default"), rest if bare != rest else {}
    )


def _without_examples(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_examples(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_examples(part)
        for key, part in schema.items()
        if key != "examples" or not isinstance(part, list)  # a parameter may be called so
    }


def _checked(entry: SimulatedTool) -> SimulatedTool:
    """The tool. Raises UserError for the first fault of its document."""
    for about, what, remedy in tool_faults(entry.tool.name, entry.tool):
        if about == "description":
            raise UserError(
                "has no description",
                where=entry.where,
                remedy="say in a sentence what it does: policies and models read nothing else",
            )
        raise UserError(what, where=f"{entry.where}: {about}", remedy=remedy)
    return entry


def _effect(record: Any, tool: Tool, entities: Mapping[str, str], where: str) -> Effect:
    """Raises UserError for an effect that the tool's own schemas cannot have."""
    if EFFECT(record) or record["does"] not in DOES or record.keys() - EFFECT_KEYS:
        remedy = (
            f'write {{"does": one of {", ".join(DOES)}, "entity": …, "sets": {{…}}, "touches": '
            "[…]}"
        )
        raise UserError(f"is {str(record)[:120]}", where=where, remedy=remedy)
    does = record["does"]
    if does == "looks_up":
        return Effect(does)
    entity = record.get("entity", "")
    sets = record.get("sets", {})
    touches = record.get("touches", [])
    if entity not in entities:
        raise UserError(
            f"is of the unknown entity {entity[:80]!r}",
            where=where,
            remedy='declare it in "entities", with the field that names one',
        )
    key = entities[entity]
    properties: JsonMapping = (tool.result or {}).get("properties", {})
    items = {
        name: schema["items"]
        for name, schema in properties.items()
        if isinstance(schema.get("items"), dict)
    }
    lists = [name for name, schema in items.items() if key in schema.get("properties", {})]
    if does in OF_MANY and len(lists) != 1:
        raise UserError(
            f"has no list of things with {key!r} in its result",
            where=where,
            remedy="return one array of such objects",
        )
    required = [parameter.name for parameter in tool.parameters if parameter.required]
    if does in OF_ONE and key not in required:
        raise UserError(
            f"does not require {key!r}",
            where=where,
            remedy="require the parameter that says which one",
        )
    fields = items[lists[0]]["properties"] if does in OF_MANY else properties
    if unknown := [name for name in (key, *sets, *touches) if name not in fields]:
        raise UserError(
            f"names {unknown[0]!r}, which is not in the result",
            where=where,
            remedy="return it, so that it can be compared",
        )
    return Effect(does, entity, key, sets, frozenset(touches), lists[0] if does in OF_MANY else "")


def _named(tools: Iterable[SimulatedTool]) -> dict[str, SimulatedTool]:
    named: dict[str, SimulatedTool] = {}
    for tool in tools:
        if (name := tool.tool.name) in named:
            raise UserError(
                f"has the name of a tool in {named[name].where}",
                where=tool.where,
                remedy="rename one of the two: calls know a tool by its name alone",
            )
        named[name] = tool
    return named


def _read(path: Path) -> Any:
    """The JSON value in a file. Raises UserError."""
    try:
        return read_exact(read_regular(path).decode("utf-8"))
    except OSError as error:
        raise disk_error(error, path) from error
    except ValueError as error:
        raise UserError(f"is no JSON: {error}", where=path, remedy="correct it") from error


def _inlined(schema: Any, root: JsonMapping, where: str, depth: int = 0) -> Any:
    """`schema` with the references into `root` replaced by what they name. Raises UserError for one
    that names nothing, and for schemas that contain themselves, which no prompt could show."""
    if depth > DEEPEST:
        raise UserError(
            f"is nested deeper than {DEEPEST}, or refers to itself",
            where=where,
            remedy="write it flatter",
        )
    if isinstance(schema, list):
        return [_inlined(inner, root, where, depth + 1) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" not in schema:
        return {
            name: _inlined(inner, root, where, depth + 1)
            for name, inner in schema.items()
            if name != "$defs"
        }
    target = referred(root, str(schema["$ref"]))
    if not isinstance(target, dict):
        raise UserError(
            f"refers to {str(schema['$ref'])[:80]!r}",
            where=where,
            remedy='define it in "$defs" and write "#/$defs/<name>"',
        )
    beside = without(schema, "$ref")
    return _inlined({**target, **beside}, root, where, depth + 1)
