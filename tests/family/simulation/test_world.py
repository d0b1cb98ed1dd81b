"""A world of tool documents: results in their form, the same whichever way one comes to them, and
kept as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rods.analysis.sampling import Sampler
from rods.analysis.schemas import Checker
from rods.calls import Call
from rods.canonical import keyed_random
from rods.environments.base import Instance
from rods.environments.loading import Environments
from rods.errors import UserError
from rods.family.simulation.repository import environment, shipped
from rods.family.simulation.world import RepositoryEnvironment

WORLD = environment()


def value(world: Instance, name: str, **arguments: Any) -> dict[str, Any]:
    result = world.call(Call(name, arguments))
    assert result.error is None and json.loads(result.text) == result.value
    return dict(result.value)


def test_every_shipped_tool_answers_in_its_own_form() -> None:
    for one in shipped().tools.values():
        checker = Checker(one.tool.result or {})
        world = WORLD.reset(None)
        answered = 0
        for number in range(3):
            call = Sampler(keyed_random(number, one.tool.name)).call(one.tool)
            result = world.call(call)
            assert result.error in (None, "tool"), (call, result)
            if result.error is None:
                assert checker.fits(result.value), (call, result)
                answered += 1
        assert answered, one.tool.name


def test_a_thing_is_the_same_however_one_comes_to_it() -> None:
    found = value(WORLD.reset(None), "search_books", query="history of maps")["books"]
    assert found
    again = WORLD.reset(None)
    other = WORLD.reset({"random_seed": 5})
    for book in found:
        assert value(again, "get_book", book_id=book["book_id"]) == book
        assert value(other, "get_book", book_id=book["book_id"]) != book
    assert value(again, "search_books", query="history of maps")["books"] == found


def test_what_calls_do_stays_so() -> None:
    world = WORLD.reset({"random_seed": 3})
    loan = value(world, "borrow_book", book_id="BOK-12345", member_id="MEM-0001")
    assert (loan["book_id"], loan["member_id"], loan["status"]) == ("BOK-12345", "MEM-0001", "open")
    assert loan in value(world, "list_loans", member_id="MEM-0001")["loans"]
    second = value(world, "borrow_book", book_id="BOK-12345", member_id="MEM-0001")
    assert second["loan_id"] != loan["loan_id"]
    assert value(world, "return_book", loan_id=loan["loan_id"])["status"] == "returned"
    hold = value(world, "place_hold", book_id="BOK-12345", member_id="MEM-0001", branch="north")
    assert value(world, "cancel_hold", hold_id=hold["hold_id"])["deleted"] is True
    assert world.call(Call("cancel_hold", {"hold_id": hold["hold_id"]})).error == "tool"


@pytest.mark.parametrize(
    "call, error, said",
    [
        (Call("fly", {}), "unknown_tool", "'fly'"),
        (Call("get_book", {}), "bad_arguments", "missing arguments: book_id"),
        (
            Call("get_book", {"book_id": "BOK-12345", "page": 3}),
            "bad_arguments",
            "unknown arguments: page",
        ),
        (Call("get_book", {"book_id": 12345}), "bad_arguments", "must be of type string"),
        (Call("get_book", {"book_id": "12345"}), "bounds", "book_id"),
        (Call("search_books", {"query": "x" * 20_000}), "bounds", "allowed are 20,000"),
        (Call("search_books", {"query": float("nan")}), "bad_arguments", "not canonical JSON"),
    ],
)
def test_calls_that_break_their_document_are_refused_and_leave_no_trace(
    call: Call, error: str, said: str
) -> None:
    world = WORLD.reset(None)
    result = world.call(call)
    assert result.error == error and said in result.text
    assert world.snapshot() == WORLD.reset(None).snapshot()


def test_snapshots_and_forks_go_on_alike_and_states_are_compared_by_what_was_done() -> None:
    world = WORLD.reset({"random_seed": 3})
    loan = value(world, "borrow_book", book_id="BOK-12345", member_id="MEM-0001")
    value(world, "search_books", query="beginner chess")
    weather = value(world, "get_air_quality", city="Lisbon")
    restored = WORLD.reset(json.loads(json.dumps(world.snapshot())))
    fork = world.fork()
    for each in (restored, fork):
        assert each.same_state(world) and each.snapshot() == world.snapshot()
        assert value(each, "list_loans", member_id="MEM-0001") == value(
            world.fork(), "list_loans", member_id="MEM-0001"
        )
        assert value(each, "get_air_quality", city="Lisbon") == weather
    value(fork, "return_book", loan_id=loan["loan_id"])
    assert not fork.same_state(world)
    reader = WORLD.reset({"random_seed": 3})
    value(reader, "get_book", book_id="BOK-00001")
    value(reader, "borrow_book", book_id="BOK-12345", member_id="MEM-0001")
    assert reader.same_state(world)  # what was only read is no difference
    assert not WORLD.reset({"random_seed": 4}).same_state(WORLD.reset({"random_seed": 3}))


@pytest.mark.parametrize(
    "state",
    [
        {"seed": 3},
        {"random_seed": "3"},
        {"random_seed": 3, "ledger": {}},
        {"ledger": {"things": [[1]]}},
    ],
)
def test_states_that_are_none_are_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"seed|ledger"):
        WORLD.reset(state)


def test_the_hash_covers_documents_and_a_folder_of_ones_own_is_an_environment(
    tmp_path: Path,
) -> None:
    library = Path(str(shipped().tools["get_book"].where).partition(":")[0])
    (tmp_path / "categories.json").write_text('{"library": "Books."}')
    (tmp_path / "books.json").write_text(library.read_text())
    own = Environments().load(f"{tmp_path}/")
    assert (
        own.name == f"{tmp_path}/"
        and "borrow_book" in own.tools()
        and "send_message" not in own.tools()
    )
    assert own.hash != WORLD.hash == RepositoryEnvironment(shipped()).hash
    assert value(own.reset(None), "get_book", book_id="BOK-00001")
    (tmp_path / "books.json").write_text(
        library.read_text().replace("Borrows a book", "Lends a book")
    )
    assert Environments().load(f"{tmp_path}/").hash != own.hash
    (tmp_path / "more.json").write_text(library.read_text())
    with pytest.raises(UserError, match="has the name of a tool in"):
        Environments().load(f"{tmp_path}/")
