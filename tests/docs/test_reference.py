"""The lists of docs/reference.md and docs/protocol.md are what the code says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import reference
from docs.generate.reference import PAGES


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.needs("feedback") if page.stem == "protocol" else ())
        for page in PAGES
    ],
    ids=lambda page: page.stem,
)
def test_a_page_is_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count(" -->\n") > 6
    assert text == reference.filled(text), "run `python -m docs.generate.reference`"


def test_a_line_has_type_default_and_meaning_and_the_names_of_a_record() -> None:
    group = reference.filled("<!-- rods.observations.Group -->\n<!-- end -->\n").splitlines()
    assert any(
        line.startswith("- `reward.range` (`tuple[float, float]`; required): ") for line in group
    )
    assert any(
        line.startswith("- `role` (`active`, `retest`, `drawn`; `active`): ") for line in group
    )
    world = reference.filled("<!-- rods.environments.base.Environment -->\n<!-- end -->\n")
    assert "- `reset(state)` (`Instance`): " in world


def test_a_field_without_a_comment_is_refused() -> None:
    with pytest.raises(KeyError, match="name"):
        reference.filled("<!-- rods.tasks.EnvironmentRef -->\n<!-- end -->\n")


def test_a_part_of_nothing_is_refused() -> None:
    with pytest.raises((AttributeError, ImportError)):
        reference.filled("<!-- rods.observations.None -->\n<!-- end -->\n")
