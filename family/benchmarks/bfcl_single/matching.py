"""Whether decoded calls are among those that BFCL allows: by its own comparison of syntax trees,
taken by name out of the wheel, whose hash is checked. Where it raises, no call is allowed."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rods.canonical import JsonMapping, JsonObject
from rods.family.benchmarks.bfcl.harness import taken
from rods.family.benchmarks.bfcl_single import source_text
from rods.family.benchmarks.folder import Form
from rods.files import read_toml
from rods.worlds.bfcl import wheel

Decoded = Mapping[str, JsonMapping]  # one call: {name: {argument: value}}
_TAKEN = read_toml(Path(__file__).with_suffix(".toml"))["taken"]


def allowed(
    category: str,
    documents: Sequence[Any],
    answers: Sequence[Decoded],
    calls: Sequence[Decoded],
    form: Form,
) -> bool:
    """Whether `calls` are right in an item of `category`, for which each of `answers` has a name
    and a list of values for each argument. Native calls have underscores in the place of dots."""
    checker = _checker()
    language = checker["Language"](source_text.language(category))
    try:
        outcome = checker["ast_checker"](documents, calls, answers, language, category, form)
    except Exception:  # noqa: BLE001 BFCL's runner takes that for a wrong call
        return False
    return bool(outcome["valid"])


@cache
def _checker() -> JsonObject:
    """BFCL's comparison, which asks by the name of a model whether its calls have dots: here by
    their form."""
    names = {
        "re": re,
        "Language": taken(wheel.path(), "constants/enums.py")["Language"],
        "MODEL_CONFIG_MAPPING": {
            "prompt": SimpleNamespace(underscore_to_dot=False),
            "native": SimpleNamespace(underscore_to_dot=True),
        },
    }
    for language in ("java", "javascript"):
        names |= source_text.reading(language)
    return taken(wheel.path(), "eval_checker/ast_eval/ast_checker.py", _TAKEN, names)
