"""Desk's catalogue for `rods/composing`."""

from __future__ import annotations

import random
from functools import cache

from rods.composing.catalogue import Catalogue
from worlds.desk import pools
from worlds.desk.domains import DOMAINS
from worlds.desk.phrases import BOOK
from worlds.desk.recipes import RECIPES
from worlds.desk.worlds import make_state, pad, patch

SHOWN = 14  # tools shown with a task: prompts stay short

_PAIRS = (
    ("add_income", "add_expense"),
    ("copy_file", "move_file"),
    ("lock_file", "unlock_file"),
    ("reply_mail", "forward_mail"),
    ("flag_mail", "delete_mail"),
    ("find_event", "list_day"),
    ("move_event", "cancel_event"),
    ("add_contact", "change_address"),
    ("find_bill", "add_bill"),
    ("read_file", "list_folder"),
    ("write_file", "create_file"),
)
SIBLINGS = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_FAMILIES = {
    "contact": "new_name",
    "address": "new_address new_guest new_reader",
    "team": "other_team lone_team",
    "subject": "new_subject spare_subject",
    "text": "new_text",
    "title": "new_title spare_title",
    "day": "lone_day",
    "room": "other_room",
    "file": "new_file locked_file",
    "folder": "other_folder lone_folder",
    "account": "target",
    "vendor": "new_vendor",
}
SWAPS = {"transfer_money": ("source", "target"), "copy_file": ("file", "copy"), "send_mail": ("subject", "text")}
_READERS = (
    "find_contact list_team search_mail read_mail find_event list_day list_folder read_file get_balance find_bill"
)


@cache
def catalogue() -> Catalogue:
    return Catalogue(
        environment="desk",
        recipes=RECIPES,
        domains=DOMAINS,
        book=BOOK,
        make_state=make_state,
        patch=patch,
        pad=pad,
        topics=_topics,
        thematic=frozenset({"subject", "new_subject", "title", "new_title"}),
        families={domain: family for family, domains in _FAMILIES.items() for domain in domains.split()},
        siblings=SIBLINGS,
        swaps=SWAPS,
        lookups=frozenset(_READERS.split()),
        shown=SHOWN,
    )


def _topics(rng: random.Random) -> dict[str, str]:
    return {"topic": rng.choice(pools.TOPICS)}
