"""What each tool may change of its object, and how a world comes to own just that, with everything
else shared.

An object is shared between worlds until something is written. A reading tool (`READING`) needs no
copy. A writing tool gets an object of the world's own, in which the attributes that the tool
changes *in place* (`CHANGED_IN_PLACE`) are copies too; rebinding an attribute needs none. A name
that ends in `*` has only its top level changed (something is added or removed); `cards[card_id]`:
the entry named by that argument has something rebound besides; `cards[]`: any. A tool that stands
in neither table gets a full copy. A test runs every tool and finds what it was not to change
unchanged.

A `Take` copies one part of an API object, unless the world owns that part already: `owned` is what
the world owns of the object, and is kept up to date. The object itself must be the world's own.
"""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from rods.canonical import JsonMapping
from rods.files import module_table
from rods.worlds.bfcl.copies import copy_plain
from rods.worlds.bfcl.trees import copy_tree, own_file

FILE_SYSTEM = "GorillaFileSystem"
SCRATCH = frozenset({"_flight_cost_lookup"})  # left behind by get_flight_cost and read by nobody

_TABLES = module_table(__file__)
READING = frozenset(name for names in _TABLES["reading"].values() for name in names.split())
CHANGED_IN_PLACE: Mapping[str, list[str]] = _TABLES["changed_in_place"]
EVERYTHING = "everything"

Take = Callable[[Any, set[str], JsonMapping], None]


def takes(tool: str) -> tuple[Take, ...]:
    """What has to be taken before a writing tool is called, in this order."""
    return tuple(map(_take, CHANGED_IN_PLACE.get(tool, (EVERYTHING,))))


def _take(effect: str) -> Take:
    if effect in _PARTS:
        return _PARTS[effect]
    if effect[-1] == "*":
        return _top(effect[:-1])
    if effect[-1] == "]":
        name, argument = effect[:-1].split("[")
        return _entry(name, argument) if argument else _attribute(name, _entries_copied, name)
    return _attribute(effect, copy_plain, effect)


def _once(copied: Callable[[Any], None], part: str, whole: str = "") -> Take:
    """Has `copied` put copies into a target, unless the world owns this `part` of it, or the
    `whole` that has it."""

    def take(target: Any, owned: set[str], arguments: JsonMapping) -> None:
        if part not in owned and whole not in owned:
            owned.add(part)
            copied(target)

    return take


_PARTS: Mapping[str, Take] = {
    "directories": _once(copy_tree, "directories"),
    "file": lambda target, owned, arguments: own_file(target, arguments.get("file_name")),
    EVERYTHING: _once(
        lambda target: target.__dict__.update(copy_plain(target.__dict__)), EVERYTHING
    ),
}


def _attribute(name: str, copied: Callable[[Any], Any], part: str) -> Take:
    """Puts what `copied` makes of attribute `name` into its place, unless the world owns all of it,
    or this `part`."""

    def put(target: Any) -> None:
        target.__dict__[name] = copied(target.__dict__[name])

    return _once(put, part, name)


def _entry(name: str, argument: str) -> Take:
    top = _top(name)

    def take(target: Any, owned: set[str], arguments: JsonMapping) -> None:
        if name in owned:
            return
        top(target, owned, arguments)
        held = target.__dict__[name]
        try:
            key = arguments[argument]
            held[key] = held[key].copy()
        # no such entry, or no key at all: the tool will complain
        except (LookupError, TypeError, AttributeError):
            return

    return take


def _top(name: str) -> Take:
    return _attribute(name, copy, f"{name}*")


def _entries_copied(held: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: entry.copy() for key, entry in held.items()}
