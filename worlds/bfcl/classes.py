"""The eight API classes of the wheel, their documents as tools, and nothing else of it.

The modules are executed out of the wheel under private names: no install, no entry on `sys.path`,
no collision with a `bfcl_eval` that somebody has installed. Four things are put right while
loading, none of which changes a result that a task can rest on:

- random numbers: `random.Random` becomes `RecordedRandom`, which draws the same numbers and can be
  copied and written down;
- the clock: `datetime.today()` in the travel class is the wheel's release day, so that ages do not
  change over time;
- copying: `copy.deepcopy` of plain data becomes `copy_plain`;
- memory: what follows from a call's arguments alone (the table of flight prices, the pages about a
  company, the padding of long contexts) is worked out once by the class itself and kept with its
  text (`jsontext`). What failed is not kept, and nothing here knows of tasks or episodes.
"""

import datetime
import inspect
import random
import re
import sys
import types
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

from rods.canonical import JsonMapping, JsonObject, frozen
from rods.environments.base import Parameter, Tool, Tools
from rods.worlds.bfcl import wheel
from rods.worlds.bfcl.bounds import UNBOUNDED, bounds_of
from rods.worlds.bfcl.copies import RecordedRandom, copy_plain
from rods.worlds.bfcl.jsontext import KeptList, KeptText, keep
from rods.worlds.bfcl.ownership import READING

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
# "[Enum]: ["on", "off"]", "Options are: a, b."
_LISTED = re.compile(r"(?:\[Enum\]|[Oo]ptions(?: are)?): *(.+)")
_EACH = re.compile(r"'(\w)' for ")  # "('l' for lines, 'w' for words)"
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}  # BFCL's names for JSON Schema's


@frozen
class Api:
    """One API class: the class itself and its documented tools by name."""

    type: type
    tools: Tools


def load(file: Path) -> dict[str, Api]:
    """The API classes of the wheel `file` by name, in the order of `MODULES`."""
    extension = _execute(file, "long_context")
    names = vars(extension)
    # before the classes import them
    names.update({name: kept(names[name]) for name, kept in _PADDING.items()})
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
        apis[name] = Api(
            kind, {document["name"]: _tool(name, kind, document) for document in documents}
        )
    return apis


def load_type(file: Path, name: str) -> type:
    """One API class with its replacements made. Classes that import the module of long_context need
    it in place, as `load` does; MathAPI can be loaded by itself."""
    names = vars(module := _execute(file, MODULES[name]))
    if names.get("random") is random:
        names["random"] = types.SimpleNamespace(Random=RecordedRandom)
    if names.get("datetime") is datetime.datetime:
        names["datetime"] = _Clock
    if "deepcopy" in names:
        names["deepcopy"] = copy_plain
    kind: type = getattr(module, name)
    if name == "TravelAPI":
        remember_prices(kind)
    if name == "TradingBot":
        remember_stocks(kind, vars(module)["WATCH_LIST_EXTENSION"])
    return kind


class _Clock(datetime.datetime):
    """`datetime` whose today never changes, with a cache of the dates that it has parsed."""

    @classmethod
    def today(cls) -> "_Clock":
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
    # the hash is checked
    code = compile(wheel.read(file, member), module.__file__, "exec")
    exec(code, vars(module))  # noqa: S102
    return module


def _tool(group: str, kind: type, document: JsonObject) -> Tool:
    name = document["name"]
    documented = document["parameters"]["properties"]
    parameters = []
    for parameter in list(inspect.signature(getattr(kind, name)).parameters.values())[1:]:
        schema = _schema(documented[parameter.name])
        about = documented[parameter.name].get("description", "").strip()
        required = parameter.default is inspect.Parameter.empty
        default = None if required else parameter.default
        bounds = bounds_of(name, parameter.name, schema)
        parameters.append(
            Parameter(parameter.name, schema, about, required, default, bounds, _listed(about))
        )
    reads = True if name in READING else None
    return Tool(
        name,
        group,
        document["description"].strip(),
        tuple(parameters),
        name not in UNBOUNDED,
        reads=reads,
    )


def _listed(about: str) -> tuple[str, ...]:
    """The values that a description lists: BFCL's schemas have no `enum`."""
    if (match := _LISTED.search(about)) is not None:
        return tuple(value.strip(" \"'[]") for value in match[1].rstrip(".").split(","))
    return tuple(_EACH.findall(about)) if "('" in about else ()


def _schema(documented: JsonMapping) -> JsonObject:
    """JSON Schema of a documented parameter: `float` is a number, `dict` an object."""
    schema: JsonObject = {"type": _TYPES.get(documented["type"], documented["type"])}
    if "items" in documented:
        schema["items"] = _schema(documented["items"])
    if "properties" in documented:
        schema["properties"] = {
            name: {**_schema(part), "description": part.get("description", "")}
            for name, part in documented["properties"].items()
        }
    return schema


# --- memory: answers that follow from the arguments alone

_PAGES = 4_096  # of companies' pages, with their texts 1 KB each

# What the module of long_context holds and the classes put into answers: how it is kept.
_KEPT = (
    "MA_5_EXTENSION MA_20_EXTENSION INTERMEDIARY_CITIES CAR_STATUS_METADATA_EXTENSION "
    "PARKING_BRAKE_INSTRUCTION"
)
_PADDING: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_KEPT.split(), keep),
    "BOOKING_RECORD_EXTENSION": lambda records: {
        name: keep(record) for name, record in records.items()
    },
    "ORDER_DETAIL_EXTENSION": lambda pages: {name: _Page(page) for name, page in pages.items()},
}


class _Page(str):
    """A text about a company, to be filled in with its symbol."""

    __slots__ = ()

    def format(self, *arguments: Any, **fields: Any) -> str:
        symbol = fields.get("symbol")
        return (
            _filled(self, symbol) if type(symbol) is str else super().format(*arguments, **fields)
        )


@lru_cache(_PAGES)
def _filled(page: _Page, symbol: str) -> KeptText:
    text: KeptText = keep(str.format(page, symbol=symbol))
    return text


def remember_prices(kind: Any) -> None:
    """`TravelAPI.get_flight_cost` depends on its arguments and on long_context alone, and leaves
    the prices that it found in `_flight_cost_lookup`, which nobody changes afterwards."""
    look_up = kind.get_flight_cost

    @lru_cache(256)
    def prices(long_context: bool, *route: str) -> tuple[KeptList, JsonObject]:
        scratch = kind()
        scratch.long_context = long_context
        reply = look_up(scratch, *route)
        return keep(reply["travel_cost_list"]), scratch._flight_cost_lookup

    @wraps(look_up)
    def get_flight_cost(
        self: Any, travel_from: str, travel_to: str, travel_date: str, travel_class: str
    ) -> Any:
        route = travel_from, travel_to, travel_date, travel_class
        try:
            costs, self._flight_cost_lookup = prices(self.long_context, *route)
        except TypeError:  # an argument that cannot be hashed: as the class has it
            return look_up(self, *route)
        return {"travel_cost_list": costs}

    kind.get_flight_cost = get_flight_cost


def remember_stocks(kind: Any, watched: list[str]) -> None:
    """The stocks of a sector, and the list `watched` that is added to everybody's own, in long
    contexts."""
    in_sector = kind.get_available_stocks
    watch_list = kind.get_watchlist
    tail = str(watched)[1:]

    @lru_cache(64)
    def stocks(sector: str) -> KeptList:
        scratch = kind()
        scratch.long_context = True
        kept: KeptList = keep(in_sector(scratch, sector)["stock_list"])
        return kept

    @wraps(in_sector)
    def get_available_stocks(self: Any, sector: str) -> Any:
        if self.long_context and type(sector) is str:
            return {"stock_list": stocks(sector)}
        return in_sector(self, sector)

    @wraps(watch_list)
    def get_watchlist(self: Any) -> Any:
        own = self.watch_list
        if not self.long_context or not self.authenticated or type(own) is not list:
            return watch_list(self)
        return _Written(f"{str(own)[:-1]}, {tail}" if own else f"[{tail}")

    kind.get_available_stocks = get_available_stocks
    kind.get_watchlist = get_watchlist


def keep_stocks(bot: Any) -> None:
    """Keeps the figures of each stock of a TradingBot with their JSON text: its tools return and
    never change them."""
    if type(bot.stocks) is dict:
        bot.stocks = {
            symbol: keep(stock) if type(stock) is dict else stock
            for symbol, stock in bot.stocks.items()
        }


class _Written(str):
    """The text of a list, in place of a list that would only be built to be written."""

    __slots__ = ()
