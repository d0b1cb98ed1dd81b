"""Desk's checks: what goals ask of the state in which an episode leaves its world (`goal.checks`).

Each answers true or false and changes nothing. What it asks about need not be there: then it does not hold.
"""

from __future__ import annotations

from worlds.desk.pools import MAX_BALANCE
from worlds.desk.registry import State, goal_check, whole
from worlds.desk.tools import ACCOUNT, ADDRESS, BILL, DAY, FILE, HOUR, NAME, TITLE


@goal_check("A contact has this address.", name=NAME, address=ADDRESS)
def contact_has_address(state: State, name: str, address: str) -> bool:
    return bool(state["contacts"].get(name, {}).get("address") == address)


@goal_check("An event of this title begins at this day and hour.", title=TITLE, day=DAY, hour=HOUR)
def event_is_at(state: State, title: str, day: str, hour: int) -> bool:
    wanted = (title, day, hour)
    return any((one["title"], one["day"], one["hour"]) == wanted for one in state["calendar"]["events"].values())


@goal_check("A file of this name exists.", file=FILE)
def file_exists(state: State, file: str) -> bool:
    return file in state["files"]


@goal_check("An account holds exactly this much.", account=ACCOUNT, amount=whole("amount", 0, MAX_BALANCE))
def account_holds(state: State, account: str, amount: int) -> bool:
    return bool(state["ledger"]["accounts"].get(account) == amount)


@goal_check("A bill is paid.", bill=BILL)
def bill_is_paid(state: State, bill: str) -> bool:
    return bool(state["ledger"]["bills"].get(bill, {}).get("paid", False))
