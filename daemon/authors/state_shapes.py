"""The shape of a world's state, read off the state itself, and what a patch may change in it (004
Appendix F).

A state is made of *records*, whose fields are fixed, and *maps* from names or numbers to entries of
one kind. A patch may change fields and add entries to maps. It may not bring fields that the world
does not know, change a type, replace an object by something else, or use a word as a key where
numbers are keys. An empty object tells nothing about its entries: there only the environment
knows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from rods.analysis import containment
from rods.analysis.schemas import Checker
from rods.canonical import JsonMapping, JsonObject, canonical, frozen
from rods.composing.bind import deep_merge

RefusalKind = Literal[
    "unknown_class",
    "unknown_field",
    "read_only",
    "changed_type",
    "clobbers",
    "bad_key",
    "preempts",
    "no_change",
    "too_large",
]
State = JsonMapping  # of a world, or a part of one: JSON
Path = tuple[str, ...]
Kin = Mapping[str, Sequence[Any]]  # the entries of all maps of one name
# characters of one text in a patch, and entries of one list or object: no world needs more
LARGEST = 20_000
ANYTHING: JsonMapping = {"": [[]]}  # where a schema allows this it says nothing
KINDS: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "text",
    list: "list",
    tuple: "list",
}


@frozen
class PatchRefusal:
    """Why a part of a patch is refused, and where."""

    kind: RefusalKind
    where: Path
    text: str

    def __str__(self) -> str:
        return f"{self.kind} at {'.'.join(self.where) or 'the top'}: {self.text}"


def is_map(value: State, *, record: bool) -> bool:
    """Whether an object maps keys to entries of one kind. A `record` is the top of a state, or an
    entry of a map."""
    return not record and len({_kind(item) for item in value.values()}) == 1


def refusals(state: State, patch: State, schema: JsonMapping | None = None) -> list[PatchRefusal]:
    """Where `patch` has another shape than `state`, unless the JSON Schema of the state allows it,
    or changes a field that this calls `readOnly`; empty when it fits."""
    kin: dict[str, list[Any]] = {}
    for path, keyed in walk(state):
        if path and isinstance(keyed, Mapping):
            kin.setdefault(path[-1], []).extend(keyed.values())
    why = "this stays as it is, by the schema of the state"
    fixed = [
        PatchRefusal("read_only", (key,), why)
        for key, part in (schema or {}).get("properties", {}).items()
        if part.get("readOnly") and patch.get(key) not in (None, state.get(key))
    ]
    checker = Checker(schema or {})
    other = _in_object(state, patch, (), kin, record=True)
    return [
        *fixed,
        *(
            each
            for each in other
            if each.kind != "changed_type"
            or not checker.fits(deep_merge(state, patch))
            or checker.fits(deep_merge(state, nested(each.where, ANYTHING)))
        ),
    ]


def lasting(state: State, patch: State) -> JsonObject:
    """What a patch of one story does to `state` that may hold for the worlds of another one: the
    switches, amounts and words that it changes; no entries that it brings, no lists, no texts."""
    parts: JsonObject = {}
    for key, value in patch.items():
        old = state.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inside := lasting(old, value):
                parts[key] = inside
        elif key in state and not isinstance(value, (Mapping, list)) and " " not in str(value):
            parts[key] = value
    return parts


def walk(value: Any, where: Path = (), *, record: bool = True) -> Iterator[tuple[Path, Any]]:
    """(path, value) of every map in a state, and of every value in it that is no object and no
    list. The path has `*` for places of lists."""
    if isinstance(value, Mapping):
        if keyed := is_map(value, record=record):
            yield where, value
        for key, item in value.items():
            yield from walk(item, (*where, key), record=keyed)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from walk(item, (*where, "*"))
    else:
        yield where, value


def leaves(value: Any, where: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, value) of every leaf of a state or a patch; an empty object is a leaf."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from leaves(item, (*where, key))
    else:
        yield where, value


def contents(value: Any) -> set[bytes]:
    """Every key and leaf of a JSON value as canonical JSON; keys that are numbers also as such."""
    return {canonical(leaf) for _, leaf in containment.leaves(value, keys=True)}


def nested(path: Path, value: Any) -> JsonObject:
    """The patch that sets `value` at `path` (at least one name)."""
    for key in reversed(path):
        value = {key: value}
    patch: JsonObject = value
    return patch


def _in_object(
    old: State, new: State, where: Path, kin: Kin, *, record: bool
) -> Iterator[PatchRefusal]:
    if len(new) > LARGEST:
        yield PatchRefusal("too_large", where, f"{len(new)} entries")
        return
    keyed = is_map(old, record=record)
    numbers = bool(old) and all(key.isdecimal() for key in old)
    for key, value in new.items():
        here = (*where, key)
        if key in old:
            yield from _in_value(old[key], value, here, kin, record=keyed)
        elif not old and where:
            continue  # an empty object: nothing is known about its entries
        elif not keyed and not numbers:
            kind: RefusalKind = "unknown_field" if where else "unknown_class"
            yield PatchRefusal(kind, here, f"the state knows {', '.join(list(old)[:12])}")
        elif numbers and not key.isdecimal():
            yield PatchRefusal("bad_key", here, f"keys are numbers here, such as {next(iter(old))}")
        else:
            yield from _in_new_entry(old, value, here, kin)


def _in_new_entry(old: State, value: Any, where: Path, kin: Kin) -> Iterator[PatchRefusal]:
    """A new entry of a map must be like one of those that are there, or in another map of this
    name (a file in a folder that holds folders only), with all its fields."""
    for model in (*old.values(), *kin.get(where[-2] if len(where) > 1 else "", ())):
        if isinstance(model, Mapping) and isinstance(value, Mapping):
            if set(model) == set(value) and not list(
                _in_object(model, value, where, kin, record=True)
            ):
                return
        elif _kind(model) == _kind(value):
            return
    model = next(iter(old.values()))
    like = (
        f"with the fields {', '.join(model)}"
        if isinstance(model, Mapping)
        else f"of type {_kind(model)}"
    )
    yield PatchRefusal("changed_type", where, f"a new entry must be like the others, {like}")


def _in_value(old: Any, new: Any, where: Path, kin: Kin, *, record: bool) -> Iterator[PatchRefusal]:
    if isinstance(old, Mapping):
        if isinstance(new, Mapping):
            yield from _in_object(old, new, where, kin, record=record)
        else:
            yield PatchRefusal("clobbers", where, f"an object stands there, not {_kind(new)}")
    elif old is None:
        return
    elif _kind(old) != _kind(new) and not (_kind(old) == "number" and _kind(new) == "integer"):
        yield PatchRefusal("changed_type", where, f"{_kind(old)} stands there, not {_kind(new)}")
    elif isinstance(new, (str, list)) and len(new) > LARGEST:
        yield PatchRefusal("too_large", where, f"{len(new)} characters or elements")
    elif isinstance(old, list) and old:
        kinds = {_kind(item) for item in old}
        if odd := [item for item in new if _kind(item) not in kinds]:
            yield PatchRefusal(
                "changed_type",
                where,
                f"the list holds {', '.join(sorted(kinds))}, not {_kind(odd[0])}",
            )


def _kind(value: Any) -> str:
    return KINDS.get(type(value), "object" if isinstance(value, Mapping) else "null")
