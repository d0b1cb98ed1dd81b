"""Doors: each stands in one room, and is one that features need; what is provided elsewhere is
refused."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace

import pytest

from rods import extension
from rods.errors import UserError
from rods.extension import DOORS, Door, features
from tests.parts import ROOT

ROOMS = ("rods", "buffers", "daemon", "trainer", "console", "evaluation", "worlds")
STANDS = re.compile(r"((?:^ *#.*\n)*)^\w+: Door\[.*\] = Door\(\s*\"(\w+)\"\s*\)(.*)$", re.MULTILINE)
PAPER = re.compile(r"\b00\d\b")


def doors() -> list[tuple[str, str]]:
    """The name of each door that a room has, with the comment beside it."""
    sources = (path.read_text("utf-8") for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return [
        (match[2], match[1] + match[3]) for text in set(sources) for match in STANDS.finditer(text)
    ]


def test_every_door_stands_in_one_room() -> None:
    assert Counter(name for name, _ in doors()) == dict.fromkeys(DOORS, 1)


@pytest.mark.needs("seal", "feedback", "simulation", "environments", "processes", "supervised")
def test_a_door_has_two_features_or_a_paper_behind_it() -> None:
    provided = Counter(name for provides in features().values() for name in provides)
    assert [name for name, why in doors() if provided[name] < 2 and not PAPER.search(why)] == []


def test_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(PROVIDES={"windows": {}})
    monkeypatch.setattr(extension, "_modules", lambda: {"mine": module})
    with pytest.raises(UserError, match="windows") as refused:
        features.__wrapped__()
    assert "mine" in str(refused.value) and "verbs" in str(refused.value)
    with pytest.raises(LookupError):
        Door("windows")
