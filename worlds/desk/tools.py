"""Desk's tools: contacts, mail, calendar, files and ledger, each a function over the plain state.

What a tool does with the state stands in its description; it answers with ids, values or {"ok": true}, and raises
`Refused` before it has changed anything. Addresses, ids and balances cannot be guessed: they must be looked up.
"""

from __future__ import annotations

from typing import Any

from rods.worlds.desk.pools import DAYS, FOLDERS, HOURS, MAX_BALANCE, MAX_MONEY, ROOMS, TEAMS
from rods.worlds.desk.registry import MAX_ENTRIES, Refused, State, one_of, text, tool, whole

ACCOUNT = text("account")
ADDRESS = text("mail box, as box12")
AMOUNT = whole("amount", 1, MAX_MONEY)
BILL = text("id, as i12")
DAY = one_of("day", DAYS)
EVENT = text("id, as e12")
FILE = text("file name")
FOLDER = one_of("folder", FOLDERS)
HOUR = whole("hour", HOURS[0], HOURS[-1])
MAIL = text("id, as m12")
NAME = text("who")
ROOM = one_of("room", ROOMS)
SUBJECT = text("subject")
TEAM = one_of("team", TEAMS)
TEXT = text("what it says", longest=60)
TITLE = text("title")
VENDOR = text("vendor")


def _entry(entries: dict[str, Any], name: str, kind: str) -> Any:
    entry = entries.get(name)
    if entry is None:
        raise Refused(f"no such {kind}")
    return entry


def _add(entries: dict[str, Any], name: str, entry: dict[str, Any], kind: str) -> dict[str, Any]:
    if name in entries:
        raise Refused(f"{kind} exists")
    if len(entries) >= MAX_ENTRIES:
        raise Refused(f"too many {kind}s")
    entries[name] = entry
    return {"ok": True}


def _numbered(part: dict[str, Any], entries: dict[str, Any], entry: dict[str, Any], kind: str, letter: str) -> str:
    """Adds the entry under the next id of its part of the state."""
    number = f"{letter}{part['next']}"
    _add(entries, number, entry, kind)
    part["next"] += 1
    return number


def _change(entry: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    if entry[field] == value:
        raise Refused("no change")
    entry[field] = value
    return {"ok": True}


def _join(addresses: list[str], address: str) -> dict[str, Any]:
    if address in addresses:
        raise Refused("no change")
    if len(addresses) >= MAX_ENTRIES:
        raise Refused("too many guests")
    addresses.append(address)
    addresses.sort()  # who came first does not matter
    return {"ok": True}


def _remove(entries: dict[str, Any], name: str, kind: str) -> dict[str, Any]:
    _entry(entries, name, kind)
    del entries[name]
    return {"ok": True}


def _names(entries: dict[str, Any], field: str, value: str) -> list[str]:
    return sorted(name for name, entry in entries.items() if entry[field] == value)


# --- contacts: who works in which team, and at which address they get mail


@tool("contacts", "Look up the address of a contact.", name=NAME)
def find_contact(state: State, name: str) -> dict[str, Any]:
    return {"address": _entry(state["contacts"], name, "contact")["address"]}


@tool("contacts", "List the names in a team.", team=TEAM)
def list_team(state: State, team: str) -> dict[str, Any]:
    return {"names": _names(state["contacts"], "team", team)}


@tool("contacts", "Add a new contact.", name=NAME, address=ADDRESS, team=TEAM)
def add_contact(state: State, name: str, address: str, team: str) -> dict[str, Any]:
    return _add(state["contacts"], name, {"address": address, "team": team}, "contact")


@tool("contacts", "Change the address of a contact.", name=NAME, address=ADDRESS)
def change_address(state: State, name: str, address: str) -> dict[str, Any]:
    return _change(_entry(state["contacts"], name, "contact"), "address", address)


@tool("contacts", "Put a contact into another team.", name=NAME, team=TEAM)
def change_team(state: State, name: str, team: str) -> dict[str, Any]:
    return _change(_entry(state["contacts"], name, "contact"), "team", team)


@tool("contacts", "Remove a contact.", name=NAME)
def remove_contact(state: State, name: str) -> dict[str, Any]:
    return _remove(state["contacts"], name, "contact")


# --- calendar: events at a day and an hour, one at a time, with rooms and guests


@tool("calendar", "Look up the id, day and hour of an event by title.", title=TITLE)
def find_event(state: State, title: str) -> dict[str, Any]:
    events = state["calendar"]["events"]
    for number in _names(events, "title", title):
        return {"event": number, "day": events[number]["day"], "hour": events[number]["hour"]}
    raise Refused("no such event")


@tool("calendar", "List the events of a day, or of today.", day=one_of("day, else today", DAYS, required=False))
def list_day(state: State, day: str | None = None) -> dict[str, Any]:
    return {"events": _names(state["calendar"]["events"], "day", day or state["today"])}


@tool("calendar", "Create an event.", title=TITLE, day=DAY, hour=HOUR)
def create_event(state: State, title: str, day: str, hour: int) -> dict[str, Any]:
    _free(state, day, hour)
    event = {"title": title, "day": day, "hour": hour, "room": "", "guests": []}
    return {"event": _numbered(state["calendar"], state["calendar"]["events"], event, "event", "e")}


@tool("calendar", "Move an event to another day and hour.", event=EVENT, day=DAY, hour=HOUR)
def move_event(state: State, event: str, day: str, hour: int) -> dict[str, Any]:
    moved = _entry(state["calendar"]["events"], event, "event")
    _free(state, day, hour)
    moved["day"], moved["hour"] = day, hour
    return {"ok": True}


@tool("calendar", "Cancel an event.", event=EVENT)
def cancel_event(state: State, event: str) -> dict[str, Any]:
    return _remove(state["calendar"]["events"], event, "event")


@tool("calendar", "Add a guest to an event.", event=EVENT, address=ADDRESS)
def invite_guest(state: State, event: str, address: str) -> dict[str, Any]:
    return _join(_entry(state["calendar"]["events"], event, "event")["guests"], address)


@tool("calendar", "Book a room for an event.", event=EVENT, room=ROOM)
def book_room(state: State, event: str, room: str) -> dict[str, Any]:
    return _change(_entry(state["calendar"]["events"], event, "event"), "room", room)


def _free(state: State, day: str, hour: int) -> None:
    for event in state["calendar"]["events"].values():
        if event["day"] == day and event["hour"] == hour:
            raise Refused("hour taken")


# --- mail: an inbox whose ids must be searched for, and what was sent


@tool("mail", "Search the inbox by subject.", subject=SUBJECT)
def search_mail(state: State, subject: str) -> dict[str, Any]:
    return {"mails": _names(state["mail"]["inbox"], "subject", subject)}


@tool("mail", "Read a mail: its sender and text.", mail=MAIL)
def read_mail(state: State, mail: str) -> dict[str, Any]:
    received = _entry(state["mail"]["inbox"], mail, "mail")
    return {"sender": received["sender"], "text": received["text"]}


@tool("mail", "Send a new mail.", address=ADDRESS, subject=SUBJECT, text=TEXT)
def send_mail(state: State, address: str, subject: str, text: str) -> dict[str, Any]:
    mail = {"address": address, "subject": subject, "text": text}
    _numbered(state["mail"], state["mail"]["sent"], mail, "mail", "m")
    return {"ok": True}


@tool("mail", "Answer the sender of a mail.", mail=MAIL, text=TEXT)
def reply_mail(state: State, mail: str, text: str) -> dict[str, Any]:
    received = _entry(state["mail"]["inbox"], mail, "mail")
    return send_mail(state, received["sender"], received["subject"], text)


@tool("mail", "Pass a mail on to an address.", mail=MAIL, address=ADDRESS)
def forward_mail(state: State, mail: str, address: str) -> dict[str, Any]:
    received = _entry(state["mail"]["inbox"], mail, "mail")
    return send_mail(state, address, received["subject"], received["text"])


@tool("mail", "Mark a mail as important.", mail=MAIL)
def flag_mail(state: State, mail: str) -> dict[str, Any]:
    return _change(_entry(state["mail"]["inbox"], mail, "mail"), "flagged", True)


@tool("mail", "Delete a mail from the inbox.", mail=MAIL)
def delete_mail(state: State, mail: str) -> dict[str, Any]:
    return _remove(state["mail"]["inbox"], mail, "mail")


# --- files: named texts in folders, which can be locked and shared


@tool("files", "List the files in a folder.", folder=FOLDER)
def list_folder(state: State, folder: str) -> dict[str, Any]:
    return {"files": _names(state["files"], "folder", folder)}


@tool("files", "Read the text of a file.", file=FILE)
def read_file(state: State, file: str) -> dict[str, Any]:
    return {"text": _entry(state["files"], file, "file")["text"]}


@tool("files", "Create a file in a folder.", file=FILE, folder=FOLDER, text=TEXT)
def create_file(state: State, file: str, folder: str, text: str) -> dict[str, Any]:
    return _add(state["files"], file, {"folder": folder, "text": text, "locked": False, "shared": []}, "file")


@tool("files", "Replace the text of a file.", file=FILE, text=TEXT)
def write_file(state: State, file: str, text: str) -> dict[str, Any]:
    return _change(_unlocked(state, file), "text", text)


@tool("files", "Copy a file under a new name.", file=FILE, copy=text("name of the copy"))
def copy_file(state: State, file: str, copy: str) -> dict[str, Any]:
    original = _entry(state["files"], file, "file")
    return create_file(state, copy, original["folder"], original["text"])


@tool("files", "Move a file to another folder.", file=FILE, folder=FOLDER)
def move_file(state: State, file: str, folder: str) -> dict[str, Any]:
    return _change(_unlocked(state, file), "folder", folder)


@tool("files", "Lock a file against changes.", file=FILE)
def lock_file(state: State, file: str) -> dict[str, Any]:
    return _change(_unlocked(state, file), "locked", True)


@tool("files", "Unlock a locked file.", file=FILE)
def unlock_file(state: State, file: str) -> dict[str, Any]:
    locked = _entry(state["files"], file, "file")
    if not locked["locked"]:
        raise Refused("file not locked")
    return _change(locked, "locked", False)


@tool("files", "Share a file with an address.", file=FILE, address=ADDRESS)
def share_file(state: State, file: str, address: str) -> dict[str, Any]:
    return _join(_entry(state["files"], file, "file")["shared"], address)


def _unlocked(state: State, file: str) -> dict[str, Any]:
    entry: dict[str, Any] = _entry(state["files"], file, "file")
    if entry["locked"]:
        raise Refused("file locked")
    return entry


# --- ledger: accounts that hold money, and bills to pay


@tool("ledger", "Look up the balance of an account.", account=ACCOUNT)
def get_balance(state: State, account: str) -> dict[str, Any]:
    return {"balance": _entry(state["ledger"]["accounts"], account, "account")}


@tool("ledger", "Move money between accounts.", amount=AMOUNT, source=text("from account"), target=text("to account"))
def transfer_money(state: State, amount: int, source: str, target: str) -> dict[str, Any]:
    if source == target:
        raise Refused("same account")
    _room(state, target, amount)
    add_expense(state, source, amount)
    return add_income(state, target, amount)


@tool("ledger", "Put new money into an account.", account=ACCOUNT, amount=AMOUNT)
def add_income(state: State, account: str, amount: int) -> dict[str, Any]:
    _room(state, account, amount)
    state["ledger"]["accounts"][account] += amount
    return {"ok": True}


@tool("ledger", "Spend money from an account.", account=ACCOUNT, amount=AMOUNT)
def add_expense(state: State, account: str, amount: int) -> dict[str, Any]:
    if get_balance(state, account)["balance"] < amount:
        raise Refused("not enough money")
    state["ledger"]["accounts"][account] -= amount
    return {"ok": True}


@tool("ledger", "Look up the open bill of a vendor.", vendor=VENDOR)
def find_bill(state: State, vendor: str) -> dict[str, Any]:
    bills = state["ledger"]["bills"]
    for number in _names(bills, "vendor", vendor):
        if not bills[number]["paid"]:
            return {"bill": number, "amount": bills[number]["amount"]}
    raise Refused("no such bill")


@tool("ledger", "Enter a new bill of a vendor.", vendor=VENDOR, amount=AMOUNT)
def add_bill(state: State, vendor: str, amount: int) -> dict[str, Any]:
    bill = {"vendor": vendor, "amount": amount, "paid": False}
    return {"bill": _numbered(state["ledger"], state["ledger"]["bills"], bill, "bill", "i")}


@tool("ledger", "Pay a bill from an account.", bill=BILL, account=ACCOUNT)
def pay_bill(state: State, bill: str, account: str) -> dict[str, Any]:
    owed = _entry(state["ledger"]["bills"], bill, "bill")
    if owed["paid"]:
        raise Refused("bill paid")
    add_expense(state, account, owed["amount"])
    owed["paid"] = True
    return {"ok": True}


def _room(state: State, account: str, amount: int) -> None:
    if get_balance(state, account)["balance"] + amount > MAX_BALANCE:
        raise Refused("too much money")
