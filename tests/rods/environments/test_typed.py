"""Worlds from typed functions: what follows from annotations, what is asked for, and that the probe
finds no fault."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import Field

from rods.calls import Call
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.environments.typed import ToolError, TypedEnvironment
from rods.errors import BrokenEnvironment
from rods.worlds.checking.environments import Probe, check_environment

BookId = Annotated[int, Field(ge=1, le=999, description="The book's number.")]


@dataclass
class Loan:
    member: str
    days: int = 14


@dataclass
class Library:
    titles: dict[int, str] = field(default_factory=dict)
    loans: dict[int, Loan] = field(default_factory=dict)


WORLD = TypedEnvironment(f"{__name__}:environment", Library, behaviour=1)


@WORLD.tool("Loans")
def lend(
    library: Library,
    book: BookId,
    member: Annotated[str, Field(max_length=20)],
    days: Annotated[int, Field(ge=1, le=60)] = 14,
    shelf: Literal["open", "closed"] | None = None,
) -> Loan:
    """Lends a book
    to a member."""
    if book not in library.titles:
        raise ToolError(f"no book {book}")
    library.loans[book] = Loan(member, days)
    return library.loans[book]


@WORLD.tool("Catalogue")
def find(
    library: Library,
    words: Annotated[list[Annotated[str, Field(max_length=9)]], Field(max_length=3)],
) -> list[int]:
    """Finds books whose titles hold all words."""
    return [book for book, title in library.titles.items() if all(word in title for word in words)]


def environment() -> TypedEnvironment[Library]:
    return WORLD


STATE = {"titles": {"7": "the tin drum"}}


def test_schemas_follow_from_annotations():
    assert WORLD.tools()["lend"].schema() == {
        "name": "lend",
        "description": "Lends a book to a member.",
        "parameters": {
            "type": "object",
            "properties": {
                "book": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 999,
                    "description": "The book's number.",
                },
                "member": {"type": "string", "maxLength": 20},
                "days": {"type": "integer", "minimum": 1, "maximum": 60, "default": 14},
                "shelf": {"type": "string", "enum": ["open", "closed"]},
            },
            "required": ["book", "member"],
        },
    }
    assert WORLD.tools()["lend"].group == "Loans"
    assert WORLD.tools()["find"].result == {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("call", "text", "error"),
    [
        (Call("lend", {"book": 7, "member": "ann"}), '{"member":"ann","days":14}', None),
        (
            Call("lend", {"book": 7, "member": "ann", "days": 3, "shelf": "open"}),
            '{"member":"ann","days":3}',
            None,
        ),
        (Call("find", {"words": ["tin"]}), "[7]", None),
        (Call("lend", {"book": 8, "member": "ann"}), "no book 8", "tool"),
        (Call("lend", {"book": 7}), "missing arguments: member", "bad_arguments"),
        (
            Call("lend", {"book": 7, "member": "ann", "day": 3}),
            "unknown arguments: day",
            "bad_arguments",
        ),
        (
            Call("lend", {"book": "7", "member": "ann"}),
            "book: Input should be a valid integer",
            "bad_arguments",
        ),
        (
            Call("lend", {"book": True, "member": "ann"}),
            "book: Input should be a valid integer",
            "bad_arguments",
        ),
        (
            Call("lend", {"book": 10**30, "member": "ann"}),
            "book: Input should be less than or equal to 999",
            "bounds",
        ),
        (
            Call("lend", {"book": 7, "member": "a" * 21}),
            "member: String should have at most 20 characters",
            "bounds",
        ),
        (
            Call("lend", {"book": 7, "member": "a", "shelf": "x"}),
            "shelf: Input should be 'open' or 'closed'",
            "bounds",
        ),
        (Call("sell", {}), "no tool is called 'sell'", "unknown_tool"),
    ],
)
def test_calls_are_checked_and_answered_as_json(call, text, error):
    result = WORLD.reset(STATE).call(call)
    assert (result.text, result.error) == (text, error)
    assert error or result.value is not None


def test_worlds_share_nothing_and_snapshots_restore_them():
    world = WORLD.reset(STATE)
    fork = world.fork()
    world.call(Call("lend", {"book": 7, "member": "ann"}))
    assert fork.snapshot() == {"titles": {"7": "the tin drum"}, "loans": {}}
    assert not world.same_state(fork)
    assert world.snapshot()["loans"] == {"7": {"member": "ann", "days": 14}}
    assert WORLD.reset(world.snapshot()).same_state(world)
    assert WORLD.reset(None).snapshot() == {"titles": {}, "loans": {}}


@pytest.mark.parametrize(
    ("state", "what"),
    [
        ({"titles": {"x": "a"}}, "titles.x.\\[key\\]: Input should be a valid integer"),
        ({"tiles": {}}, "unknown field tiles"),
        ({"loans": {"7": {"member": "ann", "dys": 3}}}, "unknown field loans.7.dys"),
        ({"titles": {1, 2}}, "not JSON"),
    ],
)
def test_an_illegal_state_is_refused_with_its_place(state, what):
    with pytest.raises(ValueError, match=what):
        WORLD.reset(state)


def test_the_hash_follows_schemas_and_behaviour():
    def made(behaviour: int, most: int) -> str:
        world = TypedEnvironment("x:y", Library, behaviour=behaviour)

        def lend(library: Library, book: Any) -> int:
            """Lends."""
            return book

        lend.__annotations__ = {"book": Annotated[int, Field(ge=1, le=most)], "return": int}
        world.tool("Loans")(lend)
        return world.hash

    assert made(1, 9) == made(1, 9)
    assert len({made(1, 9), made(2, 9), made(1, 8)}) == 3


@pytest.mark.slow
def test_the_probe_finds_no_fault():
    report = check_environment(WORLD.name, Environments())
    assert not report.faults, report.faults


@dataclass
class _Unmakeable:
    name: str


@dataclass
class _Odd:
    handle: Any = field(default_factory=object)


@dataclass
class _Forgetful:
    last: float = float("nan")


def test_what_does_not_follow_is_asked_for():
    with pytest.raises(TypeError, match="int is no dataclass"):
        TypedEnvironment("x:y", int, behaviour=1)
    with pytest.raises(TypeError, match="give every field of _Unmakeable a default"):
        TypedEnvironment("x:y", _Unmakeable, behaviour=1)
    with pytest.raises(TypeError, match="_Odd is another one after"):
        TypedEnvironment("x:y", _Odd, behaviour=1)
    with pytest.raises(TypeError, match="_Forgetful is another one after"):
        TypedEnvironment("x:y", _Forgetful, behaviour=1)


def _undocumented(library: Library) -> None: ...


def _untyped(library: Library, book) -> None:
    """Does."""


def _starred(library: Library, *books: int) -> None:
    """Does."""


def _file(library: Library, handle: object) -> None:
    """Does."""


def _stateless() -> None:
    """Does."""


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (_undocumented, "no docstring"),
        (_untyped, "parameter 'book' has no type"),
        (_starred, r"\* and \*\* have no schema"),
        (_file, "parameter 'handle'"),
        (_stateless, "must be the state"),
        (lend, "two tools are called lend"),
    ],
)
def test_a_function_that_makes_no_tool_is_refused_where_it_is_defined(function, what):
    with pytest.raises(TypeError, match=what):
        WORLD.tool("Loans")(function)


@dataclass
class Jar:
    sweets: int = 3


def holds_at_least(jar: Jar, sweets: Annotated[int, Field(ge=0, le=9)]) -> bool:
    """The jar holds so many."""
    return jar.sweets >= sweets


def how_many(jar: Jar) -> int:
    """Counts them."""
    return jar.sweets


def test_checks_answer_of_the_state_and_are_no_tools():
    world, plain = (TypedEnvironment("jar", Jar, behaviour=1) for _ in range(2))
    world.check(holds_at_least)
    assert (
        list(world.checks()) == ["holds_at_least"]
        and not world.tools()
        and world.hash != plain.hash
    )
    asked = [
        world.reset({"sweets": 3}).call(Call("holds_at_least", {"sweets": count}))
        for count in (3, 4, 99)
    ]
    assert [(one.value, one.error) for one in asked] == [
        (True, None),
        (False, None),
        (None, "bounds"),
    ]
    with pytest.raises(TypeError, match="check how_many: write `-> bool`"):
        world.check(how_many)
    with pytest.raises(TypeError, match="two tools are called holds_at_least"):
        world.tool("Jars")(holds_at_least)


@dataclass
class Shelf:
    books: dict[str, Annotated[int, Field(le=9)]] = field(default_factory=dict)
    sealed: bool = False


SHELF = TypedEnvironment(f"{__name__}:shelf", Shelf, behaviour=1)


@SHELF.tool("Shelf", reads=False)
def put(shelf: Shelf, book: Annotated[str, Field(max_length=9)], copies: int = 1) -> int:
    """Puts a book on the shelf."""
    shelf.books[book] = shelf.books.get(book, 0) + copies
    return shelf.books[book]


@SHELF.tool("Shelf", reads=False)
def seal(shelf: Shelf) -> bool:
    """Seals the shelf."""
    shelf.sealed = True
    return True


@SHELF.rules
def broken(before: Shelf, shelf: Shelf) -> dict[int, str]:
    found: dict[int, str] = {}
    if len(shelf.books) > 2:
        found[1] = f"there are {sorted(shelf.books)}"
    if before.sealed and before.books != shelf.books:
        found[2] = "it is sealed"
    if shelf.books.get("odd"):
        raise KeyError("odd")
    before.books.clear()
    shelf.books.clear()
    return found


def test_a_call_that_breaks_a_rule_is_the_world_s_fault_and_is_undone() -> None:
    world = SHELF.reset({"books": {"a": 1, "b": 1}})
    for call, what in (
        (Call("put", {"book": "c"}), r"put\(book='c'\) breaks rule 1: there are \['a', 'b', 'c'\]"),
        (Call("put", {"book": "a", "copies": 9}), "breaks bounds: books.a: "),
        (Call("put", {"book": "odd", "copies": 1}), "the rules raised KeyError"),
    ):
        with pytest.raises(BrokenEnvironment, match=what):
            world.call(call)
        assert world.snapshot() == {"books": {"a": 1, "b": 1}, "sealed": False}
    assert world.call(Call("put", {"book": "a"})).error is None
    fork = world.fork()
    assert world.call(Call("seal", {})).error is None
    with pytest.raises(BrokenEnvironment, match="breaks rule 2: it is sealed"):
        world.call(Call("put", {"book": "a"}))
    assert fork.call(Call("put", {"book": "a"})).text == "3"  # what the rules do to it is undone


def test_a_state_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="breaks rule 1: there are"):
        SHELF.reset({"books": {"a": 1, "b": 1, "c": 1}})


def test_a_probe_tells_a_broken_rule_with_tool_and_call_once() -> None:
    probe = Probe(cast(Environment, SHELF))
    world = SHELF.reset({"books": {"a": 1, "b": 1}})
    for book in ("c", "d", "e", "f", "g"):
        probe.call(world, Call("put", {"book": book}))
    probe.call(world, Call("put", {"book": "odd"}))
    assert [(fault.control, fault.where) for fault in probe.faults] == [
        ("rules", "put"),
        ("rules", "the rules"),
    ]
    assert probe.faults[0].what.endswith("(put(book='c'))") and not probe.hung
