"""BFCL's calculator, which has no state: the numbers and units that may be chosen."""

from collections.abc import Mapping

from rods.canonical import keyed_random
from rods.composing.catalogue import Domain, Scene, Worded
from rods.worlds.bfcl.catalogue.scenario import ClassCatalogue, tables

_TABLES = tables("calculator")
_IMPERIAL: Mapping[str, Worded] = {unit.value: unit for unit in _TABLES.domains["imperial"]}
_rng = keyed_random(0, "numbers of the calculator")
_DECIMALS = tuple(sorted({_rng.randint(3, 900) + _rng.randint(1, 99) / 100 for _ in range(80)}))
_LISTS = tuple(
    _rng.sample((*range(12, 480, 3), *_DECIMALS), _rng.randint(3, 5)) for _ in range(120)
)


def _partners(scene: Scene) -> list[Worded]:
    pairs = [
        either
        for left, right in _TABLES.pools["unit_pairs"]
        for either in ((left, right), (right, left))
    ]
    return [_IMPERIAL[other] for unit, other in pairs if unit == scene.chosen["old"]]


def _other(*values: float) -> Domain:
    return lambda scene: [value for value in values if value not in scene.chosen.values()]


DOMAINS: Mapping[str, Domain] = {
    "numbers": lambda scene: _LISTS,
    "operand": lambda scene: (*range(12, 990, 7), *_DECIMALS[::3]),
    "other_operand": _other(*range(3, 60, 4), *_DECIMALS[:12]),
    "exponent": _other(2, 3, 4, 5, 6),
    "negative": lambda scene: [-value for value in (*range(13, 400, 11), *_DECIMALS[::4])],
    "decimal": lambda scene: [round(value * 1.2347 + 0.0061, 4) for value in _DECIMALS],
    "portion": lambda scene: range(11, 190, 4),
    "whole": lambda scene: range(200, 990, 13),
    "other_si_unit": lambda scene: [
        unit for unit in _TABLES.domains["si_unit"] if unit.value != scene.chosen["old"]
    ],
    "other_imperial": _partners,
}
CALCULATOR = ClassCatalogue("MathAPI", _TABLES, DOMAINS)
