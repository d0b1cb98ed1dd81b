"""What no table of docs/reference.md takes from the code: the kinds of failure, a sentence, a whole
environment."""

import re
from pathlib import Path

import pytest

from rods.environments.loading import Environments
from rods.faults import CALL_ERRORS
from rods.tasks import RETURN_SENTENCE
from rods.worlds.checking.environments import check_environment

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()


def test_every_kind_of_failed_call_is_there() -> None:
    assert not [error for error in CALL_ERRORS if f"`{error}`" not in PAGE]


def test_the_sentence_with_which_tools_return_stands_there() -> None:
    assert f"> {RETURN_SENTENCE}\n" in PAGE


def test_the_world_by_hand_keeps_its_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "counter.py").write_text(snippet)
    monkeypatch.chdir(tmp_path)
    report = check_environment("counter.py:environment", Environments())
    assert report.ok and report.facts["reached"] == 2, report.lines()
