"""What no table of docs/reference.md takes from the code: the kinds of failure, a sentence."""

from pathlib import Path

from rods.faults import CALL_ERRORS
from rods.tasks import RETURN_SENTENCE

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()


def test_every_kind_of_failed_call_is_there() -> None:
    assert not [error for error in CALL_ERRORS if f"`{error}`" not in PAGE]


def test_the_sentence_with_which_tools_return_stands_there() -> None:
    assert " ".join(RETURN_SENTENCE.split()) in " ".join(PAGE.split())
