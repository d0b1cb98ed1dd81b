"""BFCL's trading account: new states of it, longer ones, and what may be chosen in one."""

import itertools
import random
from collections.abc import Mapping

from rods.canonical import JsonMapping, JsonObject, without
from rods.composing.catalogue import Domain, Scene
from rods.worlds.bfcl.catalogue.scenario import (
    FIRST_NAMES,
    ClassCatalogue,
    ScenarioRequest,
    day_of,
    object_of,
    tables,
)

GROUP = "TradingBot"
_TABLES = tables("trading")
_account = object_of(GROUP)
SYMBOLS: Mapping[str, str] = _TABLES.pools["symbols"]
PRICES: Mapping[str, int] = _TABLES.pools["prices"]
_DAYS = [day_of(2024, month, day) for month in range(1, 9) for day in (1, 5, 10, 15, 20, 25)]


def make(request: ScenarioRequest) -> JsonObject:
    """An account with money, some finished and open orders, a watchlist; logged in unless a recipe
    logs in."""
    rng = request.rng
    symbols = [*PRICES, *request.fresh(_TABLES.pools["others"], 2)]
    stocks = {symbol: _quote(PRICES.get(symbol, rng.randint(30, 400)), rng) for symbol in symbols}
    number = rng.randint(20_000, 98_000)
    return {
        "orders": _orders(number, rng.randint(2, 3), stocks, rng),
        "account_info": {
            "account_id": rng.randint(10_000, 99_999),
            "balance": float(rng.randrange(60_000, 150_000, 500)),
            "binding_card": rng.randint(10**15, 10**16 - 1),
        },
        "authenticated": not request.calls("trading_login"),
        "market_status": "Open"
        if request.calls("withdraw_funds") or rng.random() < 0.5
        else "Closed",
        "order_counter": number + 1,
        "stocks": stocks,
        "watch_list": rng.sample(symbols, rng.randint(2, 3)),
        "transaction_history": [_transaction(rng) for _ in range(rng.randint(0, 2))],
    }


def pad(scenario: JsonObject, spoken: frozenset[str], rng: random.Random) -> None:
    """Adds older orders and transactions behind those that are there."""
    oldest = min(int(number) for number in scenario["orders"])
    more = _orders(oldest - 1, 12, scenario["stocks"], rng)
    scenario["orders"] |= without(more, *spoken)
    scenario["transaction_history"] += [_transaction(rng) for _ in range(12)]


def _orders(latest: int, count: int, stocks: JsonMapping, rng: random.Random) -> JsonObject:
    """Completed orders, the latest one first."""
    orders = {}
    for _ in range(count):
        symbol = rng.choice(list(stocks))
        orders[str(latest)] = {
            "id": latest,
            "order_type": rng.choice(("Buy", "Sell")),
            "symbol": symbol,
            "price": stocks[symbol]["price"],
            "amount": rng.randrange(5, 60, 5),
            "status": "Completed",
        }
        latest -= rng.randint(1, 90)
    return orders


def _quote(about: float, rng: random.Random) -> dict[str, float]:
    price = round(about * rng.uniform(0.85, 1.15) + rng.randint(1, 99) / 100, 2)
    if price == int(price):
        price = round(price + 0.35, 2)
    return {
        "price": price,
        "percent_change": rng.randint(-45, 45) / 100 or 0.12,
        "volume": rng.randint(500, 3500) / 1000,
        "MA(5)": round(price * rng.uniform(0.995, 1.005), 2),
        "MA(20)": round(price * rng.uniform(0.99, 1.01), 2),
    }


def _transaction(rng: random.Random) -> JsonObject:
    day = f"2024-{rng.randint(1, 8):02d}-{rng.randint(1, 28):02d}"
    time = f"{rng.randint(9, 17):02d}:{rng.randint(0, 59):02d}:00"
    return {
        "type": rng.choice(("deposit", "withdrawal")),
        "amount": float(rng.randrange(200, 5000, 50)),
        "timestamp": f"{day} {time}",
    }


def _balance(scene: Scene) -> float:
    balance: float = _account(scene)["account_info"]["balance"]
    return balance


def _symbol(scene: Scene) -> str | None:
    """The stock that the recipe is about, where that is known already."""
    if "company" in scene.chosen:
        return SYMBOLS.get(scene.chosen["company"])
    symbol = scene.chosen.get("symbol", scene.chosen.get("stock"))
    return str(symbol) if symbol is not None else None


def _price(scene: Scene) -> float:
    """Its price; the highest there is where the stock is not known yet."""
    stocks = _account(scene)["stocks"]
    own = stocks.get(_symbol(scene))
    price: float = own["price"] if own else max(stock["price"] for stock in stocks.values())
    return price


def _shares(scene: Scene) -> list[int]:
    most = _balance(scene) / (_price(scene) * 1.1)
    return [count for count in (*range(5, 100, 5), 12, 18, 24, 36, 120, 150) if count <= most] or [
        1,
        2,
        3,
    ]


def _bids(scene: Scene) -> list[float]:
    """Prices near the present one, as people name them."""
    price = _price(scene)
    step = 1 if price < 100 else 5
    near = sorted(
        {round(price * factor / step) * step for factor in (0.92, 0.95, 0.97, 1, 1.02, 1.04)}
    )
    return [bid for bid in near if bid > 0] + [round(price * 0.99, 2)]


def _unwatched(scene: Scene) -> list[str]:
    record = _account(scene)
    return [symbol for symbol in record["stocks"] if symbol not in record["watch_list"]]


DOMAINS: Mapping[str, Domain] = {
    "symbol": lambda scene: list(_account(scene)["stocks"]),
    "other_symbol": lambda scene: [
        symbol for symbol in _account(scene)["stocks"] if symbol != scene.chosen.get("symbol")
    ],
    "watched": lambda scene: list(_account(scene)["watch_list"]),
    "unwatched": _unwatched,
    "company": lambda scene: [
        name for name, code in SYMBOLS.items() if code in _account(scene)["stocks"]
    ],
    "unwatched_company": lambda scene: [
        name for name, code in SYMBOLS.items() if code in _unwatched(scene)
    ],
    "basket": lambda scene: [
        list(three) for three in itertools.combinations(list(_account(scene)["stocks"])[::2], 3)
    ],
    "high": lambda scene: [
        high for high in range(150, 900, 50) if high >= scene.chosen.get("low", 0) + 100
    ],
    "shares": _shares,
    "bid": _bids,
    "deposit": lambda scene: range(250, 9001, 250),
    "withdrawal": lambda scene: [
        amount for amount in range(250, 9001, 250) if amount < _balance(scene) / 4
    ],
    "order_number": lambda scene: [
        int(number) for number in scene.state["config"][GROUP]["orders"]
    ],
    "trader": lambda scene: [
        f"{name.lower()}_{word}" for name in FIRST_NAMES for word in ("trades", "invest")
    ],
    "start": lambda scene: _DAYS,
    "end": lambda scene: (
        [day for day in _DAYS if str(day.value) > str(scene.chosen.get("start", ""))]
        or [day_of(2024, 8, 31)]
    ),
}
TRADING = ClassCatalogue(GROUP, _TABLES, DOMAINS, make, pad)
