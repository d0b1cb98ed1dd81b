"""A small library: books stand on shelves, members borrow them.

The state is a dataclass and the tools are typed functions over it. The second half, from `ROOM` on,
and catalogue.toml serve the author that writes variants without a language model; a language model
needs the first half alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from rods.composing.catalogue import Catalogue, Recipe, Scene
from rods.composing.recipes import read
from rods.composing.records import Draft
from rods.environments.typed import ToolError, TypedEnvironment


@dataclass
class Book:
    title: str
    shelf: str
    borrower: int | None = None  # a member's number
    days: int = 0  # of the loan


@dataclass
class Library:
    books: dict[int, Book] = field(default_factory=dict)
    members: dict[int, str] = field(default_factory=dict)  # names


BookId = Annotated[int, Field(ge=1, le=999, description="The book's number.")]
MemberId = Annotated[int, Field(ge=1, le=999, description="The member's number.")]
Days = Annotated[int, Field(ge=1, le=60)]
Title = Annotated[str, Field(max_length=60)]
Name = Annotated[str, Field(max_length=40)]
Shelf = Annotated[str, Field(max_length=20)]
NAME = "world.py:environment"
WORLD = TypedEnvironment(NAME, Library, behaviour=1, catalogue=lambda: _catalogue())


def _book(library: Library, number: int) -> Book:
    if number not in library.books:
        raise ToolError(f"no book has the number {number}")
    return library.books[number]


@WORLD.tool("Books")
def find_book(library: Library, title: Title) -> dict[str, int | str | None]:
    """Finds a book by its title: its number, its shelf, and the number of the member who has it."""
    for number, book in library.books.items():
        if book.title == title:
            return {"book": number, "shelf": book.shelf, "borrower": book.borrower}
    raise ToolError(f"no book is called {title}")


@WORLD.tool("Books")
def list_shelf(library: Library, shelf: Shelf) -> list[str]:
    """Lists the titles of a shelf that nobody has borrowed."""
    return [
        book.title
        for book in library.books.values()
        if book.shelf == shelf and book.borrower is None
    ]


@WORLD.tool("Books")
def add_book(library: Library, title: Title, shelf: Shelf) -> dict[str, int]:
    """Adds a new book and gives its number."""
    if any(book.title == title for book in library.books.values()):
        raise ToolError(f"{title} is here already")
    number = max(library.books, default=0) + 1
    library.books[number] = Book(title, shelf)
    return {"book": number}


@WORLD.tool("Books")
def move_book(library: Library, book: BookId, shelf: Shelf) -> Book:
    """Puts a book on another shelf."""
    volume = _book(library, book)
    if volume.shelf == shelf:
        raise ToolError(f"book {book} stands there already")
    volume.shelf = shelf
    return volume


@WORLD.tool("Members")
def find_member(library: Library, name: Name) -> dict[str, int]:
    """Finds the number of a member by name."""
    for number, own in library.members.items():
        if own == name:
            return {"member": number}
    raise ToolError(f"no member is called {name}")


@WORLD.tool("Members")
def add_member(library: Library, name: Name) -> dict[str, int]:
    """Adds a new member and gives the member's number."""
    if name in library.members.values():
        raise ToolError(f"{name} is a member already")
    number = max(library.members, default=0) + 1
    library.members[number] = name
    return {"member": number}


@WORLD.tool("Members")
def list_loans(library: Library, member: MemberId) -> list[str]:
    """Lists the titles that a member has borrowed."""
    return [book.title for book in library.books.values() if book.borrower == member]


@WORLD.tool("Loans")
def lend(library: Library, book: BookId, member: MemberId, days: Days = 14) -> Book:
    """Lends a book to a member."""
    volume = _book(library, book)
    if member not in library.members:
        raise ToolError(f"no member has the number {member}")
    if volume.borrower is not None:
        raise ToolError(f"book {book} is lent already")
    volume.borrower = member
    volume.days = days
    return volume


@WORLD.tool("Loans")
def give_back(library: Library, book: BookId) -> Book:
    """Takes a borrowed book back."""
    volume = _book(library, book)
    if volume.borrower is None:
        raise ToolError(f"book {book} is not lent")
    volume.borrower = None
    volume.days = 0
    return volume


@WORLD.tool("Loans")
def extend(library: Library, book: BookId, days: Days) -> Book:
    """Extends a loan by a number of days."""
    volume = _book(library, book)
    if volume.borrower is None:
        raise ToolError(f"book {book} is not lent")
    volume.days += days
    return volume


def environment() -> TypedEnvironment[Library]:
    return WORLD


ROOM = {"books": 5, "members": 4}  # entries of a fresh state; padding adds as many again


def _catalogue() -> Catalogue:
    tables = read(Path(__file__).with_name("catalogue.toml"))
    pools = tables.pools

    def titles(scene: Scene, lent: bool) -> list[str]:
        return [
            book["title"]
            for book in scene.state["books"].values()
            if (book["borrower"] is not None) == lent
        ]

    def fresh(pool: str, taken: Sequence[str]) -> list[str]:
        return [value for value in pools[pool] if value not in taken]

    def number(
        taken: Mapping[str, Any], low: int, high: int, rng: random.Random, padding: bool
    ) -> str:
        """A new number. Padding takes one below the highest: the tools count on from there, and
        what they add to the padded state must get the number that it had before."""
        if padding:
            return str(
                rng.choice(
                    [free for free in range(1, max(map(int, taken))) if str(free) not in taken]
                )
            )
        return str(max(map(int, taken), default=rng.randint(low, high)) + rng.randint(1, 9))

    def add(state: dict[str, Any], avoid: frozenset[str], rng: random.Random) -> dict[str, Any]:
        """`state` with more books and members, none of which is called as `avoid` says."""
        books = dict(state["books"])
        members = dict(state["members"])
        padding = bool(books)
        taken = [book["title"] for book in books.values()]
        new = [name for name in fresh("names", [*members.values()]) if name.lower() not in avoid]
        for name in rng.sample(new, ROOM["members"]):
            members[number(members, 10, 60, rng, padding)] = name
        unread = [
            title for title in fresh("titles", taken) if not avoid & set(title.lower().split())
        ]
        for position, title in enumerate(rng.sample(unread, ROOM["books"])):
            borrower = int(rng.choice(sorted(members))) if position % 2 else None
            days = rng.randint(2, 20) if borrower else 0
            book = {
                "title": title,
                "shelf": rng.choice(pools["shelves"]),
                "borrower": borrower,
                "days": days,
            }
            books[number(books, 100, 600, rng, padding)] = book
        return {"books": books, "members": members}

    def make_state(
        recipes: Sequence[Recipe],
        avoid: Mapping[str, Any] | None,
        narrative: Mapping[str, str],
        rng: random.Random,
    ) -> dict[str, Any]:
        names = [*(avoid or {}).get("members", {}).values()]
        words = [
            word
            for book in (avoid or {}).get("books", {}).values()
            for word in book["title"].split()
        ]
        return add(
            {"books": {}, "members": {}}, frozenset(word.lower() for word in [*names, *words]), rng
        )

    def pad(draft: Draft, spoken: frozenset[str], rng: random.Random) -> dict[str, Any]:
        return add(dict(draft.state), spoken, rng)

    return tables.catalogue(
        NAME,
        domains={
            "free": lambda scene: titles(scene, lent=False),
            "lent": lambda scene: titles(scene, lent=True),
            "new_title": lambda scene: fresh(
                "titles", titles(scene, lent=False) + titles(scene, lent=True)
            ),
            "name": lambda scene: [*scene.state["members"].values()],
            "new_name": lambda scene: fresh("names", [*scene.state["members"].values()]),
            "shelf": lambda scene: pools["shelves"],
        },
        make_state=make_state,
        # a state always has books of both kinds: what fails is planned anew
        patch=lambda state, error, rng: None,
        pad=pad,
        topics=lambda rng: {"topic": rng.choice(pools["topics"])},
    )
