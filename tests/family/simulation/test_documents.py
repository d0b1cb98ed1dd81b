"""A repository of tools is read from folders and environments; what is wrong with one is told."""

from __future__ import annotations

import contextlib
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.analysis.schemas import limits
from rods.errors import UserError
from rods.family.simulation.documents import Effect, from_environment, read_folder
from tests.environments import load

LOAN = {
    "type": "object",
    "properties": {
        "loan_id": {"type": "string"},
        "book": {"type": "string"},
        "status": {"enum": ["open", "over"]},
    },
    "required": ["loan_id", "book", "status"],
}


def lend(**other: Any) -> dict[str, Any]:
    return {
        "name": "lend",
        "description": "Lends a book.",
        "parameters": {
            "type": "object",
            "properties": {
                "book": {
                    "type": "string",
                    "description": "Which one.",
                    "examples": ["The Salt Road"],
                }
            },
            "required": ["book"],
        },
        "result": {"$ref": "#/$defs/loan"},
        "effect": {"does": "creates", "entity": "loan", "sets": {"status": "open"}},
        **other,
    }


def file(*tools: Any, **other: Any) -> dict[str, Any]:
    return {
        "category": "library",
        "entities": {"loan": "loan_id"},
        "$defs": {"loan": LOAN},
        "tools": list(tools) or [lend()],
        **other,
    }


def folder(path: Path, *files: Any) -> Path:
    for number, each in enumerate(files):
        data = each if isinstance(each, bytes) else orjson.dumps(each)
        (path / f"file{number}.json").write_bytes(data)
    (path / "categories.json").write_bytes(orjson.dumps({"library": "Books."}))
    return path


def takes(schema: Any, required: Any = ()) -> dict[str, Any]:
    return {"type": "object", "properties": {"book": schema}, "required": list(required)}


def test_a_folder_is_read_with_what_its_tools_do(tmp_path: Path) -> None:
    repository = read_folder(folder(tmp_path, file()))
    assert repository.categories == {"library": "Books."}
    (one,) = repository.of("library")
    assert one.tool.result == LOAN and one.tool.group == "library" and not one.tool.bounded
    assert one.effect == Effect("creates", "loan", "loan_id", {"status": "open"})


def test_examples_are_for_drawing_and_not_for_the_policy(tmp_path: Path) -> None:
    tool = read_folder(folder(tmp_path, file())).tools["lend"].tool
    assert "Salt Road" not in str(tool.schema()) and tool.schema()["parameters"]["required"] == [
        "book"
    ]
    assert limits(tool.parameters[0])["examples"] == ["The Salt Road"]


def test_the_page_s_example_is_read_as_it_stands(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "trustee.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^    \{\n.*?^    \}\n", page, re.DOTALL | re.MULTILINE)
    one = read_folder(folder(tmp_path, block.encode())).tools["lend_book"]
    assert one.effect == Effect(
        "creates", "loan", "loan_id", {"status": "open"}, frozenset({"due"})
    )


RETURNS = {"properties": {"status": {"type": "string"}}, "type": "object"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            file(lend(), lend()),
            "tools[1] lend: has the name of a tool in {folder}/file0.json: tools[0] lend",
        ),
        (file(lend(name="7 books")), "tools[0]: has the name '7 books' → letters"),
        (file(lend(description=" ")), "lend: has no description → say in a sentence"),
        (file(category="zoo"), "file0.json: has the unknown category 'zoo' → name one of library"),
        (
            file(lend(parameters=takes({"type": "text"}))),
            "lend: book: has the type 'text' → JSON Schema knows string",
        ),
        (file(lend(parameters=takes({"enum": []}))), "lend: book: has an empty enum"),
        (
            file(lend(parameters=takes({"type": "string", "pattern": "("}))),
            "lend: book: has a schema that is none",
        ),
        (
            file(lend(parameters=takes({}, ["title"]))),
            "lend: requires 'title', which is not among its properties",
        ),
        (
            file(lend(parameters=takes("string"))),
            "lend: has no schema of an object as parameters (.properties.book is no object)",
        ),
        (
            file(lend(parameters={"book": {}})),
            "lend: has no schema of an object as parameters (.type is missing)",
        ),
        (
            file(lend(parameters=takes({"$ref": "#/$defs/copy"}))),
            "lend: refers to '#/$defs/copy' → define it",
        ),
        (
            file(**{"$defs": {"loan": {"$ref": "#/$defs/loan"}}}),
            "nested deeper than 32, or refers to itself",
        ),
        (file(lend(result={})), "lend: has no result → say what it returns"),
        (file(lend(result={"type": "string"})), "lend: has no schema of an object as result"),
        (file(lend(effect={"does": "burns"})), "lend: effect: is {'does': 'burns'} → write"),
        (
            file(lend(effect={"does": "reads", "entity": "loan"})),
            "effect: does not require 'loan_id' → require",
        ),
        (
            file(lend(effect={"does": "lists", "entity": "loan"})),
            "effect: has no list of things with 'loan_id'",
        ),
        (
            file(lend(effect={"does": "creates", "entity": "fee"})),
            "effect: is of the unknown entity 'fee'",
        ),
        (
            file(lend(result=RETURNS)),
            "effect: names 'loan_id', which is not in the result → return it",
        ),
        (file(tools={}), "file0.json: is no file of tools (.tools is no list)"),
        (file("lend"), "file0.json: is no file of tools (.tools[0] is no object) → write"),
        (b'{"category": "library", "category": "zoo"}', "names a key twice: 'category'"),
        (b"[", "file0.json: is no JSON"),
        (
            b'"M\xfcller"',
            "file0.json: is no JSON: 'utf-8' codec can't decode byte 0xfc in position 2",
        ),
        (b" " * ((16 << 20) + 1), "file0.json: is a file of more than 16 MiB"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(tmp_path: Path, content: Any, told: str) -> None:
    with pytest.raises(UserError) as error:
        read_folder(folder(tmp_path, content))
    assert told.replace("{folder}", str(tmp_path)) in str(error.value) and "→" in str(error.value)


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) for every value inside of `value`."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@pytest.mark.parametrize("junk", [None, 7, "x", [], ["x"], [[1]], {}, {"x": {}}, True])
def test_no_junk_in_a_file_is_more_than_a_user_s_error(tmp_path: Path, junk: Any) -> None:
    for number in range(len(places(file()))):
        content = deepcopy(file())
        container, key = places(content)[number]
        container[key] = junk
        with contextlib.suppress(UserError):
            read_folder(folder(tmp_path, content))


def test_a_folder_without_tools_or_categories_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"categories.json: is not there"):
        read_folder(tmp_path)
    with pytest.raises(UserError, match="holds no tools"):
        read_folder(folder(tmp_path))
    (tmp_path / "categories.json").write_text('["library"]')
    with pytest.raises(UserError, match="is no object of texts"):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["desk", pytest.param("bfcl", marks=pytest.mark.needs("bfcl"))])
def test_an_environment_s_own_tools_are_a_repository(name: str) -> None:
    environment = load(name)
    repository = from_environment(environment)
    assert list(repository.tools) == list(environment.tools())
    assert repository.categories.keys() == {tool.group for tool in environment.tools().values()}
    assert all(one.effect is None for one in repository.tools.values())
