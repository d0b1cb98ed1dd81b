"""What a configuration may name by `package.module:function`, and what is said of names that are
none."""

from pathlib import Path

import pytest

from rods.environments.base import Environment
from rods.errors import UserError
from rods.functions import made_by, named_function
from rods.interfaces import Interface


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("json", "names no function"),
        ("nowhere.at_all:thing", "no module 'nowhere'"),
        ("json:sing", "json has no 'sing'"),
        (":sing", "names no function"),
        ("nowhere.py:thing", "no file nowhere.py"),
    ],
)
def test_a_name_that_cannot_be_found_says_so_and_where(name: str, what: str) -> None:
    with pytest.raises(UserError, match=what) as raised:
        named_function(name, where="some.key")
    assert raised.value.where == "some.key"


def test_a_file_is_run_once_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("from __future__ import annotations\nfrom dataclasses import "
                                      "dataclass\n"
                                      "@dataclass\nclass A:\n    x: int = 0\ndef made(): return "
                                      "A()\n")  # fmt: skip
    monkeypatch.chdir(tmp_path)
    made = named_function("json.py:made", where="here")
    assert made().x == 0
    assert named_function(f"{tmp_path}/json.py:made", where="here") is made


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = 1\n1/0", "in line 2 ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("import no_x", "no_x"),
    ],
)
def test_a_file_that_cannot_be_run_is_a_persons_mistake(
    tmp_path: Path, text: str, what: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    for _ in range(2):
        with pytest.raises(UserError, match=what) as raised:
            named_function(f"{tmp_path}/broken.py:made", where="some.key")
        assert raised.value.where == "some.key"


def test_a_factory_makes_what_is_asked_for() -> None:
    assert made_by("rods.worlds.desk:environment", Environment, where="here").name == "desk"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("json:loads", "raised TypeError"),
        ("json:JSONDecoder", "makes a JSONDecoder, which is no Interface"),
    ],
)
def test_a_factory_that_fails_or_makes_something_else_is_a_persons_mistake(
    name: str, what: str
) -> None:
    with pytest.raises(UserError, match=what) as raised:
        made_by(name, Interface, where="curriculum.stages.interface")
    assert raised.value.where == "curriculum.stages.interface"
