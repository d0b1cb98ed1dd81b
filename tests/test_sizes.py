"""The product stays small and its lines plain. Size is counted in tokens of Python's own tokenizer
without comments and docstrings, which layout cannot move."""

from __future__ import annotations

import ast
import io
import os
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tests.parts import ROOT

# Tokens at most. A feature that needs more takes it away elsewhere.
BUDGETS = {
    "product": 523_900,
    "core": 294_700,
    "rods": 129_300,
    "worlds": 68_150,
    "daemon": 48_350,
    "trainer": 44_150,
    "buffers": 40_550,
    "console": 15_650,
    "evaluation": 4_150,
    "prompts": 430,
    "family": 173_350,
}
ROOMS = BUDGETS.keys() - {"product", "core"}
OUTSIDE_CORE = (
    "family/",
    "worlds/bfcl/",
    "worlds/mcp/",
    "worlds/openenv/",
    "worlds/sandbox/",
    "trainer/nano/",
    "trainer/adapters/",
)
OTHERS = ("tests", "bench", "docs", "experiments")  # Python that is no product
WIDTH = 100
TUPLES = 3.0  # assignments of a tuple to a tuple, in 1,000 lines of the product
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
# kinds of tokens behind which a string is a docstring
STARTS = {
    tokenize.ENCODING,
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
}


def tokens(text: str) -> int:
    """Tokens of a module without comments, docstrings and layout."""
    count = 0
    before = tokenize.ENCODING
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        docstring = token.type == tokenize.STRING and before in STARTS
        count += token.type not in LAYOUT and not docstring
        before = token.type
    return count


@cache
def modules(*folders: str) -> dict[str, str]:
    """The text of every module under these folders, by its path; links are not followed."""
    return {
        file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
        for folder in folders
        for file in python_files(ROOT / folder)
    }


def python_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def product() -> dict[str, str]:
    return modules(*sorted(ROOMS))


def sizes() -> Counter[str]:
    """Tokens by room, of the core and of the product."""
    count: Counter[str] = Counter()
    for path, text in product().items():
        size = tokens(text)
        count[path.partition("/")[0]] += size
        count["product"] += size
        if not path.startswith(OUTSIDE_CORE):
            count["core"] += size
    return count


@pytest.mark.slow
def test_product_core_and_rooms_keep_their_budgets() -> None:
    count = sizes()
    over = [
        f"{name}: {count[name]:,} tokens, {budget:,} at most"
        for name, budget in BUDGETS.items()
        if count[name] > budget
    ]
    assert not over, "\n".join(over)


def test_every_room_has_a_budget() -> None:
    rooms = {place.parent.name for place in ROOT.glob("*/__init__.py")}
    assert rooms - {*OTHERS} <= ROOMS


def test_layout_comments_and_docstrings_count_for_nothing() -> None:
    plain = "def double(value: int) -> int:\n    return value * 2\n"
    spread = (
        '"""A module."""\n\n# why\n\ndef double(\n    value: int\n) -> int:\n'
        '    """Twice."""\n\n    return (  # so\n        value * 2\n    )\n'
    )
    assert tokens(spread) == tokens(plain) + 2  # the parentheses
    assert tokens(plain.replace("2", "'a text'")) == tokens(plain)


def test_no_line_is_too_long() -> None:
    wide = [
        f"{path}:{number}"
        for path, text in modules(*sorted(ROOMS), *OTHERS).items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > WIDTH
    ]
    assert not wide, "\n".join(wide)


@pytest.mark.slow
def test_tuples_are_hardly_ever_assigned_to_tuples() -> None:
    lines = sum(text.count("\n") for text in product().values())
    found = [
        f"{path}:{node.lineno}"
        for path, text in product().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    ]
    assert len(found) <= TUPLES * lines / 1000, "\n".join(found)


def test_the_linter_holds_one_statement_a_line() -> None:
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    assert ruff["line-length"] == WIDTH
    assert {"E701", "E702", "E703"} <= set(ruff["lint"]["select"])
    ignored = [*ruff["lint"]["ignore"], *chain(*ruff["lint"]["per-file-ignores"].values())]
    assert not [rule for rule in ignored if rule.startswith(("E5", "E7"))]
