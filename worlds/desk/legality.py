"""Which states are legal: every field present and of its type, every number in its range, ids below `next`.

`completed` fills in the classes that a state leaves out, and raises ValueError naming the place of what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from worlds.desk.pools import DAYS, FOLDERS, HOURS, MAX_BALANCE, MAX_MONEY, ROOMS, TEAMS
from worlds.desk.registry import MAX_ENTRIES, State

Check = Callable[[Any], bool]


def completed(state: Any) -> State:
    """`state` with its missing classes added, empty. Raises ValueError for anything illegal."""
    if not isinstance(state, dict):
        raise ValueError("the state must be an object")
    full: State = {
        "today": DAYS[0],
        "contacts": {},
        "mail": {"inbox": {}, "sent": {}, "next": 10},
        "calendar": {"events": {}, "next": 10},
        "files": {},
        "ledger": {"accounts": {}, "bills": {}, "next": 10},
    }
    for key, value in state.items():
        if key not in full:
            raise ValueError(f"the state has an unknown part {key!r}; desk knows {', '.join(full)}")
        full[key] = value
    _expect(full["today"] in DAYS, "today", f"must be one of {', '.join(DAYS)}")
    _entries(full["contacts"], "contacts", {"address": _text, "team": TEAMS.__contains__})
    _part(full["mail"], "mail", ("inbox", "sent", "next"))
    letters = {"subject": _text, "text": _text}
    _entries(full["mail"]["inbox"], "mail.inbox", {"sender": _text, **letters, "flagged": _flag})
    _entries(full["mail"]["sent"], "mail.sent", {"address": _text, **letters})
    _ids("m", full["mail"], "mail", ("inbox", "sent"))
    _part(full["calendar"], "calendar", ("events", "next"))
    event = {"title": _text, "day": DAYS.__contains__, "hour": _whole(HOURS[0], HOURS[-1])}
    room: Check = ("", *ROOMS).__contains__
    _entries(full["calendar"]["events"], "calendar.events", {**event, "room": room, "guests": _texts})
    _ids("e", full["calendar"], "calendar", ("events",))
    times = [(event["day"], event["hour"]) for event in full["calendar"]["events"].values()]
    _expect(len(set(times)) == len(times), "calendar.events", "has two events at one time")
    file = {"folder": FOLDERS.__contains__, "text": _text, "locked": _flag, "shared": _texts}
    _entries(full["files"], "files", file)
    _part(full["ledger"], "ledger", ("accounts", "bills", "next"))
    accounts = full["ledger"]["accounts"]
    _expect(isinstance(accounts, dict) and len(accounts) <= MAX_ENTRIES, "ledger.accounts", "must be an object")
    for name, balance in accounts.items():
        _expect(_text(name) and _whole(0, MAX_BALANCE)(balance), f"ledger.accounts.{name}", "is no balance")
    bill = {"vendor": _text, "amount": _whole(1, MAX_MONEY), "paid": _flag}
    _entries(full["ledger"]["bills"], "ledger.bills", bill)
    _ids("i", full["ledger"], "ledger", ("bills",))
    return full


def _entries(value: Any, where: str, fields: dict[str, Check]) -> None:
    _expect(isinstance(value, dict) and len(value) <= MAX_ENTRIES, where, f"must hold at most {MAX_ENTRIES} entries")
    for name, entry in value.items():
        _expect(_text(name), where, f"has a bad name {name!r}")
        _part(entry, f"{where}.{name}", tuple(fields))
        for field, check in fields.items():
            _expect(check(entry[field]), f"{where}.{name}.{field}", f"must not be {entry[field]!r}")


def _part(value: Any, where: str, fields: tuple[str, ...]) -> None:
    _expect(isinstance(value, dict) and set(value) == set(fields), where, f"must have exactly {', '.join(fields)}")


def _ids(letter: str, part: dict[str, Any], where: str, kinds: tuple[str, ...]) -> None:
    _expect(_whole(0, 10**6)(part["next"]), f"{where}.next", "must be a whole number")
    for kind in kinds:
        for name in part[kind]:
            number = name[1:]
            legal = name[0] == letter and number.isascii() and number.isdigit() and int(number) < part["next"]
            _expect(legal, f"{where}.{kind}.{name}", f"must be {letter} and a number below next")


def _expect(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise ValueError(f"the state's {where} {what}")


def _text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 60 and value.isprintable()


def _texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_ENTRIES and all(map(_text, value)) and value == sorted(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _whole(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high
