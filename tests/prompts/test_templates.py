"""Every template loads, declares what it uses, and asks for an answer in both ways without touching
a model's own thinking mode."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rods import prompts
from rods.analysis.schemas import fits
from rods.composing.catalogue import catalogue_for
from rods.composing.records import ComposeError
from rods.daemon.authors.llm.wording import query_template
from tests.environments import load

NAMES = sorted(path.stem for path in prompts.FOLDER.glob("*.txt"))
ANSWERS = {"query_fixable", "gt_unfixable", "turn_"}  # words of answers that look like names
PROGRAMS = {"default_factory", "max_length", "min_length", "broken_rules"}  # and of code
# of no world that is shipped: feedback on one must not find its answer in the prompt
OF_A_BUILDING = {"find_window", "close_window"}
AGENTS = [name for name in NAMES if "system" in prompts.load(name).sections]


@pytest.mark.parametrize("name", NAMES)
def test_a_template_fills_just_its_fields(name: str) -> None:
    template = prompts.load(name)
    values = dict.fromkeys(template.fields, "{braces} are data")
    assert (
        "{braces} are data" in template.render(**values) or not template.fields or template.sections
    )
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


def test_fields_that_are_not_declared_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.txt").write_text("What it is for.\nfields: one\n\n--- user\n{one} {two}\n")
    monkeypatch.setattr(prompts, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="declares 'one' and uses"):
        prompts.load("odd")


@pytest.mark.parametrize("name", ["desk", pytest.param("bfcl", marks=pytest.mark.needs("bfcl"))])
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


@pytest.mark.parametrize("name", AGENTS)
def test_every_role_has_one_worked_example_of_desk_whose_calls_are_possible(name: str) -> None:
    system = prompts.load(name).render_sections(**dict.fromkeys(prompts.load(name).fields, ""))[
        "system"
    ]
    _, mark, example = system.partition("\n\nAn example. ")
    assert mark and "An example." not in example
    tools = load("desk").tools()
    recipes = catalogue_for(load("desk")).recipes
    calls = [json.loads(line) for line in example.splitlines() if line.startswith('{"call"')]
    for call in calls:
        tool = tools[call["call"]]
        assert call["arguments"].keys() == {each.name for each in tool.parameters if each.required}
        assert all(fits(each.schema, call["arguments"][each.name]) for each in tool.parameters)
        json.loads(call["result"])
    named = {
        word for word in re.findall(r"[a-z]+_[a-z_]+", example) if word not in ANSWERS | PROGRAMS
    }
    assert named <= {*tools, *recipes} | OF_A_BUILDING and (calls or named or "calendar" in example)


def test_the_judge_and_the_refinement_know_the_paper_s_patterns() -> None:
    judge = prompts.load("judge_quality").sections["user"]
    for pattern in (
        "Thought Process",
        "Construct Query",
        "Step 1:",
        "Step 2:",
        "function",
        "argument",
        "jargon",
    ):
        assert pattern in judge.partition("4. naturalness")[2].partition("5. structure")[0]
    refine = prompts.load("refine_rewrite").sections
    assert "what the calls really do" in refine["system"] and "really do" in refine["user"]
