"""docs/configuration.md and docs/paper.md are written from rods/config/ and hold every key."""

import re

import pytest

from docs.generate.configuration import PAGE, PAPER, PAPER_PRESET, page, paper_page
from rods.config import Config, preset


@pytest.mark.needs(
    *("admit", "benchmarks", "environments", "feedback", "ray_cluster"),
    *("schedule", "seal", "simulation", "triage"),
)
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.generate.configuration`"
    assert PAPER.read_text(encoding="utf-8") == paper_page(), (
        "run `python -m docs.generate.configuration`"
    )


def test_every_section_and_key_is_on_it() -> None:
    text = page()
    for name, field in Config.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        assert (f"## `[{name}]`" if inner else f"- `{name}` (") in text
        for key in inner or ():
            assert (
                f"- `{key}` (" in text
                or f"`[{name}.{key}]`" in text
                or f"`[[{name}.{key}]]`" in text
            )


def test_every_key_says_what_it_means() -> None:
    bare = [
        line
        for line in page().splitlines()
        if line.startswith("- `") and line.rstrip().endswith(":")
    ]
    assert not bare, "give these keys a comment in rods/config/"


def test_the_papers_page_says_where_the_paper_has_each_key_and_why_ours_differs():
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", paper_page(), re.MULTILINE))
    keys = [f"{section}.{key}" for section, table in preset(PAPER_PRESET).items() for key in table]
    nested = keys.index("operation.endpoints")
    assert list(rows) == [*keys[:nested], "operation.endpoints.structured"]
    for key, row in rows.items():
        paper, source, ours, why = (cell.strip() for cell in row.split(" | "))
        assert source and paper.startswith("`")
        assert bool(why) == (ours != "the same") and ours != paper, key
    assert (
        rows["pool.retest_fraction"].startswith("`0.0` | §3.4")
        and "| `0.02` |" in rows["pool.retest_fraction"]
    )
