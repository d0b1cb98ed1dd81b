"""The examples in docs/prompts/."""

from __future__ import annotations

import pytest

from docs.generate.prompts import PAGES, pages
from rods.prompts import FOLDER
from rods.prompts import load as template


@pytest.mark.slow
def test_the_examples_are_up_to_date_and_show_every_template_that_desk_needs() -> None:
    assert {
        file.name: file.read_text(encoding="utf-8") for file in PAGES.glob("*.md")
    } == pages(), "run `python -m docs.generate.prompts`"
    asked = {path.stem for path in FOLDER.glob("*.txt") if "system" in template(path.stem).sections}
    # desk generates its worlds
    assert {name.removesuffix(".md") for name in pages()} == asked - {"initial_state"}
