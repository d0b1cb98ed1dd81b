"""Canonical JSON, content ids, rounding and keyed randomness: what makes the same input give the
same bytes. Ids hash canonical JSON, so 5 and 5.0 differ and key order does not matter. Here, at the
bottom, stand the names for JSON and for objects that are never changed, too, and parts of
mappings."""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar, dataclass_transform

import orjson

ID_DIGITS = 20  # 80 bits of SHA-256: no collision to expect among 10^9 tasks
EXACT = frozenset({str, int, bool, type(None)})  # values of these types are no NaN
DECIMALS = 12  # of a statistic or score; further ones depend on the order of summation
Json = Any  # what JSON can hold
JsonObject = dict[str, Json]
Texts = tuple[str, ...]  # names, or what a user says
JsonMapping = Mapping[str, Json]  # one that is only read
Class = TypeVar("Class")
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Class]) -> type[Class]:
    """A dataclass whose objects cannot be changed and have no room for other attributes."""
    return dataclass(frozen=True, slots=True)(cls)


def without(mapping: Mapping[Key, Value], *keys: Key) -> dict[Key, Value]:
    """`mapping` but for these keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def present(**fields: Any) -> JsonObject:
    """The fields that are not None: a record leaves the others out."""
    return {name: value for name, value in fields.items() if value is not None}


def only(mapping: Mapping[Key, Value], keys: Iterable[Key]) -> dict[Key, Value]:
    """What `mapping` has of these keys, in their order."""
    return {key: mapping[key] for key in keys if key in mapping}


def unique(values: Iterable[Value]) -> list[Value]:
    """JSON values in order, each once."""
    return list({canonical(value): value for value in values}.values())


def canonical(value: Any) -> bytes:
    """The canonical JSON bytes of `value`: UTF-8, sorted keys, no spaces. Raises ValueError for
    what JSON cannot say exactly: NaN and infinities (orjson would write null), keys that are not
    strings, integers over 64 bits, lone surrogates."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise ValueError(f"not canonical JSON: {error}") from error
    if b"null" in data:  # what such a number became; else there is none
        refuse_nan(value)
    return data


def content_id(value: Any) -> str:
    """The first 20 hex digits of SHA-256 over `canonical(value)`."""
    return hashlib.sha256(canonical(value)).hexdigest()[:ID_DIGITS]


def rounded(value: float) -> float:
    """`value` to 12 decimals, as every statistic is before it is compared, ranked or written."""
    return round(value, DECIMALS)


def keyed_random(random_seed: int, purpose: str, *keys: str | int) -> Random:
    """A generator that depends on nothing but its arguments."""
    digest = hashlib.sha256(canonical([random_seed, purpose, *keys])).digest()
    return Random(int.from_bytes(digest[:16], "big"))


def refuse_nan(value: Any) -> None:
    """Raises ValueError for a NaN or an infinity in `value`."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"not canonical JSON: {value} (JSON cannot say it)")
    if isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in EXACT:
                refuse_nan(item)
