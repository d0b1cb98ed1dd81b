"""What each tool may change: nothing, its object, or (file system) where it stands, directories, or files.

Objects are shared between worlds until something is written, so a tool counts as writing unless it stands here. A test
runs every reading tool and finds its object unchanged. `get_flight_cost` leaves scratch behind that nobody reads.
"""

from __future__ import annotations

from enum import IntEnum


class Effect(IntEnum):
    NOTHING = 0
    OBJECT = 1  # any attribute of a plain object
    PLACE = 2  # the file system's current directory
    DIRECTORIES = 3
    FILES = 4  # the content of a file, and with it directories


READING = frozenset(
    # GorillaFileSystem
    "pwd ls cat find wc sort grep du tail diff "
    # MathAPI
    "logarithm mean standard_deviation si_unit_conversion imperial_si_conversion add subtract multiply divide power "
    "square_root absolute_value round_number percentage min_value max_value sum_values "
    # MessageAPI
    "list_users get_user_id message_get_login_status view_messages_sent search_messages get_message_stats "
    # TwitterAPI
    "posting_get_login_status list_all_following get_tweet get_user_tweets search_tweets get_tweet_comments "
    "get_user_stats "
    # TicketAPI
    "get_ticket ticket_get_login_status get_user_tickets "
    # TradingBot
    "get_current_time get_symbol_by_name get_stock_info get_order_details get_account_info trading_get_login_status "
    "get_watchlist get_order_history get_transaction_history get_available_stocks filter_stocks_by_price "
    "notify_price_change "
    # TravelAPI
    "travel_get_login_status get_budget_fiscal_year get_flight_cost get_credit_card_balance retrieve_invoice "
    "get_booking_history list_all_airports compute_exchange_rate verify_traveler_information "
    "get_nearest_airport_by_city contact_customer_support get_all_credit_cards "
    # VehicleControlAPI
    "displayCarStatus display_log estimate_drive_feasibility_by_mileage liter_to_gallon gallon_to_liter "
    "estimate_distance get_zipcode_based_on_city check_tire_pressure find_nearest_tire_shop "
    "get_outside_temperature_from_weather_com".split()
)
SCRATCH = frozenset({"_flight_cost_lookup"})
FILE_SYSTEM = "GorillaFileSystem"


def effect_of(group: str, tool: str) -> Effect:
    if tool in READING:
        return Effect.NOTHING
    if group != FILE_SYSTEM:
        return Effect.OBJECT
    return {"cd": Effect.PLACE, "echo": Effect.FILES}.get(tool, Effect.DIRECTORIES)
