"""What each tool may change of its object, so that worlds can share everything else.

An object is shared between worlds until something is written. A reading tool needs no copy. A writing tool gets an
object of the world's own, in which the attributes that the tool changes *in place* are copies too (rebinding an
attribute needs none); a name ending in `*` means that only its top level is changed (something is added or removed),
`cards[card_id]` that the entry named by that argument has something rebound besides, `cards[]` any entry. A tool that
stands in neither table gets a full copy. A test runs every tool and finds what it was not to change unchanged.
`get_flight_cost` leaves scratch behind that nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping

FILE_SYSTEM = "GorillaFileSystem"
SCRATCH = frozenset({"_flight_cost_lookup"})

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
