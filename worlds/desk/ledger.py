"""Ledger: accounts that hold money and bills to pay."""

from __future__ import annotations

from typing import Any

from worlds.desk.pools import MAX_BALANCE, MAX_MONEY
from worlds.desk.registry import MAX_ENTRIES, Refused, State, text, tool, whole

ACCOUNT = text("account")
AMOUNT = whole("amount", 1, MAX_MONEY)
BILL = text("id, as i12")
VENDOR = text("vendor")


@tool("ledger", "Look up the balance of an account.", account=ACCOUNT)
def get_balance(state: State, account: str) -> dict[str, Any]:
    return {"balance": _balance(state, account)}


@tool(
    "ledger",
    "Move money between accounts.",
    amount=AMOUNT,
    source=text("from account"),
    target=text("to account"),
)
def transfer_money(state: State, amount: int, source: str, target: str) -> dict[str, Any]:
    if source == target:
        raise Refused("same account")
    _room(state, target, amount)
    _take(state, source, amount)
    state["ledger"]["accounts"][target] += amount
    return {"ok": True}


@tool("ledger", "Put new money into an account.", account=ACCOUNT, amount=AMOUNT)
def add_income(state: State, account: str, amount: int) -> dict[str, Any]:
    _room(state, account, amount)
    state["ledger"]["accounts"][account] += amount
    return {"ok": True}


@tool("ledger", "Spend money from an account.", account=ACCOUNT, amount=AMOUNT)
def add_expense(state: State, account: str, amount: int) -> dict[str, Any]:
    _take(state, account, amount)
    return {"ok": True}


@tool("ledger", "Look up the open bill of a vendor.", vendor=VENDOR)
def find_bill(state: State, vendor: str) -> dict[str, Any]:
    for number, bill in sorted(state["ledger"]["bills"].items()):
        if bill["vendor"] == vendor and not bill["paid"]:
            return {"bill": number, "amount": bill["amount"]}
    raise Refused("no such bill")


@tool("ledger", "Enter a new bill of a vendor.", vendor=VENDOR, amount=AMOUNT)
def add_bill(state: State, vendor: str, amount: int) -> dict[str, Any]:
    ledger = state["ledger"]
    if len(ledger["bills"]) >= MAX_ENTRIES:
        raise Refused("too many bills")
    number = f"i{ledger['next']}"
    ledger["next"] += 1
    ledger["bills"][number] = {"vendor": vendor, "amount": amount, "paid": False}
    return {"bill": number}


@tool("ledger", "Pay a bill from an account.", bill=BILL, account=ACCOUNT)
def pay_bill(state: State, bill: str, account: str) -> dict[str, Any]:
    found = state["ledger"]["bills"].get(bill)
    if found is None:
        raise Refused("no such bill")
    if found["paid"]:
        raise Refused("bill paid")
    _take(state, account, found["amount"])
    found["paid"] = True
    return {"ok": True}


def _balance(state: State, account: str) -> int:
    balance: int | None = state["ledger"]["accounts"].get(account)
    if balance is None:
        raise Refused("no such account")
    return balance


def _room(state: State, account: str, amount: int) -> None:
    if _balance(state, account) + amount > MAX_BALANCE:
        raise Refused("too much money")


def _take(state: State, account: str, amount: int) -> None:
    if _balance(state, account) < amount:
        raise Refused("not enough money")
    state["ledger"]["accounts"][account] -= amount
