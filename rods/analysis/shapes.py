"""The shape of a world's state, read off the state itself, and what a patch may change in it (004 Appendix F).

A state is made of *records*, whose fields are fixed, and *maps* from names or numbers to entries that are alike. A
patch may change fields and add entries to maps; it may not bring fields that the world does not know, change a type,
replace an object by something else, or use a word as a key where numbers are keys. An empty object tells nothing about
its entries: there only the environment knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

PatchFault = Literal[
    "unknown_class", "unknown_field", "changed_type", "clobbers", "bad_key", "preempts", "no_change", "too_large"
]
Path = tuple[str, ...]
LARGEST = 20_000  # characters of one text in a patch, and entries of one list or object: no world needs more


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a part of a patch is refused, and where."""

    kind: PatchFault
    where: Path
    text: str

    def __str__(self) -> str:
        return f"{self.kind} at {'.'.join(self.where) or 'the top'}: {self.text}"


def is_map(value: Mapping[str, Any], *, record: bool) -> bool:
    """Whether an object maps keys to like entries. `record`: it is the top of a state, or an entry of a map itself."""
    if record or not value:
        return False
    kinds = {_kind(item) for item in value.values()}
    return len(kinds) == 1


def faults(state: Mapping[str, Any], patch: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with `patch` for `state`; empty when it fits."""
    return list(_object(state, patch, (), record=True))


def leaves(patch: Any, where: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, value) of every leaf of a patch."""
    if isinstance(patch, Mapping) and patch:
        for key, item in patch.items():
            yield from leaves(item, (*where, key))
    else:
        yield where, patch


def at(state: Any, path: Sequence[str]) -> Any:
    """The value at `path`. Raises KeyError."""
    for key in path:
        if not isinstance(state, Mapping):
            raise KeyError(key)
        state = state[key]
    return state


def _object(old: Mapping[str, Any], patch: Mapping[str, Any], where: Path, *, record: bool) -> Iterator[Fault]:
    if len(patch) > LARGEST:
        yield Fault("too_large", where, f"{len(patch)} entries")
        return
    keyed = is_map(old, record=record)
    numbers = bool(old) and all(key.isdecimal() for key in old)
    for key, value in patch.items():
        here = (*where, key)
        if key in old:
            yield from _value(old[key], value, here, record=keyed)
        elif not old and where:
            continue  # an empty object: nothing is known about its entries
        elif not keyed and not numbers:
            kind: PatchFault = "unknown_field" if where else "unknown_class"
            yield Fault(kind, here, f"the state knows {', '.join(list(old)[:12])}")
        elif numbers and not key.isdecimal():
            yield Fault("bad_key", here, f"keys are numbers here, such as {next(iter(old))}")
        else:
            yield from _entry(old, value, here)


def _entry(old: Mapping[str, Any], value: Any, where: Path) -> Iterator[Fault]:
    """A new entry of a map: like one of those that are there, with all its fields."""
    for model in old.values():
        if isinstance(model, Mapping) and isinstance(value, Mapping):
            if set(model) == set(value) and not list(_object(model, value, where, record=True)):
                return
        elif _kind(model) == _kind(value):
            return
    model = next(iter(old.values()))
    like = f"with the fields {', '.join(model)}" if isinstance(model, Mapping) else f"of type {_kind(model)}"
    yield Fault("changed_type", where, f"a new entry must be like the others, {like}")


def _value(old: Any, new: Any, where: Path, *, record: bool) -> Iterator[Fault]:
    if isinstance(old, Mapping):
        if isinstance(new, Mapping):
            yield from _object(old, new, where, record=record)
        else:
            yield Fault("clobbers", where, f"an object stands there, not {_kind(new)}")
    elif old is None:
        return
    elif _kind(old) != _kind(new) and not (_kind(old) == "number" and _kind(new) == "integer"):
        yield Fault("changed_type", where, f"{_kind(old)} stands there, not {_kind(new)}")
    elif isinstance(new, (str, list)) and len(new) > LARGEST:
        yield Fault("too_large", where, f"{len(new)} characters or elements")
    elif isinstance(old, list) and old:
        kinds = {_kind(item) for item in old}
        if odd := [item for item in new if _kind(item) not in kinds]:
            yield Fault("changed_type", where, f"the list holds {', '.join(sorted(kinds))}, not {_kind(odd[0])}")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (int, "integer"),
        (float, "number"),
        (str, "text"),
        ((list, tuple), "list"),
        (Mapping, "object"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "null")
