"""How a world comes to own what a tool is about to change (`effects`), with everything else still shared.

A `Take` copies one part of an API object, unless the world owns that part already: `owned` is what the world owns of
the object, and is kept up to date. The object itself must be the world's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from worlds.bfcl.copies import copy_plain
from worlds.bfcl.effects import CHANGED_IN_PLACE, DIRECTORIES, EVERYTHING, FILE
from worlds.bfcl.trees import copy_tree, own_file

Take = Callable[[Any, set[str], Mapping[str, Any]], None]


def takes(tool: str) -> tuple[Take, ...]:
    """What has to be taken before a writing tool is called, in this order."""
    return tuple(map(_take, CHANGED_IN_PLACE.get(tool, (EVERYTHING,))))


def _take(effect: str) -> Take:
    if effect == DIRECTORIES:
        return _take_directories
    if effect == FILE:
        return _take_file
    if effect == EVERYTHING:
        return _take_everything
    if effect[-1] == "*":
        return _top(effect[:-1])
    if effect[-1] == "]":
        name, argument = effect[:-1].split("[")
        return _entry(name, argument) if argument else _entries(name)
    return _whole(effect)


def _take_directories(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
    if DIRECTORIES not in owned:
        owned.add(DIRECTORIES)
        copy_tree(target)


def _take_file(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
    own_file(target, arguments.get("file_name"))


def _take_everything(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
    if EVERYTHING not in owned:
        owned.add(EVERYTHING)
        target.__dict__.update(copy_plain(target.__dict__))


def _whole(name: str) -> Take:
    def take(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
        if name not in owned:
            owned.add(name)
            attributes = target.__dict__
            attributes[name] = copy_plain(attributes[name])

    return take


def _top(name: str) -> Take:
    star = f"{name}*"

    def take(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
        if star not in owned:
            owned.add(star)
            if name not in owned:
                attributes = target.__dict__
                attributes[name] = attributes[name].copy()

    return take


def _entry(name: str, argument: str) -> Take:
    top = _top(name)

    def take(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
        if name in owned:
            return
        top(target, owned, arguments)
        held = target.__dict__[name]
        try:
            key = arguments[argument]
            held[key] = held[key].copy()
        except (LookupError, TypeError, AttributeError):  # no such entry, or no key at all: the tool will complain
            return

    return take


def _entries(name: str) -> Take:
    def take(target: Any, owned: set[str], arguments: Mapping[str, Any]) -> None:
        if name not in owned:
            owned.add(name)
            attributes = target.__dict__
            attributes[name] = {key: entry.copy() for key, entry in attributes[name].items()}

    return take
