"""Copies, compares and writes down what API objects hold: plain data, and random generators that
can be copied.

Objects of the seven plain classes hold JSON-like data (dicts may have integer keys, one attribute
is a set) and a `RecordedRandom`. Nothing in them is shared between two attributes, so a copy needs
no memory of what it has seen. The file system is a graph: `trees` copies it.
"""

import copy
import random
from functools import lru_cache
from typing import Any

from rods.worlds.bfcl.jsontext import KeptDict

ATOMS = frozenset({str, int, float, bool, type(None)})


def copy_plain(value: Any) -> Any:
    """An independent copy of plain data; anything else goes through `copy.deepcopy`."""
    kind = type(value)
    if kind is dict:
        return {
            key: item if type(item) in ATOMS else copy_plain(item) for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in ATOMS else copy_plain(item) for item in value]
    if kind in ATOMS:
        return value
    if kind is RecordedRandom or kind is set:  # a set of ids: numbers and texts
        return value.copy()
    if kind is KeptDict:
        return copy_plain(dict(value))  # a copy may be changed
    return copy.deepcopy(value)


def view(value: Any) -> Any:
    """An object of its own that shares all attributes with `value`."""
    fresh = object.__new__(type(value))
    fresh.__dict__ = value.__dict__.copy()
    return fresh


def same_object(actual: Any, expected: Any) -> bool:
    """The benchmark's comparison: every public attribute of `expected` equals that of `actual` by
    Python's `!=`."""
    attributes = actual.__dict__
    for name, item in expected.__dict__.items():
        if name[0] == "_":
            continue
        mine = attributes[name]
        if mine is item and type(item) is not float:  # a container equals itself; NaN does not
            continue
        if mine != item:
            return False
    return True


Draw = tuple[str, float, float]  # randint or uniform, low, high


class RecordedRandom:
    """Draws the numbers of `random.Random(seed)` and remembers the draws: copies cost next to
    nothing, and it can be written as JSON. Raises ValueError for a seed that would not give the
    same numbers again."""

    __slots__ = ("draws", "seed")

    def __init__(self, seed: Any, draws: tuple[Draw, ...] = ()) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, float, str)):
            raise ValueError(f"random_seed must be a number or text, not {seed!r}")
        self.seed = seed
        self.draws = draws
        if draws:
            _last_of(seed, draws)

    def copy(self) -> "RecordedRandom":
        fresh = object.__new__(RecordedRandom)
        fresh.seed = self.seed
        fresh.draws = self.draws
        return fresh

    def randint(self, low: int, high: int) -> int:
        return int(self._draw(("randint", low, high)))

    def uniform(self, low: float, high: float) -> float:
        return self._draw(("uniform", low, high))

    def _draw(self, draw: Draw) -> float:
        number = _last_of(self.seed, (*self.draws, draw))
        self.draws = (*self.draws, draw)
        return number


@lru_cache(16_384, typed=True)
def _last_of(seed: int | float | str, draws: tuple[Draw, ...]) -> float:
    """The number that the last of these draws gives. It is kept: many episodes begin with the same
    draws, and seeding costs more than everything else."""
    generator = random.Random(seed)
    numbers: list[float] = [getattr(generator, name)(low, high) for name, low, high in draws]
    return numbers[-1]


# Snapshots. What JSON cannot say (integer keys, sets, random generators) is wrapped in an object
# with one such key.
_PAIRS = "~pairs"
_SET = "~set"
_RANDOM = "~dice"
_WRAPPED = {_PAIRS, _SET, _RANDOM}


def encode(value: Any) -> Any:
    """`value` as JSON that `decode` turns back exactly. Raises ValueError for what has no such
    form."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is list:
        return [encode(item) for item in value]
    if kind is dict or kind is KeptDict:
        if all(type(key) is str for key in value) and not (
            len(value) == 1 and _WRAPPED & value.keys()
        ):
            return {key: encode(item) for key, item in value.items()}
        return {_PAIRS: [[key, encode(item)] for key, item in value.items()]}
    if kind is set:
        return {_SET: sorted(encode(item) for item in value)}
    if kind is RecordedRandom:
        return {_RANDOM: {"seed": value.seed, "draws": [list(draw) for draw in value.draws]}}
    raise ValueError(f"{kind.__name__} has no JSON form")


def decode(value: Any) -> Any:
    """What `encode` was given. Raises ValueError for anything that it cannot have written."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (tag, item), *_ = value.items()
        try:
            if tag == _PAIRS:
                return {key: decode(part) for key, part in item}
            if tag == _SET:
                return set(item)
            if tag == _RANDOM:
                return RecordedRandom(
                    item["seed"], tuple((name, low, high) for name, low, high in item["draws"])
                )
        except (TypeError, KeyError) as error:
            raise ValueError(f"not a snapshot: {tag} holds {item!r}") from error
    return {key: decode(item) for key, item in value.items()}
