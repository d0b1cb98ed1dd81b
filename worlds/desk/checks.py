"""Desk's checks: what goals ask of the state in which an episode leaves its world (`goal.checks`).

Each answers true or false and changes nothing. What it asks about need not be there: then it does not hold. `brought`
says a change of the state in checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from rods.calls import Call
from worlds.desk.pools import MAX_BALANCE
from worlds.desk.registry import State, goal_check, whole
from worlds.desk.tools import (
    ACCOUNT,
    ADDRESS,
    AMOUNT,
    BILL,
    DAY,
    FILE,
    FOLDER,
    HOUR,
    NAME,
    ROOM,
    SUBJECT,
    TEAM,
    TEXT,
    TITLE,
    VENDOR,
)


@goal_check("A contact has this address.", name=NAME, address=ADDRESS)
def contact_has_address(state: State, name: str, address: str) -> bool:
    return bool(state["contacts"].get(name, {}).get("address") == address)


@goal_check("A contact is in this team.", name=NAME, team=TEAM)
def contact_is_in(state: State, name: str, team: str) -> bool:
    return bool(state["contacts"].get(name, {}).get("team") == team)


@goal_check("An event of this title begins at this day and hour.", title=TITLE, day=DAY, hour=HOUR)
def event_is_at(state: State, title: str, day: str, hour: int) -> bool:
    wanted = (title, day, hour)
    return any((one["title"], one["day"], one["hour"]) == wanted for one in state["calendar"]["events"].values())


@goal_check("An event of this title has this room.", title=TITLE, room=ROOM)
def event_has_room(state: State, title: str, room: str) -> bool:
    return any((one["title"], one["room"]) == (title, room) for one in state["calendar"]["events"].values())


@goal_check("An event of this title has this guest.", title=TITLE, address=ADDRESS)
def event_has_guest(state: State, title: str, address: str) -> bool:
    return any(one["title"] == title and address in one["guests"] for one in state["calendar"]["events"].values())


@goal_check("A mail with this subject and text was sent to this address.", address=ADDRESS, subject=SUBJECT, text=TEXT)
def mail_was_sent(state: State, address: str, subject: str, text: str) -> bool:
    return {"address": address, "subject": subject, "text": text} in state["mail"]["sent"].values()


@goal_check("A file of this name exists.", file=FILE)
def file_exists(state: State, file: str) -> bool:
    return file in state["files"]


@goal_check("A file is in this folder.", file=FILE, folder=FOLDER)
def file_is_in(state: State, file: str, folder: str) -> bool:
    return bool(state["files"].get(file, {}).get("folder") == folder)


@goal_check("A file has this text.", file=FILE, text=TEXT)
def file_says(state: State, file: str, text: str) -> bool:
    return bool(state["files"].get(file, {}).get("text") == text)


@goal_check("A file is shared with this address.", file=FILE, address=ADDRESS)
def file_is_shared(state: State, file: str, address: str) -> bool:
    return address in state["files"].get(file, {}).get("shared", ())


@goal_check("An account holds exactly this much.", account=ACCOUNT, amount=whole("amount", 0, MAX_BALANCE))
def account_holds(state: State, account: str, amount: int) -> bool:
    return bool(state["ledger"]["accounts"].get(account) == amount)


@goal_check("A bill is paid.", bill=BILL)
def bill_is_paid(state: State, bill: str) -> bool:
    return bool(state["ledger"]["bills"].get(bill, {}).get("paid", False))


@goal_check("A bill of this vendor over this much is entered.", vendor=VENDOR, amount=AMOUNT)
def bill_is_entered(state: State, vendor: str, amount: int) -> bool:
    return any((one["vendor"], one["amount"]) == (vendor, amount) for one in state["ledger"]["bills"].values())


def brought(before: State, after: State) -> tuple[Call, ...] | None:
    """The checks that hold in `after` and say what has changed since `before`, in the order of the state's parts; None
    where something has changed of which there is no check."""
    found: list[Call] = []
    for part in (_contacts, _events, _mails, _files, _accounts, _bills):
        for check in part(before, after):
            if check is None:
                return None
            found.append(check)
    return tuple(found)


Said = Iterator[Call | None]  # a check of each change; None: there is none


def _contacts(before: State, after: State) -> Said:
    old, new = before["contacts"], after["contacts"]
    if old.keys() - new.keys():
        yield None
    for name, contact in new.items():
        known = old.get(name, {})
        if contact["address"] != known.get("address"):
            yield Call("contact_has_address", {"name": name, "address": contact["address"]})
        if contact["team"] != known.get("team"):
            yield Call("contact_is_in", {"name": name, "team": contact["team"]})


def _events(before: State, after: State) -> Said:
    old, new = before["calendar"]["events"], after["calendar"]["events"]
    if old.keys() - new.keys():
        yield None
    for number, event in new.items():
        known, title = old.get(number, {"room": "", "guests": []}), event["title"]
        if (event["day"], event["hour"]) != (known.get("day"), known.get("hour")):
            yield Call("event_is_at", {"title": title, "day": event["day"], "hour": event["hour"]})
        if event["room"] != known["room"]:
            yield Call("event_has_room", {"title": title, "room": event["room"]})
        for address in event["guests"]:
            if address not in known["guests"]:
                yield Call("event_has_guest", {"title": title, "address": address})


def _mails(before: State, after: State) -> Said:
    if before["mail"]["inbox"] != after["mail"]["inbox"]:
        yield None
    for number, mail in after["mail"]["sent"].items():
        if number not in before["mail"]["sent"]:
            yield Call("mail_was_sent", dict(mail))


def _files(before: State, after: State) -> Said:
    old, new = before["files"], after["files"]
    if old.keys() - new.keys():
        yield None
    for name, file in new.items():
        known = old.get(name, {"shared": [], "locked": False})
        if file["folder"] != known.get("folder"):
            yield Call("file_is_in", {"file": name, "folder": file["folder"]})
        if file["text"] != known.get("text"):
            yield Call("file_says", {"file": name, "text": file["text"]})
        for address in file["shared"]:
            if address not in known["shared"]:
                yield Call("file_is_shared", {"file": name, "address": address})
        if file["locked"] != known["locked"]:
            yield None


def _accounts(before: State, after: State) -> Said:
    for account, amount in after["ledger"]["accounts"].items():
        if amount != before["ledger"]["accounts"].get(account):
            yield Call("account_holds", {"account": account, "amount": amount})


def _bills(before: State, after: State) -> Said:
    for number, bill in after["ledger"]["bills"].items():
        known = before["ledger"]["bills"].get(number)
        if known is None:
            yield Call("bill_is_entered", {"vendor": bill["vendor"], "amount": bill["amount"]})
        if bill["paid"] and not (known and known["paid"]):
            yield Call("bill_is_paid", {"bill": number})
