"""Desk's checks (checks.toml): what goals ask of the state in which an episode leaves its world
(`goal.checks`).

Each answers true or false and changes nothing. What it asks about need not be there: then it does
not hold. They are not part of desk's hash, whose tasks need none: one that is to answer otherwise
gets another name. `brought` says a change of the state in checks.
"""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from rods.calls import Call
from rods.canonical import JsonObject, frozen
from rods.files import module_table
from rods.worlds.desk.declared_tools import registered
from rods.worlds.desk.tools import State, place

PARTS = (
    "contacts",
    "calendar.events",
    "mail.inbox",
    "mail.sent",
    "files",
    "ledger.accounts",
    "ledger.bills",
)
# of a new entry
AT_FIRST: JsonObject = {"room": "", "guests": [], "shared": [], "locked": False, "paid": False}


@frozen
class StateCheck:
    """An entry of checks.toml, which has the meaning of the fields."""

    about: str
    part: str
    of: dict[str, str] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)
    always: JsonObject = field(default_factory=dict)
    values: JsonObject = field(default_factory=dict)

    def holds(self, state: State, /, **arguments: Any) -> bool:
        fields = [(name, arguments[argument]) for argument, name in (self.of | self.says).items()]
        return any(
            all(
                value in entry[name] if isinstance(entry[name], list) else entry[name] == value
                for name, value in fields
            )
            and entry.items() >= self.always.items()
            for entry in _entries(state, self.part).values()
        )

    def calls(self, name: str, entry: JsonObject, before: JsonObject) -> Iterator[Call]:
        """What says of the entry all in which it differs from a `before` one: of a list, each new
        item."""
        fields = self.of | self.says
        lists = [value for value in fields.values() if isinstance(entry[value], list)]
        items = (
            [item for value in lists for item in entry[value] if item not in before[value]]
            if lists
            else [None]
        )
        for item in items:
            yield Call(
                name,
                {key: item if value in lists else entry[value] for key, value in fields.items()},
            )


STATE_CHECKS = {name: StateCheck(**record) for name, record in module_table(__file__).items()}
# functions that answer true or false of the state, for goals; no policy sees one
CHECKS = {
    name: registered(name, "checks", check.about, check.holds, check.of | check.says, check.values)
    for name, check in STATE_CHECKS.items()
}


def brought(before: State, after: State) -> tuple[Call, ...] | None:
    """The checks that hold in `after` and say what has changed since `before`, in the order of the
    state's parts; None where something has changed of which there is no check."""
    calls: list[Call] = []
    for part in PARTS:
        checks = {name: check for name, check in STATE_CHECKS.items() if check.part == part}
        covered = {"key"}.union(
            *((check.of | check.says).values() | check.always.keys() for check in checks.values())
        )
        old = _entries(before, part)
        new = _entries(after, part)
        if old.keys() - new.keys():
            return None
        for key, entry in new.items():
            old_entry = AT_FIRST | old.get(key, {})
            changed = {name for name, value in entry.items() if old_entry.get(name) != value}
            if not changed <= covered:
                return None
            for name, check in checks.items():
                if changed & {*check.says.values(), *check.always}:
                    calls += check.calls(name, entry, old_entry)
    return tuple(calls)


def _entries(state: State, part: str) -> dict[str, JsonObject]:
    """The entries of a part of the state, each with its key; an account is its amount."""
    return {
        key: {"key": key, **(entry if isinstance(entry, dict) else {"amount": entry})}
        for key, entry in place(part)(state).items()
    }
