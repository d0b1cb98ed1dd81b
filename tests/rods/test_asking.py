"""Answers of models are read strictly, whichever way they are written."""

from __future__ import annotations

import pytest

from rods.asking import AnswerForm, Unreadable

VERDICTS = {
    "type": "array",
    "items": {"type": "string", "enum": ["aligned", "misaligned"]},
    "minItems": 1,
    "maxItems": 1,
}
FORM = AnswerForm(
    {"verdict": VERDICTS, "problem": {"type": "string"}}, optional=frozenset({"problem"})
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<verdict>aligned</verdict>", ""),
        ("<reason>a <verdict>x</verdict></reason> prose <verdict> aligned\n</verdict>", ""),
        ("<verdict>aligned", "not closed"),
        ("aligned</verdict>", "without"),
        ("<verdict>aligned</verdict><verdict>aligned</verdict>", "2 elements"),
        ("<verdict>maybe</verdict>", "must be one of"),
        ("<verdict>aligned</verdict><problem>a</problem><problem>b</problem>", "2 times"),
        ("", "0 elements"),
    ],
)
def test_tags_are_read_strictly(text: str, problem: str) -> None:
    if problem:
        with pytest.raises(Unreadable, match=problem):
            FORM.read(text, constrained=False)
    else:
        assert FORM.read(text, constrained=False)["verdict"] == ["aligned"]
