"""The error critic of BFCL's worlds: each fix of 004 Appendix C.2, tried out on a call that was
refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rods.calls import Call
from rods.composing import bind
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError
from rods.worlds.bfcl import environment, fetch
from tests.environments import load

TRIP = {
    "card_id": "1234",
    "travel_date": "2025-03-01",
    "travel_from": "SFO",
    "travel_to": "LAX",
    "travel_class": "economy",
    "access_token": "abc",
}
CARD = {
    "card_number": "4111",
    "expiration_date": "12/2028",
    "cardholder_name": "Ann",
    "card_verification_number": 1,
}
TRAVEL = {
    "access_token": "abc",
    "token_type": "Bearer",
    "token_expires_in": 600,
    "token_scope": "read_write",
}
ORDER = {
    "id": 7,
    "order_type": "Buy",
    "symbol": "AAPL",
    "price": 9.0,
    "amount": 1,
    "status": "Completed",
}
MONEY = {"account_id": 1, "balance": 10.0, "binding_card": 2}
BUY = Call("place_order", {"order_type": "Buy", "symbol": "AAPL", "price": 50.0, "amount": 10})
CASES: dict[str, tuple[str, dict[str, Any], Call]] = {
    "a balance too low to buy": ("TradingBot", {"account_info": MONEY, "authenticated": True}, BUY),
    "nobody logged in to trade": ("TradingBot", {"authenticated": False}, Call("get_account_info")),
    "the market closed": (
        "TradingBot",
        {
            "authenticated": True,
            "market_status": "Closed",
            "account_info": {**MONEY, "balance": 900.0},
        },
        Call("withdraw_funds", {"amount": 5.0}),
    ),
    "an order completed already": (
        "TradingBot",
        {"orders": {"7": ORDER}},
        Call("cancel_order", {"order_id": 7}),
    ),
    "no such order": (
        "TradingBot",
        {"orders": {"7": ORDER}},
        Call("cancel_order", {"order_id": 8}),
    ),
    "a card without money": (
        "TravelAPI",
        {**TRAVEL, "credit_card_list": {"1234": {**CARD, "balance": 1.0}}},
        Call("book_flight", TRIP),
    ),
    "a session that ran out": (
        "TravelAPI",
        {
            **TRAVEL,
            "token_expires_in": 0,
            "credit_card_list": {"1234": {**CARD, "balance": 50_000.0}},
        },
        Call("book_flight", TRIP),
    ),
    "nobody logged in to post": (
        "TwitterAPI",
        {"authenticated": False},
        Call("post_tweet", {"content": "Hello."}),
    ),
    "nobody logged in to write": (
        "MessageAPI",
        {"user_map": {"Ann": "USR001", "Ben": "USR002"}, "inbox": []},
        Call("send_message", {"receiver_id": "USR002", "message": "Hello."}),
    ),
    "nobody logged in to a ticket desk": (
        "TicketAPI",
        {
            "ticket_queue": [
                {"id": 1, "title": "Lamp", "created_by": "Ann", "status": "Open", "priority": 1}
            ]
        },
        Call("create_ticket", {"title": "Lamp again"}),
    ),
    "an empty tank": (
        "VehicleControlAPI",
        {
            "fuelLevel": -1.0,  # the benchmark starts an engine on the last drop
            "doorStatus": dict.fromkeys(
                ("driver", "passenger", "rear_left", "rear_right"), "locked"
            ),
            "remainingUnlockedDoors": 0,
            "brakePedalStatus": "pressed",
            "brakePedalForce": 1000.0,
        },
        Call("startEngine", {"ignitionMode": "START"}),
    ),
    "a tank too full": (
        "VehicleControlAPI",
        {"fuelLevel": 48.0},
        Call("fillFuelTank", {"fuelAmount": 10.0}),
    ),
}


@pytest.fixture(scope="module")
def book() -> Catalogue:
    fetch()
    return environment().catalogue()


@pytest.mark.parametrize("case", CASES)
def test_what_was_refused_succeeds_in_the_mended_world(book: Catalogue, case: str) -> None:
    group, scenario, call = CASES[case]
    state = {"classes": [group], "config": {group: scenario}, "long_context": False}
    before = load("bfcl").reset(state).call(call)
    assert before.error == "tool", before
    error = ComposeError("vm_exec_failed", before.text, function=call.name, call=call)
    mended = bind.repair(book, state, error, random.Random(0))
    assert mended is not None and mended != state
    after = load("bfcl").reset(mended).call(call)
    assert after.error is None, after


def test_where_no_scenario_is_the_reason_nothing_is_changed(book: Catalogue) -> None:
    state = {
        "classes": ["TradingBot"],
        "config": {"TradingBot": {"authenticated": True}},
        "long_context": False,
    }
    call = Call("get_stock_info", {"symbol": "NONE"})
    error = ComposeError(
        "vm_exec_failed", load("bfcl").reset(state).call(call).text, function=call.name, call=call
    )
    assert bind.repair(book, state, error, random.Random(0)) is None
    assert bind.repair(book, state, ComposeError("decompose_failed", "x"), random.Random(0)) is None
