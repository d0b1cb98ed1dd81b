"""The eight API classes of the wheel, their documents as tools, and nothing else of it.

The modules are executed out of the wheel under private names: no install, no entry on `sys.path`, no collision with a
`bfcl_eval` that somebody has installed. Four things are put right while loading, none of which changes a result that
a task can rest on:

- chance: `random.Random` becomes `Dice`, which draws the same numbers and can be copied and written down;
- the clock: `datetime.today()` in the travel class is the wheel's release day, so that ages do not change over time;
- copying: `copy.deepcopy` of plain data becomes `copy_plain`;
- answers that follow from the arguments alone are remembered, and padding carries its text (`remembered`).
"""

from __future__ import annotations

import datetime
import inspect
import random
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rods.environments.base import Parameter, Tool
from worlds.bfcl import wheel
from worlds.bfcl.bounds import UNBOUNDED, bounds_of
from worlds.bfcl.copies import Dice, copy_plain
from worlds.bfcl.remembered import keep_padding, remember_prices, remember_stocks

SOURCES = "eval_checker/multi_turn_eval/func_source_code"
MODULES: Mapping[str, str] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
STATELESS = frozenset({"MathAPI"})
TODAY = datetime.datetime(2026, 3, 23)
_EXTENSION = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code.long_context"
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}  # BFCL's names for JSON Schema's


@dataclass(frozen=True, slots=True)
class Api:
    """One API class: the class itself and its documented tools by name."""

    name: str
    type: type
    tools: Mapping[str, Tool]


def load(file: Path) -> dict[str, Api]:
    """The API classes of the wheel `file` by name, in the order of `MODULES`."""
    extension = _execute(file, "long_context")
    keep_padding(vars(extension))
    before = sys.modules.get(_EXTENSION)
    sys.modules[_EXTENSION] = extension
    try:
        types_ = {name: load_type(file, name) for name in MODULES}
    finally:
        if before is None:
            del sys.modules[_EXTENSION]
        else:
            sys.modules[_EXTENSION] = before
    apis: dict[str, Api] = {}
    for name, kind in types_.items():
        documents = wheel.read_json_lines(file, f"data/multi_turn_func_doc/{MODULES[name]}.json")
        tools = {document["name"]: _tool(name, kind, document) for document in documents}
        apis[name] = Api(name, kind, tools)
    return apis


def load_type(file: Path, name: str) -> type:
    """One API class, mended. The classes of long_context's making need its module in place: see `load`."""
    module = _execute(file, MODULES[name])
    _mend(module)
    kind: type = getattr(module, name)
    if name == "TravelAPI":
        remember_prices(kind)
    if name == "TradingBot":
        remember_stocks(kind, vars(module)["WATCH_LIST_EXTENSION"])
    return kind


class _Clock(datetime.datetime):
    """`datetime` whose today never changes, and which remembers the dates that it has read."""

    @classmethod
    def today(cls) -> _Clock:
        return cls(TODAY.year, TODAY.month, TODAY.day)

    @classmethod
    def strptime(cls, text: Any, format: str) -> datetime.datetime:  # type: ignore[override]
        return _read_date(text, format) if type(text) is str else super().strptime(text, format)


@lru_cache(4096)
def _read_date(text: str, format: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, format)


def _execute(file: Path, name: str) -> types.ModuleType:
    member = f"{SOURCES}/{name}.py"
    module = types.ModuleType(f"{__name__}.{name}")
    module.__file__ = f"{file}/bfcl_eval/{member}"
    exec(compile(wheel.read(file, member), module.__file__, "exec"), vars(module))  # noqa: S102 the hash is checked
    return module


def _mend(module: types.ModuleType) -> None:
    names = vars(module)
    if names.get("random") is random:
        names["random"] = types.SimpleNamespace(Random=Dice)
    if names.get("datetime") is datetime.datetime:
        names["datetime"] = _Clock
    if "deepcopy" in names:
        names["deepcopy"] = copy_plain


def _tool(group: str, kind: type, document: dict[str, Any]) -> Tool:
    name = document["name"]
    documented = document["parameters"]["properties"]
    parameters = []
    for parameter in list(inspect.signature(getattr(kind, name)).parameters.values())[1:]:
        schema = _schema(documented[parameter.name])
        required = parameter.default is inspect.Parameter.empty
        parameters.append(
            Parameter(
                parameter.name,
                schema,
                documented[parameter.name].get("description", "").strip(),
                required,
                None if required else parameter.default,
                bounds_of(name, parameter.name, schema),
            )
        )
    return Tool(name, group, document["description"].strip(), tuple(parameters), name not in UNBOUNDED)


def _schema(documented: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of a documented parameter: `float` is a number, `dict` an object."""
    schema: dict[str, Any] = {"type": _TYPES.get(documented["type"], documented["type"])}
    if "items" in documented:
        schema["items"] = _schema(documented["items"])
    if "properties" in documented:
        schema["properties"] = {
            name: {**_schema(part), "description": part.get("description", "")}
            for name, part in documented["properties"].items()
        }
    return schema
