"""What desk's tools do (tools.toml): each a function `(state, **arguments) -> dict` over the plain
state.

It answers with ids, values or {"ok": true}, and raises `Refused` with a short message when a
precondition fails, before it has changed anything. Addresses, ids and balances cannot be guessed:
they must be looked up.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from rods.canonical import JsonObject
from rods.worlds.desk.pools import MAX_BALANCE

State = JsonObject
ToolFunction = Callable[..., JsonObject]
# of a kind (files, events, mails, …): keeps results and snapshots small whatever a policy does
MAX_ENTRIES = 200
# of each kind of entry: where entries of it stand in the state, and the argument that names one
KINDS = {
    "contact": ("contacts", "name"),
    "event": ("calendar.events", "event"),
    "mail": ("mail.inbox", "mail"),
    "file": ("files", "file"),
    "account": ("ledger.accounts", "account"),
    "bill": ("ledger.bills", "bill"),
}


class Refused(Exception):
    """A tool's precondition does not hold. The message is what the policy reads."""


def on_entry(of: str, does: Sequence[str], *, unlocked: bool = False) -> ToolFunction:
    """The tool that does one thing to an entry, or to all of its kind: see tools.toml."""
    part, argument = KINDS[of]
    what, *fields = does
    field = fields[-1] if fields else ""
    alone = len(fields) == 1
    entries = place(part)

    def listed(state: State, **arguments: Any) -> JsonObject:
        return {fields[0]: _names(entries(state), field, arguments[field])}

    def show(state: State, **arguments: Any) -> JsonObject:
        entry = _entry(entries(state), arguments[argument], of)
        return {field: entry[field]} if alone else {name: entry[name] for name in fields}

    def remove(state: State, **arguments: Any) -> JsonObject:
        _entry(entries(state), arguments[argument], of)
        del entries(state)[arguments[argument]]
        return {"ok": True}

    def change(state: State, **arguments: Any) -> JsonObject:
        entry = _entry(entries(state), arguments[argument], of)
        if unlocked and entry["locked"]:
            raise Refused("file locked")
        if what == "join":
            return _join(entry[field], arguments["address"])
        value = what == "mark" or arguments[field]
        if entry[field] == value:
            raise Refused("no change")
        entry[field] = value
        return {"ok": True}

    return {"list": listed, "show": show, "remove": remove}.get(what, change)


def place(part: str) -> Callable[[State], JsonObject]:
    """Gives the entries, by name, that stand in this part of a state."""
    outer, _, inner = part.partition(".")
    return (lambda state: state[outer][inner]) if inner else itemgetter(outer)


def _entry(entries: JsonObject, name: str, kind: str) -> Any:
    entry = entries.get(name)
    if entry is None:
        raise Refused(f"no such {kind}")
    return entry


def _names(entries: JsonObject, field: str, value: str) -> list[str]:
    return sorted([name for name, entry in entries.items() if entry[field] == value])


def _add(entries: JsonObject, name: str, entry: JsonObject, kind: str) -> JsonObject:
    if name in entries:
        raise Refused(f"{kind} exists")
    if len(entries) >= MAX_ENTRIES:
        raise Refused(f"too many {kind}s")
    entries[name] = entry
    return {"ok": True}


def _numbered(part: JsonObject, place: str, entry: JsonObject, kind: str, letter: str) -> str:
    """Adds the entry under the next id of its part of the state."""
    number = f"{letter}{part['next']}"
    _add(part[place], number, entry, kind)
    part["next"] += 1
    return number


def _join(addresses: list[str], address: str) -> JsonObject:
    if address in addresses:
        raise Refused("no change")
    if len(addresses) >= MAX_ENTRIES:
        raise Refused("too many guests")
    addresses.append(address)
    addresses.sort()  # who came first does not matter
    return {"ok": True}


def _free(state: State, day: str, hour: int) -> None:
    for event in state["calendar"]["events"].values():
        if event["day"] == day and event["hour"] == hour:
            raise Refused("hour taken")


def _room(state: State, account: str, amount: int) -> None:
    if _entry(state["ledger"]["accounts"], account, "account") + amount > MAX_BALANCE:
        raise Refused("too much money")


def add_contact(state: State, name: str, address: str, team: str) -> JsonObject:
    return _add(state["contacts"], name, {"address": address, "team": team}, "contact")


def find_event(state: State, title: str) -> JsonObject:
    for number, event in sorted(state["calendar"]["events"].items()):
        if event["title"] == title:
            return {"event": number, "day": event["day"], "hour": event["hour"]}
    raise Refused("no such event")


def list_day(state: State, day: str | None = None) -> JsonObject:
    return {"events": _names(state["calendar"]["events"], "day", day or state["today"])}


def create_event(state: State, title: str, day: str, hour: int) -> JsonObject:
    _free(state, day, hour)
    event = {"title": title, "day": day, "hour": hour, "room": "", "guests": []}
    return {"event": _numbered(state["calendar"], "events", event, "event", "e")}


def move_event(state: State, event: str, day: str, hour: int) -> JsonObject:
    moved = _entry(state["calendar"]["events"], event, "event")
    _free(state, day, hour)
    moved["day"] = day
    moved["hour"] = hour
    return {"ok": True}


def send_mail(state: State, address: str, subject: str, text: str) -> JsonObject:
    _numbered(
        state["mail"], "sent", {"address": address, "subject": subject, "text": text}, "mail", "m"
    )
    return {"ok": True}


def reply_mail(state: State, mail: str, text: str) -> JsonObject:
    received = _entry(state["mail"]["inbox"], mail, "mail")
    return send_mail(state, received["sender"], received["subject"], text)


def forward_mail(state: State, mail: str, address: str) -> JsonObject:
    received = _entry(state["mail"]["inbox"], mail, "mail")
    return send_mail(state, address, received["subject"], received["text"])


def create_file(state: State, file: str, folder: str, text: str) -> JsonObject:
    return _add(
        state["files"],
        file,
        {"folder": folder, "text": text, "locked": False, "shared": []},
        "file",
    )


def copy_file(state: State, file: str, copy: str) -> JsonObject:
    original = _entry(state["files"], file, "file")
    return create_file(state, copy, original["folder"], original["text"])


def unlock_file(state: State, file: str) -> JsonObject:
    locked = _entry(state["files"], file, "file")
    if not locked["locked"]:
        raise Refused("file not locked")
    locked["locked"] = False
    return {"ok": True}


def get_balance(state: State, account: str) -> JsonObject:
    return {"balance": _entry(state["ledger"]["accounts"], account, "account")}


def transfer_money(state: State, amount: int, source: str, target: str) -> JsonObject:
    if source == target:
        raise Refused("same account")
    _room(state, target, amount)
    add_expense(state, source, amount)
    state["ledger"]["accounts"][target] += amount
    return {"ok": True}


def add_income(state: State, account: str, amount: int) -> JsonObject:
    _room(state, account, amount)
    state["ledger"]["accounts"][account] += amount
    return {"ok": True}


def add_expense(state: State, account: str, amount: int) -> JsonObject:
    if _entry(state["ledger"]["accounts"], account, "account") < amount:
        raise Refused("not enough money")
    state["ledger"]["accounts"][account] -= amount
    return {"ok": True}


def find_bill(state: State, vendor: str) -> JsonObject:
    for number, bill in sorted(state["ledger"]["bills"].items()):
        if bill["vendor"] == vendor and not bill["paid"]:
            return {"bill": number, "amount": bill["amount"]}
    raise Refused("no such bill")


def add_bill(state: State, vendor: str, amount: int) -> JsonObject:
    bill = {"vendor": vendor, "amount": amount, "paid": False}
    return {"bill": _numbered(state["ledger"], "bills", bill, "bill", "i")}


def pay_bill(state: State, bill: str, account: str) -> JsonObject:
    owed = _entry(state["ledger"]["bills"], bill, "bill")
    if owed["paid"]:
        raise Refused("bill paid")
    add_expense(state, account, owed["amount"])
    owed["paid"] = True
    return {"ok": True}
