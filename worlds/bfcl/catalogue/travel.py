"""BFCL's travel account: new states of it, longer ones, and what may be chosen in one."""

import random
from collections.abc import Mapping, Sequence

from rods.canonical import JsonMapping, JsonObject
from rods.composing.catalogue import Domain, Scene, Worded
from rods.worlds.bfcl.catalogue import scenario

GROUP = "TravelAPI"
_TABLES = scenario.tables("travel")
_account = scenario.object_of(GROUP)
AIRPORTS: Mapping[str, str] = _TABLES.pools["airports"]
_IN_ORDER: tuple[str, ...] = _TABLES.pools["airports_in_order"]
_CURRENCIES: JsonMapping = _TABLES.pools["currencies"]

# From each of these airports one can fly to those after it in `_IN_ORDER`; from the five large ones
# to nearly all.
ROUTES: Mapping[str, tuple[str, ...]] = {
    **{code: _IN_ORDER[index + 1 :] for index, code in enumerate(_IN_ORDER[:-1])},
    **{code: (*near, *_IN_ORDER) for code, near in _TABLES.pools["large_airports"].items()},
}


def make(request: scenario.ScenarioRequest) -> JsonObject:
    """An account with cards and bookings; signed in unless a recipe signs in."""
    rng = request.rng
    first = request.fresh(scenario.FIRST_NAMES)[0]
    last = request.fresh(scenario.LAST_NAMES)[0]
    signed_in = not request.calls("authenticate_travel")
    cards = _cards(f"{first} {last}", rng.randint(2, 3), rng)
    bookings = _bookings(list(cards), rng.randint(1, 2), rng)
    return {
        "credit_card_list": cards,
        "booking_record": bookings,
        "access_token": f"{rng.choice(_TABLES.pools['tokens'])}{rng.randint(1000, 9999)}"
        if signed_in
        else None,
        "token_type": "Bearer" if signed_in else None,
        "token_expires_in": 3600 if signed_in else None,
        "token_scope": "read_write" if signed_in else None,
        "user_first_name": first,
        "user_last_name": last,
        "budget_limit": None,
        "random_seed": rng.randint(10_000, 999_999),
    }


def pad(config: JsonObject, spoken: frozenset[str], rng: random.Random) -> None:
    """Adds cards and bookings to the scenario."""
    cards = config["credit_card_list"]
    holder = next(iter(cards.values()))["cardholder_name"]
    cards |= {
        name: card
        for name, card in _cards(holder, 6, rng).items()
        if name not in cards and name not in spoken
    }
    more = _bookings(list(cards), 8, rng)
    config["booking_record"] |= {
        number: booking
        for number, booking in more.items()
        if spoken.isdisjoint((number, booking["travel_to"].lower()))
    }


def _cards(holder: str, count: int, rng: random.Random) -> JsonObject:
    cards: JsonObject = {}
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


def _bookings(cards: Sequence[str], count: int, rng: random.Random) -> JsonObject:
    bookings: JsonObject = {}
    for _ in range(count):
        start = rng.choice(list(ROUTES))
        bookings[str(rng.randint(1_000_000, 9_999_999))] = {
            "card_id": rng.choice(cards),
            "travel_date": rng.choice(_DATES).value,
            "travel_from": start,
            "travel_to": rng.choice(ROUTES[start]),
            "travel_class": rng.choice(("economy", "business")),
            "travel_cost": float(rng.randrange(200, 1100, 10)),
            "transaction_id": str(rng.randint(10_000_000, 99_999_999)),
        }
    return bookings


_DATES = [
    scenario.day_of(2026, month, day)
    for month in range(4, 13)
    for day in (2, 7, 11, 14, 18, 21, 26, 28)
]
_BIRTHDAYS = [
    scenario.day_of(year, month, day)
    for year in range(1958, 2001, 3)
    for month, day in ((1, 17), (3, 4), (5, 22), (8, 9), (10, 30), (12, 6))
]


def _goals(scene: Scene) -> Sequence[str]:
    """Airports that can be reached from where the recipe starts, and to which no flight is booked
    yet: "my flight to GFD" is one."""
    start = (
        AIRPORTS.get(str(scene.chosen.get("city")))
        or scene.chosen.get("start")
        or scene.chosen.get("airport")
    )
    booked = {booking["travel_to"] for booking in _account(scene)["booking_record"].values()}
    return [goal for goal in ROUTES.get(str(start), ()) if goal not in booked]


def _cities(scene: Scene) -> list[str]:
    """Cities to start from, reaching the chosen destination where there is one already."""
    goal = scene.chosen.get("goal")
    return [
        city
        for city, code in AIRPORTS.items()
        if code in ROUTES and (goal is None or goal in ROUTES[code])
    ]


def _foreign_sums(scene: Scene) -> list[int]:
    """Sums of the chosen currency, worth 1,000 to 9,000 US dollars."""
    hundred = _CURRENCIES[scene.chosen["currency"]]["hundred_dollars"]
    return [hundred * number for number in range(10, 90, 3)]


def _holders(scene: Scene) -> list[str]:
    """The user, and the user's family."""
    account = _account(scene)
    names = dict.fromkeys([account["user_first_name"], *scenario.FIRST_NAMES[:11]])
    return [f"{first} {account['user_last_name']}" for first in names]


def _ids_in(scene: Scene, name: str) -> list[str]:
    """Ids that were there from the start, and are still: nobody reads out those that came in the
    conversation."""
    now = _account(scene)[name]
    return [key for key in scene.state["config"][GROUP][name] if key in now]


DOMAINS: Mapping[str, Domain] = {
    "token": lambda scene: [_account(scene)["access_token"]],
    "card": lambda scene: _ids_in(scene, "credit_card_list"),
    "airport": lambda scene: list(ROUTES),
    "goal": _goals,
    "city": _cities,
    "any_city": lambda scene: list(AIRPORTS),
    "city_on": lambda scene: [city for city, code in AIRPORTS.items() if code in _goals(scene)],
    "flight_date": lambda scene: _DATES,
    "old_booking": lambda scene: _ids_in(scene, "booking_record"),
    "budget": lambda scene: range(1500, 12_001, 250),
    "currency": lambda scene: [
        Worded(code, currency["words"]) for code, currency in _CURRENCIES.items()
    ],
    "sum": lambda scene: range(500, 9501, 250),
    "foreign_sum": _foreign_sums,
    "client": lambda scene: [f"client_{number}" for number in range(120, 980, 37)],
    "secret": lambda scene: [
        f"{word}_{number}" for word in _TABLES.pools["secrets"] for number in range(31, 99, 7)
    ],
    "refresh": lambda scene: [f"refresh{number}" for number in range(40_111, 99_999, 5_417)],
    "first_name": lambda scene: [_account(scene)["user_first_name"]],
    "last_name": lambda scene: [_account(scene)["user_last_name"]],
    "birthday": lambda scene: _BIRTHDAYS,
    "passport": lambda scene: [f"US{number}" for number in range(204_117, 990_000, 31_813)],
    "new_card": lambda scene: [
        str(4_000_000_000_000_000 + 7_919_237_711 * number) for number in range(1, 60)
    ],
    "holder": _holders,
    "expiry": lambda scene: [
        f"{month:02d}/{year}" for month in range(1, 13) for year in (2028, 2029, 2030)
    ],
    "cvv": lambda scene: range(214, 990, 13),
}
TRAVEL = scenario.ClassCatalogue(GROUP, _TABLES, DOMAINS, make, pad)
