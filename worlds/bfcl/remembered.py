"""Answers of the API classes that follow from their arguments alone, worked out once.

A class builds the table of flight prices anew at every call, fills in the same pages about a company for every order,
and pads answers in long contexts with constants of thousands of entries. Here each is made once by the class itself and
remembered, with its text (`jsontext`). What failed is not remembered. Nothing here knows of tasks or episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any

from worlds.bfcl.jsontext import KeptList, KeptText, keep

_PAGES = 4_096  # of companies' pages, with their texts 1 KB each

# What the module of long_context holds and the classes put into answers: how it is kept.
_PADDING: Mapping[str, Callable[[Any], Any]] = {
    "MA_5_EXTENSION": keep,
    "MA_20_EXTENSION": keep,
    "INTERMEDIARY_CITIES": keep,
    "CAR_STATUS_METADATA_EXTENSION": keep,
    "PARKING_BRAKE_INSTRUCTION": keep,
    "BOOKING_RECORD_EXTENSION": lambda records: {name: keep(record) for name, record in records.items()},
    "ORDER_DETAIL_EXTENSION": lambda pages: {name: _Page(page) for name, page in pages.items()},
}


def keep_padding(names: dict[str, Any]) -> None:
    """Replaces the constants of the module of long_context, given by its `names`, before the classes take them."""
    for name, kept in _PADDING.items():
        names[name] = kept(names[name])


class _Page(str):
    """A text about a company, to be filled in with its symbol."""

    __slots__ = ()

    def format(self, *arguments: Any, **fields: Any) -> str:
        symbol = fields.get("symbol")
        return _filled(self, symbol) if type(symbol) is str else super().format(*arguments, **fields)


@lru_cache(_PAGES)
def _filled(page: _Page, symbol: str) -> KeptText:
    text: KeptText = keep(str.format(page, symbol=symbol))
    return text


def remember_prices(kind: Any) -> None:
    """`TravelAPI.get_flight_cost` depends on its arguments and on long_context alone, and leaves the prices that it
    found in `_flight_cost_lookup`, which nobody changes afterwards."""
    look_up = kind.get_flight_cost

    @lru_cache(256)
    def prices(long_context: bool, *route: str) -> tuple[KeptList, dict[str, Any]]:
        scratch = kind()
        scratch.long_context = long_context
        found = look_up(scratch, *route)
        return keep(found["travel_cost_list"]), scratch._flight_cost_lookup

    @wraps(look_up)
    def get_flight_cost(
        self: Any, travel_from: str, travel_to: str, travel_date: str, travel_class: str
    ) -> dict[str, list[float]]:
        try:
            costs, self._flight_cost_lookup = prices(
                self.long_context, travel_from, travel_to, travel_date, travel_class
            )
        except TypeError:  # an argument that cannot be hashed: as the class has it
            found: dict[str, list[float]] = look_up(self, travel_from, travel_to, travel_date, travel_class)
            return found
        return {"travel_cost_list": costs}

    kind.get_flight_cost = get_flight_cost


def remember_stocks(kind: Any, watched: list[str]) -> None:
    """The stocks of a sector, and the list `watched` that is added to everybody's own, in long contexts."""
    in_sector, watch_list = kind.get_available_stocks, kind.get_watchlist
    tail = str(watched)[1:]

    @lru_cache(64)
    def stocks(sector: str) -> KeptList:
        scratch = kind()
        scratch.long_context = True
        found: KeptList = keep(in_sector(scratch, sector)["stock_list"])
        return found

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

    kind.get_available_stocks, kind.get_watchlist = get_available_stocks, get_watchlist


def keep_stocks(bot: Any) -> None:
    """What a TradingBot knows about each stock is asked for and never changed."""
    if type(bot.stocks) is dict:
        bot.stocks = {symbol: keep(stock) if type(stock) is dict else stock for symbol, stock in bot.stocks.items()}


class _Written(str):
    """What `str` makes of a list that need not be built for it."""

    __slots__ = ()
