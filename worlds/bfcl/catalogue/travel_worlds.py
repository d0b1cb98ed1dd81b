"""New states of the travel account, and what may be chosen in one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from rods.composing.catalogue import Domain, Scene, Worded
from worlds.bfcl.catalogue import pools
from worlds.bfcl.catalogue.notation import Wish

GROUP = "TravelAPI"
AIRPORTS = {  # by the cities that the class knows
    "Rivermist": "RMS",
    "Stonebrook": "SBK",
    "Maplecrest": "MPC",
    "Silverpine": "SVP",
    "Shadowridge": "SHD",
    "Sunset Valley": "SSV",
    "Oakendale": "OKD",
    "Willowbend": "WLB",
    "Crescent Hollow": "CRH",
    "Autumnville": "ATV",
    "Pinehaven": "PHV",
    "Greenfield": "GFD",
    "San Francisco": "SFO",
    "Los Angeles": "LAX",
    "New York": "JFK",
    "Chicago": "ORD",
    "Boston": "BOS",
}
_IN_ORDER = ("RMS", "SBK", "MPC", "SVP", "SHD", "SSV", "OKD", "WLB", "CRH", "ATV", "PHV", "GFD")
# From each of these airports one can fly to those after it in `_IN_ORDER`; from the five large ones to nearly all.
ROUTES: Mapping[str, tuple[str, ...]] = {
    **{code: _IN_ORDER[index + 1 :] for index, code in enumerate(_IN_ORDER[:-1])},
    "SFO": ("LAX", "JFK", "ORD", "BOS", *_IN_ORDER),
    "LAX": ("SFO", "JFK", "ORD", "BOS", *_IN_ORDER),
    "JFK": ("LAX", "ORD", "BOS", *_IN_ORDER),
    "ORD": ("LAX", "BOS", *_IN_ORDER),
    "BOS": _IN_ORDER,
}
CURRENCIES = {  # how people call them, and how many make 100 US dollars
    "RMB": ("Chinese yuan", 700),
    "EUR": ("euros", 80),
    "JPY": ("yen", 11_000),
    "GBP": ("British pounds", 70),
    "CAD": ("Canadian dollars", 130),
    "AUD": ("Australian dollars", 140),
    "INR": ("rupees", 7_000),
    "MXN": ("pesos", 2_000),
}
SUPPORT = (
    "I need a seat near the aisle",
    "Please add a vegetarian meal",
    "My bag is over the weight limit",
    "I will travel with a small dog",
    "The name on my ticket is misspelled",
    "I want to bring my cello on board",
    "I would like to change the departure time",
    "Please confirm that the flight is not overbooked",
    "I need help with a wheelchair",
    "My passport was renewed last week",
    "I was charged twice for this trip",
    "I would prefer an earlier connection",
)


def make(wish: Wish) -> dict[str, Any]:
    """An account with cards and bookings; signed in unless a recipe signs in."""
    rng = wish.rng
    first, last = wish.fresh(pools.FIRST_NAMES)[0], wish.fresh(pools.LAST_NAMES)[0]
    signed_in = not wish.calls("authenticate_travel")
    cards = _cards(f"{first} {last}", rng.randint(2, 3), rng)
    bookings = _bookings(list(cards), rng.randint(1, 2), rng)
    return {
        "credit_card_list": cards,
        "booking_record": bookings,
        "access_token": f"{rng.choice(_TOKENS)}{rng.randint(1000, 9999)}" if signed_in else None,
        "token_type": "Bearer" if signed_in else None,
        "token_expires_in": 3600 if signed_in else None,
        "token_scope": "read_write" if signed_in else None,
        "user_first_name": first,
        "user_last_name": last,
        "budget_limit": None,
        "random_seed": rng.randint(10_000, 999_999),
    }


def pad(scenario: dict[str, Any], spoken: frozenset[str], rng: random.Random) -> None:
    """Adds cards and bookings to the scenario."""
    cards = scenario["credit_card_list"]
    holder = next(iter(cards.values()))["cardholder_name"]
    cards |= {name: card for name, card in _cards(holder, 6, rng).items() if name not in cards and name not in spoken}
    more = _bookings(list(cards), 8, rng)
    scenario["booking_record"] |= {number: one for number, one in more.items() if number not in spoken}


def _cards(holder: str, count: int, rng: random.Random) -> dict[str, Any]:
    cards: dict[str, Any] = {}
    for _ in range(count):
        number = rng.randint(10**15, 10**16 - 1)
        cards[f"{rng.choice(('card', 'visa', 'travel', 'bank'))}_{number % 10_000:04d}"] = {
            "card_number": str(number),
            "cardholder_name": holder,
            "expiry_date": f"{rng.randint(1, 12):02d}/{rng.randint(27, 31)}",
            "cvv": rng.randint(100, 999),
            "balance": float(rng.randrange(42_000, 95_000, 500)),
        }
    return cards


def _bookings(cards: Sequence[str], count: int, rng: random.Random) -> dict[str, Any]:
    bookings: dict[str, Any] = {}
    for _ in range(count):
        start = rng.choice(list(ROUTES))
        bookings[str(rng.randint(1_000_000, 9_999_999))] = {
            "card_id": rng.choice(cards),
            "travel_date": rng.choice(_dates()).value,
            "travel_from": start,
            "travel_to": rng.choice(ROUTES[start]),
            "travel_class": rng.choice(("economy", "business")),
            "travel_cost": float(rng.randrange(200, 1100, 10)),
            "transaction_id": str(rng.randint(10_000_000, 99_999_999)),
        }
    return bookings


_TOKENS = ("tkn", "trv", "pass", "key", "acc", "sess")


def account(state: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = state.get("objects", {}).get(GROUP) or state["config"][GROUP]
    return found


def _dates() -> list[Worded]:
    return [
        Worded(f"2026-{month:02d}-{day:02d}", f"{pools.MONTHS[month - 1]} {day}, 2026")
        for month in range(4, 13)
        for day in (2, 7, 11, 14, 18, 21, 26, 28)
    ]


def _birthdays() -> list[Worded]:
    return [
        Worded(f"{year}-{month:02d}-{day:02d}", f"{pools.MONTHS[month - 1]} {day}, {year}")
        for year in range(1958, 2001, 3)
        for month, day in ((1, 17), (3, 4), (5, 22), (8, 9), (10, 30), (12, 6))
    ]


def _reachable(codes: Sequence[str], start: Any) -> list[str]:
    return [code for code in codes if code in ROUTES.get(start, ())]


def _city_of(code: Any) -> str | None:
    return next((city for city, airport in AIRPORTS.items() if airport == code), None)


def _cities_on(scene: Scene) -> list[str]:
    """Cities that can be reached from where the recipe starts."""
    start = AIRPORTS.get(str(scene.chosen.get("city"))) or scene.chosen.get("start") or scene.chosen.get("airport")
    return [city for city, code in AIRPORTS.items() if code in ROUTES.get(str(start), ())]


def _goals(scene: Scene) -> list[str]:
    start = AIRPORTS.get(str(scene.chosen.get("city"))) or scene.chosen.get("start") or scene.chosen.get("airport")
    return list(ROUTES.get(str(start), ()))


def _cities(scene: Scene) -> list[str]:
    """Cities to start from, reaching the chosen destination where there is one already."""
    goal = scene.chosen.get("goal")
    return [city for city, code in AIRPORTS.items() if code in ROUTES and (goal is None or goal in ROUTES[code])]


def _foreign_sums(scene: Scene) -> list[int]:
    """Sums of the chosen currency, worth 1,000 to 9,000 US dollars."""
    _, hundred = CURRENCIES[scene.chosen["currency"]]
    return [hundred * number for number in range(10, 90, 3)]


def _given(scene: Scene, name: str) -> list[str]:
    """Ids that were there from the start, and are still: nobody reads out those that came in the conversation."""
    now = account(scene.state)[name]
    return [each for each in scene.state["config"][GROUP][name] if each in now]


def _card_numbers(scene: Scene) -> list[str]:
    return [str(4_000_000_000_000_000 + 7_919_237_711 * number) for number in range(1, 60)]


def _first_names(scene: Scene) -> list[str]:
    return [account(scene.state)["user_first_name"]]


def _last_names(scene: Scene) -> list[str]:
    return [account(scene.state)["user_last_name"]]


DOMAINS: Mapping[str, Domain] = {
    "token": lambda scene: [account(scene.state)["access_token"]],
    "card": lambda scene: _given(scene, "credit_card_list"),
    "airport": lambda scene: list(ROUTES),
    "goal": _goals,
    "city": _cities,
    "any_city": lambda scene: list(AIRPORTS),
    "city_on": _cities_on,
    "flight_date": lambda scene: _dates(),
    "cabin": lambda scene: ("economy", "business", "first"),
    "old_booking": lambda scene: _given(scene, "booking_record"),
    "budget": lambda scene: range(1500, 12_001, 250),
    "currency": lambda scene: [Worded(code, words) for code, (words, _) in CURRENCIES.items()],
    "sum": lambda scene: range(500, 9501, 250),
    "foreign_sum": _foreign_sums,
    "premium": lambda scene: range(60, 401, 20),
    "cover": lambda scene: ("comprehensive", "basic", "medical", "cancellation"),
    "support": lambda scene: SUPPORT,
    "client": lambda scene: [f"client_{number}" for number in range(120, 980, 37)],
    "secret": lambda scene: [
        f"{word}_{number}" for word in ("amber", "basil", "cedar", "delta") for number in range(31, 99, 7)
    ],
    "refresh": lambda scene: [f"refresh{number}" for number in range(40_111, 99_999, 5_417)],
    "grant": lambda scene: ("read_write", "read", "write"),
    "first_name": _first_names,
    "last_name": _last_names,
    "birthday": lambda scene: _birthdays(),
    "passport": lambda scene: [f"US{number}" for number in range(204_117, 990_000, 31_813)],
    "new_card": _card_numbers,
    "holder": lambda scene: [f"{first} {last}" for first in pools.FIRST_NAMES[:12] for last in pools.LAST_NAMES[:5]],
    "expiry": lambda scene: [f"{month:02d}/{year}" for month in range(1, 13) for year in (2028, 2029, 2030)],
    "cvv": lambda scene: range(214, 990, 13),
}
