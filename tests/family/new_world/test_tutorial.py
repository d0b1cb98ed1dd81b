"""docs/tutorial.md: every command runs, in order, and every excerpt stands in the files that `rods
init` makes."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.composing.recipes import read
from rods.config.identity import PolicySettings
from rods.family.new_world.verbs import TEMPLATE
from tests.tutorial import blocks, carry_out

BIN = Path(sys.executable).parent


@pytest.mark.needs("page")
@pytest.mark.sweep  # tests/package.sh does it too
def test_every_command_runs_and_variants_come_of_it(tmp_path):
    folder = carry_out(BIN, tmp_path)

    def told(*verb: str) -> Any:
        command = [str(BIN / "rods"), *verb, "--json"]
        return orjson.loads(
            subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout
        )

    assert told("status", "runs/first")["injected"] >= 10
    assert (folder / "runs/first/report/index.html").exists()
    assert told("status", "runs/second")["injected"] >= 5
    by_model = told("inspect", "--cost", "runs/second")
    assert by_model["accepted"] >= 5 and list(by_model["endpoints"]) == ["stub-no-model"]


@pytest.mark.slow
def test_folders_of_the_user_s_may_be_called_like_packages_of_ours(tmp_path):
    subprocess.run([BIN / "rods", "init", "own"], cwd=tmp_path, check=True)
    for name in ("trainer", "daemon", "prompts"):
        (tmp_path / "own" / name).mkdir()
        (tmp_path / "own" / name / "__init__.py").write_text("raise SystemExit('not mine')")
    subprocess.run(
        [BIN / "rods", "up", "runs/x", "--config", "run.toml"],
        cwd=tmp_path / "own",
        check=True,
        timeout=300,
    )


def test_every_excerpt_stands_in_the_folder_s_files():
    world, catalogue, asking = (
        (TEMPLATE / name).read_text() for name in ("world.py", "catalogue.toml", "llm.toml")
    )
    python = blocks("python")
    toml = blocks("toml")
    assert len(python) == 4 and all(excerpt in world for excerpt in python)
    recipe, policy, endpoint = toml
    assert recipe in catalogue and endpoint in asking
    assert PolicySettings(**tomllib.loads(policy)["policy"]).model == "models/my-model"


@pytest.mark.slow
def test_the_task_of_the_page_holds(tmp_path):
    subprocess.run([BIN / "rods", "init", "own"], cwd=tmp_path, check=True)
    (task,) = blocks("json")
    (tmp_path / "own/one.jsonl").write_bytes(orjson.dumps(orjson.loads(task)))
    subprocess.run(
        [BIN / "rods", "data", "rehash", "one.jsonl", "--trust"], cwd=tmp_path / "own", check=True
    )
    subprocess.run(
        [BIN / "rods", "data", "check", "one.jsonl", "--trust"], cwd=tmp_path / "own", check=True
    )


@pytest.mark.parametrize("there", ["a file in it", "no folder"])
def test_a_folder_that_is_in_use_is_left_alone(tmp_path, there):
    place = tmp_path / "own"
    if there == "no folder":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "mine").write_text("mine")
    refused = subprocess.run(
        [BIN / "rods", "init", "own"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2 and "→" in refused.stderr and "Traceback" not in refused.stderr
    assert (
        place.read_text() if there == "no folder" else [each.name for each in place.iterdir()]
    ) in ("mine", ["mine"])


def test_every_recipe_of_the_template_is_asked_for_in_several_ways_that_belong_to_it():
    tables = read(TEMPLATE / "catalogue.toml")
    for recipe in tables.recipes.values():
        assert len(recipe.phrases) >= 2 and not any("{" in lead for lead in recipe.leads)
    leads = [lead for recipe in tables.recipes.values() for lead in recipe.leads]
    assert len(set(leads)) > 0.8 * len(leads) >= 20
    # no sentence that would stand in every variant
    assert not tables.openings and not tables.resumes
