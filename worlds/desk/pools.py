"""Desk's data: the names, topics, places and numbers of which its worlds are made.

Every value is one word (texts are one or two), and numbers come from small ranges, so that a word-level tokenizer of
about 800 entries covers all of it. Addresses and ids cannot be guessed from names: they must be looked up.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
HOURS = tuple(range(8, 18))
TEAMS = ("sales", "design", "legal", "support", "press", "research")
ROOMS = ("oak", "pine", "birch", "maple", "cedar", "elm", "willow", "ash")
FOLDERS = ("drafts", "archive", "public", "private", "shared", "old", "urgent", "weekly")
ACCOUNTS = ("cash", "savings", "payroll", "travel", "office", "reserve", "events", "taxes")

NAMES = _words(
    "ada ben carla dan eva finn gina hugo iris jonas kara leo mina nils olga paul quinn rosa sam tara uma victor "
    "wanda xavier yara zoe amir bella cyrus dora"
)
ADDRESSES = tuple(f"box{number}" for number in range(10, 40))
TOPICS = _words(
    "budget launch picnic audit workshop festival merger survey retreat auction parade contract wedding concert "
    "seminar banquet exhibition tournament inspection renovation fundraiser reunion premiere excursion"
)
FILES = _words(
    "memo notes agenda report outline invoice summary proposal roster schedule manual poster letter menu checklist "
    "script brochure diary ticket map"
)
VENDORS = _words("acme globex initech umbra vortex nimbus zenith orbit lumen cobalt falcon titan")
TEXTS = _phrases(
    "all approved, running late, many thanks, please review, not ready, well done, sign today, bring samples, "
    "stay calm, numbers changed, looks great, needs work, plan confirmed, call back, final version, good luck, "
    "more details, order snacks, check twice, start early"
)
AMOUNTS = tuple(range(20, 401, 20))  # what users move, bills ask
BALANCES = tuple(range(200, 801, 40))  # what accounts hold at first
FIRST_IDS = range(10, 24)  # numbers of what exists at the start: m12, e20, i19
NEXT_IDS = range(24, 27)  # the number that the next created thing gets
MAX_MONEY = 100_000  # of one payment
MAX_BALANCE = 10_000_000
