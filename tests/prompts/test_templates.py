"""Every template loads, declares what it uses, and asks for an answer in both ways without touching a model's own
thinking mode."""

from __future__ import annotations

from pathlib import Path

import pytest

import prompts
from daemon.authors.llm.wording import query_template
from rods.composing.records import ComposeError
from tests.environments import load

NAMES = sorted(path.stem for path in prompts.FOLDER.glob("*.txt"))
AGENTS = [name for name in NAMES if "system" in prompts.load(name).sections]


@pytest.mark.parametrize("name", NAMES)
def test_a_template_fills_just_its_fields(name: str) -> None:
    template = prompts.load(name)
    values = dict.fromkeys(template.fields, "{braces} are data")
    assert "{braces} are data" in template.render(**values) or not template.fields or template.sections
    rendered = template.render_sections(**values)
    assert rendered.keys() == template.sections.keys() and all(rendered.values())
    with pytest.raises(ValueError, match="has the fields"):
        template.render_sections(**values, one_more="x")


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_asked_in_both_ways(name: str) -> None:
    sections = prompts.load(name).sections
    assert {"system", "user", "tagged", "constrained"} <= sections.keys()
    assert "<reason>" in sections["tagged"] and "JSON" in sections["constrained"]
    assert "<think>" not in "".join(sections.values())


def test_fields_that_are_not_declared_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.txt").write_text("What it is for.\nfields: one\n\n--- user\n{one} {two}\n")
    monkeypatch.setattr(prompts, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="declares 'one' and uses"):
        prompts.load("odd")


@pytest.mark.parametrize("name", ["desk", "bfcl"])
def test_every_built_in_class_has_a_query_template_of_its_own(name: str) -> None:
    environment = load(name)
    for group in {tool.group for tool in environment.tools().values()}:
        assert query_template(environment, group, fallback=False)[0] == f"query_class_{group}"


def test_an_environment_may_bring_its_own_query_templates() -> None:
    toy = load("tests.rods.toy_environment:environment")
    with pytest.raises(ComposeError, match="no query template"):
        query_template(toy, "Notes", fallback=False)
    assert query_template(toy, "Notes", fallback=True)[0] == "query_class_any"
    assert query_template(toy, "../policy_tags", fallback=True)[0] == "query_class_any"

    class Speaking:
        name = "speaking"
        query_templates = {"Notes": "Notes: people speak of their notes."}  # noqa: RUF012

    found = query_template(Speaking(), "Notes", fallback=False)  # type: ignore[arg-type]
    assert found[:2] == ("speaking Notes", "Notes: people speak of their notes.")
