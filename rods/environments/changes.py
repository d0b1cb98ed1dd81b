"""How far a state is from another one: what a task does not touch has to stay as it was. A table is
a dict of entries, or a list of them in any order; numbers beside the tables count keys, and say
nothing."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rods.canonical import JsonMapping, canonical

# by table: how many of its entries have gone, changed and come, and the fields that have changed
Changes = Mapping[str, tuple[int, int, int, list[str]]]
KEYS = ("key", "id", "name")  # of the records of a list
NOTHING = (0, 0, 0, list[str]())


def changes(before: JsonMapping, after: JsonMapping) -> Changes:
    """What of a state is no longer as it was `before`, by table."""
    found = {}
    for name, now in after.items():
        old = _entries(before[name])
        new = _entries(now)
        gone = len(old.keys() - new.keys())
        come = len(new.keys() - old.keys())
        if isinstance(now, list) and None in new.values():
            come = min(come, 1)  # a log grows, by however many calls
        changed = [key for key in old.keys() & new.keys() if old[key] != new[key]]
        fields = {
            field
            for key in changed
            for field, value in _record(old[key]).items()
            if _record(new[key]).get(field) != value
        }
        if gone or come or changed:
            found[name] = (gone, len(changed), come, sorted(fields))
    return found


def within(done: Changes, most: Changes) -> bool:
    """Whether no more was `done` than `most`: as many entries at most, in the same fields. An entry
    may be replaced by another one where it may be changed, and the other way round."""
    for name, (gone, changed, come, fields) in done.items():
        may_go, may_change, may_come, may_fields = most.get(name, NOTHING)
        if gone + changed > may_go + may_change or come > may_come + max(gone - may_go, 0):
            return False
        if not may_go and not {*fields} <= {*may_fields}:
            return False
    return True


def _entries(table: Any) -> JsonMapping:
    """The entries of a table by their keys. Those of a list that have none are what they are."""
    if isinstance(table, dict) or type(table) is int:
        return _record(table)
    entries = table if isinstance(table, list) else [table]
    for key in KEYS:
        named = {str(entry[key]): entry for entry in entries if key in _record(entry)}
        if len(named) == len(entries):
            return named
    times = Counter(map(canonical, entries))
    return {f"{entry!r} {at}": None for entry, count in times.items() for at in range(count)}


def _record(value: Any) -> JsonMapping:
    return value if isinstance(value, dict) else {}
