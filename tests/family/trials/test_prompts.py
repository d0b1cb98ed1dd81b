"""`rods prompts`, and the examples in docs/prompts/."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from docs.generate.prompts import PAGES, pages
from rods.buffers.run.run import Run
from rods.console.main import run
from rods.environments.base import reference
from rods.family.simulation.difficulty import Levels
from rods.family.simulation.generating import draw_task, open_task
from rods.family.simulation.repository import shipped
from rods.prompts import FOLDER
from rods.prompts import load as template
from tests.console.test_verbs import said, said_json
from tests.daemon.runs import make_run
from tests.environments import load


@pytest.mark.slow
def test_the_examples_are_up_to_date_and_show_every_template_that_desk_needs() -> None:
    assert {file.name: file.read_text(encoding="utf-8") for file in PAGES.glob("*.md")} == pages(), (
        "run `python -m docs.generate.prompts`"
    )
    asked = {path.stem for path in FOLDER.glob("*.txt") if "system" in template(path.stem).sections}
    assert {name.removesuffix(".md") for name in pages()} == asked - {"initial_state"}  # desk generates its worlds


def test_the_verb_prints_every_prompt_of_a_seed(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = said_json(capsys, "inspect", finished_run, Run.open(finished_run).tasks[0].id)["task"]["id"]
    found = said_json(capsys, "prompts", finished_run, task)
    roles = [one["role"] for one in found["prompts"]]
    assert roles[0] == "plan" and {"parameters", "rewrite", "judge"} <= set(roles) and found["missing"] == []
    text = said(capsys, "prompts", finished_run, task[:12])
    for number, one in enumerate(found["prompts"], start=1):
        assert f"===== {number}. {one['role']} ({one['template']})" in text
        assert f"about {one['tokens_in']} tokens in, at most {one['max_tokens']} out" in text
        assert all(line in text for message in one["messages"] for line in message["content"].splitlines())
        assert one["schema"]
    assert 'pipeline.author is "procedural"' in text
    assert "--- schema" in text and "--- schema" not in said(capsys, "prompts", finished_run, task, "--tagged")
    assert run(["prompts", str(finished_run), "zzz"]) == 2


def test_of_a_drawn_seed_the_one_question_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = open_task(draw_task(shipped(), Levels(3, 2, 1, 0, 1, 1, 2), 1, 1, 0), reference(load("repository")))
    folder = make_run(tmp_path / "run", {"training": {"batch_tasks": 1}}, [seed]).path
    found = said_json(capsys, "prompts", folder, seed.id)
    (one,) = found["prompts"]
    assert one["role"] == "simulated_task" and one["schema"] and found["missing"] == []
    offered = re.findall(r'^\{"name":"(\w+)"', one["messages"][1]["content"], re.MULTILINE)
    assert len(offered) == 3 and set(offered) != set(seed.tools)
    other = open_task(draw_task(shipped(), Levels(3, 2, 1, 0, 1, 1, 2), 1, 1, 1), reference(load("repository")))
    bare = make_run(tmp_path / "bare", {"training": {"batch_tasks": 1}}, [replace(other, provenance={})]).path
    assert run(["prompts", str(bare), other.id]) == 2
    assert "no model is asked to vary it" in capsys.readouterr().err
