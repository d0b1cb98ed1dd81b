"""Desk's data: the names, topics, places and numbers of which its worlds are made.

Every value is one word (texts are one or two), and numbers come from small ranges, so that a
word-level tokenizer of about 800 entries covers all of it. Addresses and ids cannot be guessed from
names: they must be looked up.
"""

from rods.files import module_table

_WORDS: dict[str, list[str]] = module_table(__file__)

HOURS = tuple(range(8, 18))
ADDRESSES = tuple(f"box{number}" for number in range(10, 40))
DAYS, TEAMS, ROOMS, FOLDERS, ACCOUNTS = (
    tuple(_WORDS[name]) for name in ("days", "teams", "rooms", "folders", "accounts")
)
NAMES, TOPICS, FILES, VENDORS, TEXTS = (
    tuple(_WORDS[name]) for name in ("names", "topics", "files", "vendors", "texts")
)
AMOUNTS = tuple(range(20, 401, 20))  # what users move, bills ask
BALANCES = tuple(range(200, 801, 40))  # what accounts hold at first
FIRST_IDS = range(10, 24)  # numbers of what exists at the start: m12, e20, i19
NEXT_IDS = range(24, 27)  # the number that the next created thing gets
MAX_MONEY = 100_000  # of one payment
MAX_BALANCE = 10_000_000
