"""What each tool may change of its object, and how a world comes to own just that, with everything else shared.

An object is shared between worlds until something is written. A reading tool (`READING`) needs no copy. A writing tool
gets an object of the world's own, in which the attributes that the tool changes *in place* (`CHANGED_IN_PLACE`) are
copies too; rebinding an attribute needs none. A name that ends in `*` has only its top level changed (something is
added or removed); `cards[card_id]`: the entry named by that argument has something rebound besides; `cards[]`: any.
A tool that stands in neither table gets a full copy. A test runs every tool and finds what it was not to change
unchanged.

A `Take` copies one part of an API object, unless the world owns that part already: `owned` is what the world owns of
the object, and is kept up to date. The object itself must be the world's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from worlds.bfcl.copies import copy_plain
from worlds.bfcl.trees import copy_tree, own_file

FILE_SYSTEM = "GorillaFileSystem"
SCRATCH = frozenset({"_flight_cost_lookup"})  # left behind by get_flight_cost and read by nobody

_READING: Mapping[str, str] = {
    "GorillaFileSystem": "pwd ls cat find wc sort grep du tail diff",
    "MathAPI": (
        "logarithm mean standard_deviation si_unit_conversion imperial_si_conversion add subtract multiply divide "
        "power square_root absolute_value round_number percentage min_value max_value sum_values"
    ),
    "MessageAPI": (
        "list_users get_user_id message_get_login_status view_messages_sent search_messages get_message_stats"
    ),
    "TwitterAPI": (
        "posting_get_login_status list_all_following get_tweet get_user_tweets search_tweets get_tweet_comments "
        "get_user_stats"
    ),
    "TicketAPI": "get_ticket ticket_get_login_status get_user_tickets",
    "TradingBot": (
        "get_current_time get_symbol_by_name get_stock_info get_order_details get_account_info "
        "trading_get_login_status get_watchlist get_order_history get_transaction_history get_available_stocks "
        "filter_stocks_by_price notify_price_change"
    ),
    "TravelAPI": (
        "travel_get_login_status get_budget_fiscal_year get_flight_cost get_credit_card_balance retrieve_invoice "
        "get_booking_history list_all_airports compute_exchange_rate verify_traveler_information "
        "get_nearest_airport_by_city contact_customer_support get_all_credit_cards"
    ),
    "VehicleControlAPI": (
        "displayCarStatus display_log estimate_drive_feasibility_by_mileage liter_to_gallon gallon_to_liter "
        "estimate_distance get_zipcode_based_on_city check_tire_pressure find_nearest_tire_shop "
        "get_outside_temperature_from_weather_com"
    ),
}
READING = frozenset(name for names in _READING.values() for name in names.split())

# The file system's directories are no attribute: they are copied as a graph, the written file with them.
DIRECTORIES = "directories"
FILE = "file"
EVERYTHING = "everything"

CHANGED_IN_PLACE: Mapping[str, tuple[str, ...]] = {
    "cd": (),
    **dict.fromkeys(("mkdir", "touch", "mv", "cp", "rm", "rmdir"), (DIRECTORIES,)),
    "echo": (DIRECTORIES, FILE),
    "message_login": (),
    "send_message": ("_random", "generated_ids*", "inbox*"),
    "delete_message": ("inbox*",),
    "add_contact": ("user_map*",),
    "authenticate_twitter": (),
    "post_tweet": ("tweets*",),
    "retweet": ("retweets",),
    "comment": ("comments",),
    "mention": ("tweets",),
    "follow_user": ("following_list*",),
    "unfollow_user": ("following_list*",),
    "create_ticket": ("ticket_queue*",),
    **dict.fromkeys(("close_ticket", "resolve_ticket", "edit_ticket"), ("ticket_queue",)),
    "ticket_login": (),
    "logout": (),
    "trading_login": (),
    "trading_logout": (),
    "place_order": ("orders*",),
    "cancel_order": ("orders[order_id]",),
    "fund_account": ("_random", "account_info*", "transaction_history*"),
    "withdraw_funds": ("_random", "account_info*", "transaction_history*"),
    "add_to_watchlist": ("watch_list*",),
    "remove_stock_from_watchlist": ("watch_list*",),
    "authenticate_travel": ("_random",),
    "register_credit_card": ("_random", "credit_card_list*"),
    "book_flight": ("_random", "credit_card_list[card_id]", "booking_record*"),
    "cancel_booking": ("credit_card_list[]", "booking_record*"),
    "purchase_insurance": ("_random", "credit_card_list[card_id]"),
    "set_budget_limit": (),
    "lockDoors": ("doorStatus*",),
    "get_outside_temperature_from_google": ("_random",),
    "get_current_speed": ("_random",),
    **dict.fromkeys(
        ("startEngine", "fillFuelTank", "adjustClimateControl", "setHeadlights", "activateParkingBrake"), ()
    ),
    **dict.fromkeys(("pressBrakePedal", "releaseBrakePedal", "setCruiseControl", "set_navigation"), ()),
}

Take = Callable[[Any, set[str], Mapping[str, Any]], None]


def takes(tool: str) -> tuple[Take, ...]:
    """What has to be taken before a writing tool is called, in this order."""
    return tuple(map(_take, CHANGED_IN_PLACE.get(tool, (EVERYTHING,))))


def _take(effect: str) -> Take:
    if effect == DIRECTORIES:
        return _take_directories
    if effect == FILE:
        return _take_file
    if effect == EVERYTHING:
        return _take_everything
    if effect[-1] == "*":
        return _top(effect[:-1])
    if effect[-1] == "]":
        name, argument = effect[:-1].split("[")
        return _entry(name, argument) if argument else _entries(name)
    return _whole(effect)


def _take_directories(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
    if DIRECTORIES not in owned:
        owned.add(DIRECTORIES)
        copy_tree(target)


def _take_file(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
    own_file(target, arguments.get("file_name"))


def _take_everything(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
    if EVERYTHING not in owned:
        owned.add(EVERYTHING)
        target.__dict__.update(copy_plain(target.__dict__))


def _whole(name: str) -> Take:
    def take(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
        if name not in owned:
            owned.add(name)
            attributes = target.__dict__
            attributes[name] = copy_plain(attributes[name])

    return take


def _top(name: str) -> Take:
    star = f"{name}*"

    def take(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
        if star not in owned:
            owned.add(star)
            if name not in owned:
                attributes = target.__dict__
                attributes[name] = attributes[name].copy()

    return take


def _entry(name: str, argument: str) -> Take:
    top = _top(name)

    def take(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
        if name in owned:
            return
        top(target, owned, arguments)
        held = target.__dict__[name]
        try:
            key = arguments[argument]
            held[key] = held[key].copy()
        except (LookupError, TypeError, AttributeError):  # no such entry, or no key at all: the tool will complain
            return

    return take


def _entries(name: str) -> Take:
    def take(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
        if name not in owned:
            owned.add(name)
            attributes = target.__dict__
            attributes[name] = {key: entry.copy() for key, entry in attributes[name].items()}

    return take
