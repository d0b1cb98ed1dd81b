"""docs/reference.md has every field that a user of the seams meets, and its environment is a sound one."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from rods.composing.catalogue import Catalogue, PhraseBook, Scene, Words
from rods.environments.base import Features, Instance, Parameter, Result, Tool
from rods.environments.loading import Environments
from rods.faults import CALL_ERRORS
from rods.tasks import RETURN_SENTENCE, SPLITS, TASK_TYPES
from tests.rods.toy_environment import record
from worlds.checking.environments import check_environment

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
SECTIONS = dict(zip(*[iter(re.split(r"^## (.*)\n", PAGE, flags=re.MULTILINE)[1:])] * 2, strict=True))


def names(kind: type) -> list[str]:
    return [each.name for each in fields(kind)]


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("Environment", [*names(Features), "name", "hash", "tools()", "reset(state)"]),
        ("Environment", [name for name in vars(Instance) if not name.startswith("_")]),
        ("Tool", [*names(Tool), *names(Parameter)]),
        ("Result", [*Result._fields, *CALL_ERRORS]),
        ("Task", [*record(), *TASK_TYPES, *SPLITS, "held_out", "provenance", "id"]),
        ("Catalogue", [*names(Catalogue), *names(Scene)]),
        ("PhraseBook", [*names(PhraseBook), *names(Words), "opening", "later", "closing"]),
    ],
)
def test_every_field_is_there(section: str, expected: list[str]) -> None:
    said = set(re.findall(r"`([\w.]+)[^`]*`", SECTIONS[section]))
    said |= {part for name in said for part in name.split(".")}
    missing = [name for name in expected if name.removesuffix("()").removesuffix("(state)") not in said]
    assert not missing


def test_the_sentence_with_which_tools_return_stands_there() -> None:
    assert f"> {RETURN_SENTENCE}\n" in PAGE


def test_the_world_by_hand_keeps_its_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "counter.py").write_text(snippet)
    monkeypatch.chdir(tmp_path)
    report = check_environment("counter.py:environment", Environments())
    assert report.ok and report.facts["reached"] == 2, report.lines()
