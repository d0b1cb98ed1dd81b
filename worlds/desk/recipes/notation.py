"""How desk's recipes are written down, and the steps that several of them share.

A line of `recipe` reads: the book it goes into, name, steps in the short notation of `catalogue.step`, phrases, and
what the recipe gives or ends. Phrases keep to a small vocabulary (`vocabulary.words`) and name every slot once.
"""

from __future__ import annotations

from rods.composing.catalogue import Gift, Recipe, Step, source, step

Recipes = dict[str, Recipe]


def recipe(book: Recipes, name: str, steps: tuple[Step, ...], *phrases: str, gives: str = "", ends: str = "") -> None:
    """Adds a recipe to `book`. `gives` holds entries `kind=source/noun` separated by blanks, `ends` kinds."""
    gifts = {}
    for entry in gives.split():
        kind, _, rest = entry.partition("=")
        value, _, noun = rest.partition("/")
        gifts[kind] = Gift(source(value), noun)
    book[name] = Recipe(name, steps, phrases, gifts, tuple(ends.split()))


WHO = step("find_contact", name="name:contact")
SEARCH = step("search_mail", subject="subject:subject")
SPARE_MAIL = step("search_mail", subject="subject:spare_subject")  # not the one that the story is about
SPARE_EVENT = step("find_event", title="title:spare_title")
EVENT = step("find_event", title="title:title")
BILL = step("find_bill", vendor="vendor:vendor")
NEW_EVENT = step("create_event", title="title:new_title", day="day:day", hour="hour:hour")
