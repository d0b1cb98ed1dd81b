"""Doors: each stands in one room, and is one that features need; what is provided elsewhere is
refused."""

from __future__ import annotations

import importlib
import inspect
import re
import types
import typing
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from rods import extension
from rods.config import Config
from rods.errors import UserError
from rods.extension import DOORS, Door, features
from tests.parts import ROOT

ROOMS = ("rods", "buffers", "daemon", "trainer", "console", "evaluation", "worlds", "family/page")
STANDS = re.compile(
    r"(?P<before>(?:^ *#.*\n)*)^(?P<variable>\w+): Door\[.*\] = Door\(\s*\"(?P<name>\w+)\"\s*\)"
    r"(?P<behind>.*)$",
    re.MULTILINE,
)
PAPER = re.compile(r"\b00\d\b")


def doors() -> list[tuple[str, str]]:
    """The name of each door that a room has, with the comment beside it."""
    sources = (path.read_text("utf-8") for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return [
        (match["name"], match["before"] + match["behind"])
        for text in set(sources)
        for match in STANDS.finditer(text)
    ]


@pytest.mark.needs("page")
def test_every_door_stands_in_one_room() -> None:
    assert Counter(name for name, _ in doors()) == dict.fromkeys(DOORS, 1)


@pytest.mark.needs("seal", "feedback", "simulation", "environments", "processes", "supervised")
def test_a_door_has_two_features_or_a_paper_behind_it() -> None:
    provided = Counter(name for provides in features().values() for name in provides)
    assert [name for name, why in doors() if provided[name] < 2 and not PAPER.search(why)] == []


def _types() -> dict[str, object]:
    """What stands as the type of each door, by its name."""
    found = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for match in STANDS.finditer(path.read_text("utf-8")):
                parts = path.relative_to(ROOT).with_suffix("").parts
                module = ".".join(("rods", *parts[parts[0] == "rods" :])).removesuffix(".__init__")
                hints = typing.get_type_hints(
                    importlib.import_module(module), None, {"Config": Config}
                )
                found[match["name"]] = typing.get_args(hints[match["variable"]])[0]
    return found


def _leaves(kind: object) -> Iterator[object]:
    """The types that `kind` is put together of."""
    if isinstance(kind, list):
        for each in kind:
            yield from _leaves(each)
    elif typing.get_args(kind):
        yield from _leaves(list(typing.get_args(kind)))
    else:
        yield kind


@pytest.mark.needs(*features())
def test_features_are_held_to_the_types_that_stand_in_the_rooms() -> None:
    """`Provides`, by which mypy checks every feature, says of each door what the room says."""
    from rods.family import provides

    hints = typing.get_type_hints(provides.Provides)
    assert hints.keys() == DOORS
    assert _types() == hints


@pytest.mark.needs(*features())
def test_a_protocol_of_a_door_has_five_methods_at_most_and_says_its_types() -> None:
    """`Any` stands where JSON is meant, by that name."""
    from rods.family import provides

    leaves = {*_leaves([*typing.get_type_hints(provides.Provides).values()])}
    protocols = {leaf for leaf in leaves if _stands_at_a_door(leaf)}
    results = [
        typing.get_type_hints(function, vars(inspect.getmodule(function)))["return"]
        for protocol in protocols
        for function in _methods(protocol)
    ]
    protocols |= {leaf for leaf in _leaves(results) if _stands_at_a_door(leaf)}
    assert len(protocols) > 9
    for protocol in protocols:
        assert 1 <= len(_methods(protocol)) <= 5, protocol
        for function in _methods(protocol):
            written = inspect.getsource(function).split('"""')[0]
            assert not re.search(r"\bAny\b", written), (protocol, function)


def _stands_at_a_door(kind: object) -> bool:
    """Whether it is a protocol in a module that has a door."""
    module = inspect.getmodule(kind)
    return getattr(kind, "_is_protocol", False) and any(
        isinstance(value, Door) for value in vars(module).values()
    )


def _methods(protocol: object) -> list[types.FunctionType]:
    return [
        value
        for name, value in vars(protocol).items()
        if isinstance(value, types.FunctionType) and not name.startswith("_")
    ]


def test_the_mechanism_is_small() -> None:
    source = inspect.getsource(extension)
    assert source.count("\n") < 80
    assert not re.search(r"\bAny\b", source)


def test_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(PROVIDES={"windows": {}})
    monkeypatch.setattr(extension, "_modules", lambda: {"mine": module})
    with pytest.raises(UserError, match="windows") as refused:
        features.__wrapped__()
    assert "mine" in str(refused.value) and "verbs" in str(refused.value)
    with pytest.raises(LookupError):
        Door("windows")
