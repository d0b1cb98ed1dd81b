"""Recipes of the calculator: 17 tools. The only thing is `number`, the result of a calculation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rods.canonical import keyed_random
from rods.composing.catalogue import Domain, Scene, Worded, Words
from worlds.bfcl.catalogue.notation import Part, Recipes, recipe

RECIPES: Recipes = {}
_add = partial(recipe, RECIPES, gives="number=0.result/")
_end = partial(recipe, RECIPES)  # nothing comes of it

for _tool, _lines in {
    "mean": (
        "(calculate|work out|tell me) the (average|arithmetic mean) of {numbers}",
        "(average|take the mean of) {numbers}",
    ),
    "standard_deviation": (
        "(calculate|work out|tell me) the standard deviation of {numbers}",
        "tell me how widely {numbers} are spread, as a standard deviation",
    ),
    "sum_values": ("add up {numbers}", "(calculate|work out|tell me) the (sum|total) of {numbers}"),
    "max_value": ("(tell me|find) the (largest|highest) of {numbers}",),
    "min_value": ("(tell me|find) the (smallest|lowest) of {numbers}",),
}.items():
    _add(f"ma_{_tool}", f"{_tool} numbers=numbers:numbers", *_lines)
for _tool, _lines in {
    "add": ("(tell me|work out) what {a} plus {b} is", "add {a} and {b}"),
    "subtract": ("(subtract|take) {b} from {a}", "(tell me|work out) what is left of {a} after taking away {b}"),
    "multiply": ("multiply {a} by {b}", "(tell me|work out) what {a} times {b} is"),
    "divide": ("divide {a} by {b}", "(tell me|work out) how often {b} goes into {a}, with decimals"),
}.items():
    _add(f"ma_{_tool}", f"{_tool} a=a:operand b=b:other_operand", *_lines)
    _add(f"ma_{_tool}_it", f"{_tool} a=^number b=b:operand", *(line.replace("{a}", "{number}") for line in _lines))
_add(
    "ma_power",
    "power base=a:base exponent=b:exponent",
    "(tell me|work out) {a} to the power of {b}",
    "raise {a} to the power of {b}",
)
_end(
    "ma_root",
    "square_root number=a:operand precision=digits:precision",
    "(tell me|work out) the square root of {a} with a precision of {digits} digits",
)
_end(
    "ma_logarithm",
    "logarithm value=a:operand base=b:log_base precision=digits:precision",
    "(tell me|work out) the logarithm of {a} to the base {b}, with a precision of {digits} digits",
)
_add(
    "ma_absolute",
    "absolute_value number=a:negative",
    "(tell me|give me) the absolute value of {a}",
    "drop the sign of {a}",
)
_add(
    "ma_round",
    "round_number number=a:decimal decimal_places=digits:places",
    "round {a} to {digits} decimal places",
    "cut {a} down to {digits} decimal places, rounding properly",
)
_add(
    "ma_round_it",
    "round_number number=^number decimal_places=digits:places",
    "round {number} to {digits} decimal places",
)
_add(
    "ma_percentage",
    "percentage part=a:portion whole=b:whole",
    "(tell me|work out) how many percent of {b} {a} is",
    "express {a} as a percentage of {b}",
)
_add(
    "ma_si",
    "si_unit_conversion value=a:operand unit_in=old:si_unit unit_out=new:other_si_unit",
    "convert {a} {old} to {new}",
    "(tell me|work out) how many {new} {a} {old} are",
)
_add(
    "ma_imperial",
    "imperial_si_conversion value=a:operand unit_in=old:imperial unit_out=new:other_imperial",
    "convert {a} {old} to {new}",
    "(tell me|work out) how many {new} {a} {old} are",
)
for _tool in ("mean", "standard_deviation"):
    recipe(
        RECIPES,
        f"ma_{_tool}_round",
        f"{_tool} numbers=numbers:numbers; round_number number=0.result decimal_places=digits:places",
        f"(calculate|work out) the {'average' if _tool == 'mean' else 'standard deviation'} of {{numbers}} and round it"
        " to {digits} decimal places",
        gives="number=1.result/",
    )
recipe(
    RECIPES,
    "ma_divide_round",
    "divide a=a:operand b=b:other_operand; round_number number=0.result decimal_places=digits:places",
    "divide {a} by {b} and round the result to {digits} decimal places",
    gives="number=1.result/",
)
recipe(
    RECIPES,
    "ma_percentage_round",
    "percentage part=a:portion whole=b:whole; round_number number=0.result decimal_places=digits:places",
    "(tell me|work out) how many percent of {b} {a} is, rounded to {digits} decimal places",
    gives="number=1.result/",
)
recipe(
    RECIPES,
    "ma_sum_divide",
    "sum_values numbers=numbers:numbers; divide a=0.result b=b:operand",
    "add up {numbers} and divide the total by {b}",
    gives="number=1.result/",
)

_rng = keyed_random(0, "numbers of the calculator")
_DECIMALS = tuple(sorted({_rng.randint(3, 900) + _rng.randint(1, 99) / 100 for _ in range(80)}))
_LISTS = tuple(_rng.sample((*range(12, 480, 3), *_DECIMALS), _rng.randint(3, 5)) for _ in range(120))
_SI = {"km": "kilometers", "m": "meters", "cm": "centimeters", "mm": "millimeters"}
_IMPERIAL = {
    "cm": "centimeters",
    "in": "inches",
    "m": "meters",
    "ft": "feet",
    "yd": "yards",
    "km": "kilometers",
    "miles": "miles",
    "kg": "kilograms",
    "lb": "pounds",
    "celsius": "degrees Celsius",
    "fahrenheit": "degrees Fahrenheit",
}
_PAIRS = (("cm", "in"), ("m", "ft"), ("m", "yd"), ("km", "miles"), ("kg", "lb"), ("celsius", "fahrenheit"))


def _partners(scene: Scene) -> list[Worded]:
    old = scene.chosen["old"]
    codes = [other for one, two in _PAIRS for unit, other in ((one, two), (two, one)) if unit == old]
    return [Worded(code, _IMPERIAL[code]) for code in codes]


def _not(scene: Scene, values: tuple[float, ...]) -> list[float]:
    return [value for value in values if value not in scene.chosen.values()]


DOMAINS: Mapping[str, Domain] = {
    "numbers": lambda scene: _LISTS,
    "operand": lambda scene: (*range(12, 990, 7), *_DECIMALS[::3]),
    "other_operand": lambda scene: _not(scene, (*range(3, 60, 4), *_DECIMALS[:12])),
    "base": lambda scene: range(2, 16),
    "exponent": lambda scene: _not(scene, (2, 3, 4, 5, 6)),
    "log_base": lambda scene: (2, 3, 5, 10),
    "precision": lambda scene: (4, 6, 8, 10, 12),
    "negative": lambda scene: [-value for value in (*range(13, 400, 11), *_DECIMALS[::4])],
    "decimal": lambda scene: [round(value * 1.2347 + 0.0061, 4) for value in _DECIMALS],
    "places": lambda scene: (1, 2, 3),
    "portion": lambda scene: range(11, 190, 4),
    "whole": lambda scene: range(200, 990, 13),
    "si_unit": lambda scene: [Worded(code, words) for code, words in _SI.items()],
    "other_si_unit": lambda scene: [Worded(code, words) for code, words in _SI.items() if code != scene.chosen["old"]],
    "imperial": lambda scene: [Worded(code, words) for code, words in _IMPERIAL.items()],
    "other_imperial": _partners,
}
PART = Part(
    "MathAPI",
    RECIPES,
    domains=DOMAINS,
    things={"number": Words(("the result you got", "the number you worked out"), ("that result", "that number"))},
    vague={"places": ("a few",), "operand": ("a certain number",)},
    supply={
        "places": ("Make it {value}.", "I mean {value} places."),
        "operand": ("The number is {value}.", "I mean {value}.", "Take {value}."),
    },
    families={"operand": "other_operand portion whole base"},
    siblings=(
        ("mean", "sum_values"),
        ("max_value", "min_value"),
        ("si_unit_conversion", "imperial_si_conversion"),
        ("divide", "percentage"),
    ),
    swaps={
        "subtract": ("a", "b"),
        "divide": ("a", "b"),
        "percentage": ("part", "whole"),
        "power": ("base", "exponent"),
    },
)
