"""What a configuration may name by `package.module:function`, and what is said of names that are none."""

import pytest

from rods.environments.base import Environment
from rods.errors import UserError
from rods.functions import made_by, named_function
from rods.interfaces.base import Interface


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("json", "names no function"),
        ("nowhere.at_all:thing", "no module 'nowhere'"),
        ("json:sing", "json has no 'sing'"),
    ],
)
def test_a_name_that_cannot_be_found_says_so_and_where(name: str, what: str) -> None:
    with pytest.raises(UserError, match=what) as raised:
        named_function(name, where="some.key")
    assert raised.value.where == "some.key"


def test_a_factory_makes_what_is_asked_for() -> None:
    assert made_by("worlds.desk:environment", Environment, where="here").name == "desk"


@pytest.mark.parametrize(
    ("name", "what"),
    [("json:loads", "raised TypeError"), ("json:JSONDecoder", "makes a JSONDecoder, which is no Interface")],
)
def test_a_factory_that_fails_or_makes_something_else_is_a_persons_mistake(name: str, what: str) -> None:
    with pytest.raises(UserError, match=what) as raised:
        made_by(name, Interface, where="curriculum.stages.interface")
    assert raised.value.where == "curriculum.stages.interface"
