"""The error critic of a world without a model: what to change in a scenario so that a refused call succeeds.

These are the fixes that 004 Appendix C.2 names: money, login, market status, open orders, fuel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rods.calls import Call

RICH = 200_000.0  # more than any purchase of a plan
FULL, LOW = 25.0, 5.0  # gallons in a tank of 50
EXPIRES = 3_600  # seconds that a session of the travel agency lasts


def patch_of(group: str, scenario: Mapping[str, Any], call: Call, detail: str) -> dict[str, Any] | None:
    """What to merge into the `scenario` of API class `group`, whose tool refused `call` in the words `detail`; None
    where nothing in the scenario would help."""
    patch = _PATCHES.get(group)
    return patch(scenario, call.arguments, detail) if patch is not None else None


def _trading(scenario: Mapping[str, Any], arguments: Mapping[str, Any], detail: str) -> dict[str, Any] | None:
    number = str(arguments.get("order_id"))
    if "not authenticated" in detail:
        return {"authenticated": True}
    if "Market is closed" in detail:
        return {"market_status": "Open"}
    if "Insufficient" in detail and "account_info" in scenario:
        return {"account_info": {"balance": RICH}}
    if "already completed" in detail and number in scenario.get("orders", {}):
        return {"orders": {number: {"status": "Open"}}}
    if "Order with ID" in detail and scenario.get("orders") and number.isdigit():
        like = next(iter(scenario["orders"].values()))
        return {"orders": {number: {**like, "id": int(number), "status": "Open"}}}
    return None


def _travel(scenario: Mapping[str, Any], arguments: Mapping[str, Any], detail: str) -> dict[str, Any] | None:
    card = arguments.get("card_id")
    if "Token expired" in detail or "Token not initialized" in detail:
        token = {} if scenario.get("access_token") else {"access_token": arguments.get("access_token", "")}
        return {**token, "token_expires_in": EXPIRES}
    if "Insufficient funds" in detail or "Balance is less" in detail:
        return {"credit_card_list": {card: {"balance": RICH}}} if card in scenario.get("credit_card_list", {}) else None
    return None


def _social(scenario: Mapping[str, Any], arguments: Mapping[str, Any], detail: str) -> dict[str, Any] | None:
    return {"authenticated": True} if "not authenticated" in detail else None


def _messages(scenario: Mapping[str, Any], arguments: Mapping[str, Any], detail: str) -> dict[str, Any] | None:
    users = scenario.get("user_map", {})
    return {"current_user": next(iter(users.values()))} if "currently logged in" in detail and users else None


def _tickets(scenario: Mapping[str, Any], arguments: Mapping[str, Any], detail: str) -> dict[str, Any] | None:
    makers = [ticket.get("created_by") for ticket in scenario.get("ticket_queue", ()) if ticket.get("created_by")]
    return {"current_user": makers[0]} if "not authenticated" in detail and makers else None


def _vehicle(scenario: Mapping[str, Any], arguments: Mapping[str, Any], detail: str) -> dict[str, Any] | None:
    if "Fuel tank is empty" in detail:
        return {"fuelLevel": FULL}
    return {"fuelLevel": LOW} if "above the tank capacity" in detail else None


_PATCHES = {
    "TradingBot": _trading,
    "TravelAPI": _travel,
    "TwitterAPI": _social,
    "MessageAPI": _messages,
    "TicketAPI": _tickets,
    "VehicleControlAPI": _vehicle,
}
