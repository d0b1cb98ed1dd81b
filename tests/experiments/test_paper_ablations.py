"""The recipes of 004's ablations on BFCL resolve, and each differs from the paper's form in the key
of its row."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rods.config import identity_diff, read_config

FOLDER = Path(__file__).parent.parent.parent / "experiments" / "ablations"
ROW = re.compile(r"^\| `([\w-]+)\.toml` \| (?:`([^`]+)`)? \|", re.MULTILINE)
ROWS = dict(ROW.findall((FOLDER / "README.md").read_text()))


def test_every_recipe_has_its_row() -> None:
    assert set(ROWS) == {file.stem for file in FOLDER.glob("*.toml")} and len(ROWS) == 12


@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"rods"}))
def test_a_recipe_differs_from_the_papers_form_in_the_key_that_its_row_names(name: str) -> None:
    rods, other = (read_config(FOLDER / f"{each}.toml") for each in ("rods", name))
    (difference,) = identity_diff(rods.identity(), other.identity())
    assert (
        difference.partition(":")[0] == ROWS[name].partition(" ")[0]
        and rods.operation == other.operation
    )
    section, key = ROWS[name].partition(" ")[0].split(".")
    told: Any = tomllib.loads(ROWS[name])
    assert (
        getattr(getattr(other, section), key) == told[section][key]
        and rods.preset == other.preset == "rods-paper"
    )
    assert rods.data.tasks == "bfcl" and rods.pool.max_generated == 400
