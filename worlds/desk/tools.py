"""Desk's tools: contacts, mail, calendar, files and ledger, each a function over the plain state.

What a tool does with the state stands in its description; it answers with ids, values or {"ok": true}, and raises
`Refused` before it has changed anything. Addresses, ids and balances cannot be guessed: they must be looked up.
"""

from __future__ import annotations

from typing import Any

from worlds.desk.pools import DAYS, FOLDERS, HOURS, MAX_BALANCE, MAX_MONEY, ROOMS, TEAMS
from worlds.desk.registry import MAX_ENTRIES, Refused, State, one_of, text, tool, whole

# --- contacts: who works in which team, and at which address they get mail

NAME = text("who")
ADDRESS = text("mail box, as box12")
TEAM = one_of("team", TEAMS)


@tool("contacts", "Look up the address of a contact.", name=NAME)
def find_contact(state: State, name: str) -> dict[str, Any]:
    return {"address": _contact(state, name)["address"]}


@tool("contacts", "List the names in a team.", team=TEAM)
def list_team(state: State, team: str) -> dict[str, Any]:
    return {"names": sorted(name for name, contact in state["contacts"].items() if contact["team"] == team)}


@tool("contacts", "Add a new contact.", name=NAME, address=ADDRESS, team=TEAM)
def add_contact(state: State, name: str, address: str, team: str) -> dict[str, Any]:
    contacts = state["contacts"]
    if name in contacts:
        raise Refused("contact exists")
    if len(contacts) >= MAX_ENTRIES:
        raise Refused("too many contacts")
    contacts[name] = {"address": address, "team": team}
    return {"ok": True}


@tool("contacts", "Change the address of a contact.", name=NAME, address=ADDRESS)
def change_address(state: State, name: str, address: str) -> dict[str, Any]:
    contact = _contact(state, name)
    if contact["address"] == address:
        raise Refused("no change")
    contact["address"] = address
    return {"ok": True}


@tool("contacts", "Put a contact into another team.", name=NAME, team=TEAM)
def change_team(state: State, name: str, team: str) -> dict[str, Any]:
    contact = _contact(state, name)
    if contact["team"] == team:
        raise Refused("no change")
    contact["team"] = team
    return {"ok": True}


@tool("contacts", "Remove a contact.", name=NAME)
def remove_contact(state: State, name: str) -> dict[str, Any]:
    _contact(state, name)
    del state["contacts"][name]
    return {"ok": True}


def _contact(state: State, name: str) -> dict[str, Any]:
    contact: dict[str, Any] | None = state["contacts"].get(name)
    if contact is None:
        raise Refused("no such contact")
    return contact


# --- calendar: events at a day and an hour, one at a time, with rooms and guests

EVENT = text("id, as e12")
TITLE = text("title")
DAY = one_of("day", DAYS)
HOUR = whole("hour", HOURS[0], HOURS[-1])
ROOM = one_of("room", ROOMS)


@tool("calendar", "Look up the id, day and hour of an event by title.", title=TITLE)
def find_event(state: State, title: str) -> dict[str, Any]:
    for number, event in sorted(state["calendar"]["events"].items()):
        if event["title"] == title:
            return {"event": number, "day": event["day"], "hour": event["hour"]}
    raise Refused("no such event")


@tool("calendar", "List the events of a day, or of today.", day=one_of("day, else today", DAYS, required=False))
def list_day(state: State, day: str | None = None) -> dict[str, Any]:
    wanted = day or state["today"]
    events = state["calendar"]["events"]
    return {"events": sorted(number for number, event in events.items() if event["day"] == wanted)}


@tool("calendar", "Create an event.", title=TITLE, day=DAY, hour=HOUR)
def create_event(state: State, title: str, day: str, hour: int) -> dict[str, Any]:
    calendar = state["calendar"]
    _free(state, day, hour)
    if len(calendar["events"]) >= MAX_ENTRIES:
        raise Refused("too many events")
    number = f"e{calendar['next']}"
    calendar["next"] += 1
    calendar["events"][number] = {"title": title, "day": day, "hour": hour, "room": "", "guests": []}
    return {"event": number}


@tool("calendar", "Move an event to another day and hour.", event=EVENT, day=DAY, hour=HOUR)
def move_event(state: State, event: str, day: str, hour: int) -> dict[str, Any]:
    found = _event(state, event)
    _free(state, day, hour)
    found["day"], found["hour"] = day, hour
    return {"ok": True}


@tool("calendar", "Cancel an event.", event=EVENT)
def cancel_event(state: State, event: str) -> dict[str, Any]:
    _event(state, event)
    del state["calendar"]["events"][event]
    return {"ok": True}


@tool("calendar", "Add a guest to an event.", event=EVENT, address=ADDRESS)
def invite_guest(state: State, event: str, address: str) -> dict[str, Any]:
    guests = _event(state, event)["guests"]
    if address in guests:
        raise Refused("no change")
    if len(guests) >= MAX_ENTRIES:
        raise Refused("too many guests")
    guests.append(address)
    guests.sort()  # who was invited first does not matter
    return {"ok": True}


@tool("calendar", "Book a room for an event.", event=EVENT, room=ROOM)
def book_room(state: State, event: str, room: str) -> dict[str, Any]:
    found = _event(state, event)
    if found["room"] == room:
        raise Refused("no change")
    found["room"] = room
    return {"ok": True}


def _event(state: State, event: str) -> dict[str, Any]:
    found: dict[str, Any] | None = state["calendar"]["events"].get(event)
    if found is None:
        raise Refused("no such event")
    return found


def _free(state: State, day: str, hour: int) -> None:
    for event in state["calendar"]["events"].values():
        if event["day"] == day and event["hour"] == hour:
            raise Refused("hour taken")


# --- mail: an inbox whose ids must be searched for, and what was sent

MAIL = text("id, as m12")
SUBJECT = text("subject")
TEXT = text("what it says", longest=60)


@tool("mail", "Search the inbox by subject.", subject=SUBJECT)
def search_mail(state: State, subject: str) -> dict[str, Any]:
    inbox = state["mail"]["inbox"]
    return {"mails": sorted(number for number, mail in inbox.items() if mail["subject"] == subject)}


@tool("mail", "Read a mail: its sender and text.", mail=MAIL)
def read_mail(state: State, mail: str) -> dict[str, Any]:
    found = _mail(state, mail)
    return {"sender": found["sender"], "text": found["text"]}


@tool("mail", "Send a new mail.", address=ADDRESS, subject=SUBJECT, text=TEXT)
def send_mail(state: State, address: str, subject: str, text: str) -> dict[str, Any]:
    return _sent(state, {"address": address, "subject": subject, "text": text})


@tool("mail", "Answer the sender of a mail.", mail=MAIL, text=TEXT)
def reply_mail(state: State, mail: str, text: str) -> dict[str, Any]:
    found = _mail(state, mail)
    return _sent(state, {"address": found["sender"], "subject": found["subject"], "text": text})


@tool("mail", "Pass a mail on to an address.", mail=MAIL, address=ADDRESS)
def forward_mail(state: State, mail: str, address: str) -> dict[str, Any]:
    found = _mail(state, mail)
    return _sent(state, {"address": address, "subject": found["subject"], "text": found["text"]})


@tool("mail", "Mark a mail as important.", mail=MAIL)
def flag_mail(state: State, mail: str) -> dict[str, Any]:
    found = _mail(state, mail)
    if found["flagged"]:
        raise Refused("no change")
    found["flagged"] = True
    return {"ok": True}


@tool("mail", "Delete a mail from the inbox.", mail=MAIL)
def delete_mail(state: State, mail: str) -> dict[str, Any]:
    _mail(state, mail)
    del state["mail"]["inbox"][mail]
    return {"ok": True}


def _mail(state: State, mail: str) -> dict[str, Any]:
    found: dict[str, Any] | None = state["mail"]["inbox"].get(mail)
    if found is None:
        raise Refused("no such mail")
    return found


def _sent(state: State, mail: dict[str, Any]) -> dict[str, Any]:
    box = state["mail"]
    if len(box["sent"]) >= MAX_ENTRIES:
        raise Refused("too many mails")
    number = f"m{box['next']}"
    box["next"] += 1
    box["sent"][number] = mail
    return {"ok": True}


# --- files: named texts in folders, which can be locked and shared

FILE = text("file name")
FOLDER = one_of("folder", FOLDERS)


@tool("files", "List the files in a folder.", folder=FOLDER)
def list_folder(state: State, folder: str) -> dict[str, Any]:
    return {"files": sorted(name for name, file in state["files"].items() if file["folder"] == folder)}


@tool("files", "Read the text of a file.", file=FILE)
def read_file(state: State, file: str) -> dict[str, Any]:
    return {"text": _file(state, file)["text"]}


@tool("files", "Create a file in a folder.", file=FILE, folder=FOLDER, text=TEXT)
def create_file(state: State, file: str, folder: str, text: str) -> dict[str, Any]:
    _new(state, file, {"folder": folder, "text": text, "locked": False, "shared": []})
    return {"ok": True}


@tool("files", "Replace the text of a file.", file=FILE, text=TEXT)
def write_file(state: State, file: str, text: str) -> dict[str, Any]:
    found = _unlocked(state, file)
    if found["text"] == text:
        raise Refused("no change")
    found["text"] = text
    return {"ok": True}


@tool("files", "Copy a file under a new name.", file=FILE, copy=text("name of the copy"))
def copy_file(state: State, file: str, copy: str) -> dict[str, Any]:
    found = _file(state, file)
    _new(state, copy, {"folder": found["folder"], "text": found["text"], "locked": False, "shared": []})
    return {"ok": True}


@tool("files", "Move a file to another folder.", file=FILE, folder=FOLDER)
def move_file(state: State, file: str, folder: str) -> dict[str, Any]:
    found = _unlocked(state, file)
    if found["folder"] == folder:
        raise Refused("no change")
    found["folder"] = folder
    return {"ok": True}


@tool("files", "Lock a file against changes.", file=FILE)
def lock_file(state: State, file: str) -> dict[str, Any]:
    _unlocked(state, file)["locked"] = True
    return {"ok": True}


@tool("files", "Unlock a locked file.", file=FILE)
def unlock_file(state: State, file: str) -> dict[str, Any]:
    found = _file(state, file)
    if not found["locked"]:
        raise Refused("file not locked")
    found["locked"] = False
    return {"ok": True}


@tool("files", "Share a file with an address.", file=FILE, address=ADDRESS)
def share_file(state: State, file: str, address: str) -> dict[str, Any]:
    shared = _file(state, file)["shared"]
    if address in shared:
        raise Refused("no change")
    if len(shared) >= MAX_ENTRIES:
        raise Refused("too many guests")
    shared.append(address)
    shared.sort()
    return {"ok": True}


def _file(state: State, file: str) -> dict[str, Any]:
    found: dict[str, Any] | None = state["files"].get(file)
    if found is None:
        raise Refused("no such file")
    return found


def _unlocked(state: State, file: str) -> dict[str, Any]:
    found = _file(state, file)
    if found["locked"]:
        raise Refused("file locked")
    return found


def _new(state: State, name: str, file: dict[str, Any]) -> None:
    files = state["files"]
    if name in files:
        raise Refused("file exists")
    if len(files) >= MAX_ENTRIES:
        raise Refused("too many files")
    files[name] = file


# --- ledger: accounts that hold money, and bills to pay

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
