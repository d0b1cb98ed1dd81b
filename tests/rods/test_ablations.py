"""The ablations that docs/synthesis.md lists are valid configurations, and each is another one than the default."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rods.config import Config, identity_diff, parse_config

PAGE = Path(__file__).parent.parent.parent / "docs" / "synthesis.md"
ROW = re.compile(r"^\| ([^|]+) \| (`[^|]+`) \| [^|]+ \|$", re.MULTILINE)
ABLATIONS = dict(ROW.findall(PAGE.read_text().partition("## Ablations")[2]))


@pytest.mark.parametrize("name", ABLATIONS)
def test_a_documented_ablation_changes_exactly_the_keys_that_it_names(name: str) -> None:
    settings = re.findall(r"`([^`]+)`", ABLATIONS[name])
    values: dict[str, Any] = tomllib.loads("\n".join(settings))
    changed = identity_diff(Config().identity(), parse_config(values, where=str(PAGE)).identity())
    assert [line.partition(":")[0] for line in changed] == sorted(one.partition(" ")[0] for one in settings)


def test_all_of_the_paper_s_are_listed() -> None:
    assert len(ABLATIONS) == 9
