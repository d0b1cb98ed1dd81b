"""The configurations for models in their own chat formats are valid and name the parsers that the
tables of their families name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.fixtures.chat_templates import template
from rods.config import read_config
from rods.dialects.families import family_of

FOLDER = Path(__file__).parents[2] / "experiments" / "native"
TEMPLATES = {
    "qwen3-4b-instruct-2507": "qwen3_instruct_2507",
    "qwen3-8b": "qwen3",
    "qwen3.5-4b": "qwen3_5_think",
    "llama-3.1-8b": "llama3_1",
    "lfm2-1.2b": "lfm2",
    "gemma-4-e4b": "gemma4",
}


def test_each_file_has_a_row() -> None:
    rows = re.findall(r"^\| ([\w.-]+)\.toml \|", (FOLDER / "README.md").read_text(), re.M)
    assert sorted(rows) == sorted(TEMPLATES) == sorted(file.stem for file in FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_serving_line_names_the_parsers_of_the_family(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    config = read_config(FOLDER / f"{name}.toml")
    family = family_of(template(TEMPLATES[name]))
    assert family is not None and config.policy.dialect == "native"
    assert f"--tool-call-parser {family.server}" in text
    for parser in re.findall(r"--reasoning-parser (\S+)", text):
        assert parser == family.reasoning_server
    assert f"/{Path(config.policy.model).name} " in text
    row = next(
        line
        for line in (FOLDER / "README.md").read_text().splitlines()
        if line.startswith(f"| {name}.toml")
    )
    assert f"| {family.server} |" in row
