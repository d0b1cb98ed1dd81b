"""How people say a value that stands otherwise in a call: dates, identifiers, parts of names, words of another form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rods.analysis.flows import Text, leaves

WORD = re.compile(r"[^\W_]+")
QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)|\"([^\"]+)\"|“([^”]+)”")
NUMBER = re.compile(r"(?<![\w.,-])-?\d[\d,]*(?:\.\d+)?(?!\w|\.\d)")
# What is no word of a language: parts joined by a sign, capitals, letters with digits. Ordinals are numbers.
IDENTIFIER = re.compile(
    r"(?!\d+(?:st|nd|rd|th)\b)(?:[#@]?[^\W_]+(?:[._/][^\W_]+)+|[#@]\w+|\b[A-Z]{3,}\b|\b(?=\w*[A-Za-z])\w*\d\w*)"
)
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|_|-")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_ONCE = frozenset(("one", "single", "first", "last", "top"))  # "the last line": lines=1
# Words that say nothing about which tool is meant.
_COMMON = (
    "a about after again all also am an and any are as at be been before but by can could do does done for "
    "from get give go going good had has have help here how i if in into is it its just let like make may me "
    "more my need new next no not now of off on once one or our out over please should so some take than thank "
    "thanks that the their them then there these they thing this those to too up us use want was we were what "
    "when which while who will with would you your "
)
COMMON = frozenset(_COMMON.split())


def tells(text: Text, value: Any) -> bool:
    """Whether `text` says `value`, word for word or in another form of the same: a date, an identifier in plain words.
    An object or a list is told when each of its leaves is."""
    if text.says(value):
        return True
    if isinstance(value, (list, dict)):
        parts = [leaf for _, leaf in leaves(value)]
        return bool(parts) and all(tells(text, part) for part in parts)
    if isinstance(value, str):
        return any(form(text) for form in _forms(value))
    return value == 1 and not _ONCE.isdisjoint(WORD.findall(text.folded))


@lru_cache(maxsize=4096)
def _forms(value: str) -> tuple[Any, ...]:
    found: list[Any] = []
    if date := _DATE.fullmatch(value.strip()):
        year, month, day = map(int, date.groups())
        if 1 <= month <= 12:
            found.append(lambda text: _dated(text, year, month, day))
    parts = " ".join(part for part in _HUMPS.split(value) if part)
    if parts != value:
        found.append(lambda text: text.says(parts))
    return tuple(found)


def _dated(text: Text, year: int, month: int, day: int) -> bool:
    words = set(WORD.findall(text.folded))
    name = _MONTHS[month - 1]
    days = {str(day), f"{day:02}", *(f"{day}{ending}" for ending in ("st", "nd", "rd", "th"))}
    months = {name, name[:3], str(month), f"{month:02}"}
    return bool(words & days) and bool(words & months) and bool(words & {str(year), f"{year % 100:02}"})


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """`word` without its commonest endings: "orders", "ordered" and "ordering" are one."""
    word = word.casefold()
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]  # "planned": plan
    return word[:-1] + "i" if len(word) > 3 and word[-1] == "y" else word


def stems(text: str) -> Iterator[str]:
    """The stems of the words of `text` that say something, identifiers taken apart."""
    for part in WORD.findall(_HUMPS.sub(" ", text)):
        if (lowered := part.casefold()) not in COMMON:
            yield stem(lowered)
