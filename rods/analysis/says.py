"""Finds a value in a text: word for word, as a number, or in another form of the same (dates, split identifiers).

The one place that decides what a text says; flows, wording, gates and authors ask it.

- `Text.says`: the value itself stands there as a whole, numbers by value: "1,000" says 1000, "twenty-five" says 25.
- `Text.tells`: it stands there, or another form of it: "May 4th, 2024" tells "2024-05-04".
- `things`: what a text asks about: its quotations, numbers and identifiers.
- `stems`: the words that carry meaning, without their endings.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import orjson

WORD = re.compile(r"[^\W_]+")
QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)|\"([^\"]+)\"|“([^”]+)”")
# Signs and units belong to a number ("-3", "$5", "20%", "5km", "3pm", "2nd"); ranges, dates and times have several
# ("5-7", "2024-05-04", "10:30"). A comma groups thousands or separates. "1.2.3", "v2" and "file_4" have none.
_UNITS = "st|nd|rd|th|am|pm|km|cm|mm|mi|m|kg|g|lbs?|oz|l|ml|mph|kmh|psi|hrs?|h|mins?|secs?|s|kb|mb|gb|usd|eur|k"
NUMBER = re.compile(
    r"(?<!\w)(?<!\w\.)(?:(?<![\w)\]])([-+−]))?"
    r"(\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\.)\.\d+)"
    rf"({_UNITS})?(?!\w|\.\w)",
    re.IGNORECASE,
)
# What is no word of a language: parts joined by a sign, capitals, letters with digits.
IDENTIFIER = re.compile(r"[#@]?[^\W_]+(?:[._/][^\W_]+)+|[#@]\w+|\b[A-Z]{3,}\b|\b(?=\w*[A-Za-z])\w*\d\w*")
ABBREVIATED = frozenset(("e.g", "i.e", "a.m", "p.m", "u.s", "and/or", "he/she", "his/her"))  # no identifiers
HUGE = 1e300  # numbers that no text says; Python's integers may not even fit a float
_NUMBERED = re.compile(r"[^\W\d_]-\d+")  # "covid-19": a name rather than a number, for who asks what was asked about
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|_|-")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_COUNTS = {word: number for number, word in enumerate(_SMALL)} | {word: 20 + 10 * n for n, word in enumerate(_TENS)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_SPELLED = re.compile(
    rf"\b(?:{'|'.join((*_COUNTS, *_SCALES))})\b(?:(?: and |[ -])(?:{'|'.join((*_COUNTS, *_SCALES))})\b)*"
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
KEPT = 2_000  # characters of a text that is remembered folded


@dataclass(frozen=True, slots=True)
class Text:
    """A text, folded for searching, and the numbers in it."""

    folded: str
    numbers: frozenset[float]

    @staticmethod
    def of(text: str) -> Text:
        """What somebody says."""
        return _kept(text) if len(text) <= KEPT else _folded(text)

    @staticmethod
    def shown(text: str) -> Text:
        """What the text of a tool's result says: the leaves and keys of JSON, or the text."""
        try:
            value = orjson.loads(text)
        except ValueError:
            return Text.of(text)
        return Text.holding(value)

    @staticmethod
    def holding(value: Any) -> Text:
        """What a JSON value says with its leaves and keys."""
        found = [leaf for _, leaf in leaves(value, keys=True)]
        text = _folded(" | ".join(map(str, found)))
        exact = (float(leaf) for leaf in found if _is_number(leaf) and abs(leaf) < HUGE)
        return Text(text.folded, text.numbers.union(exact))

    def says(self, value: Any) -> bool:
        """Whether the text contains `value` as a whole: a number as a number, a text between the boundaries of words,
        a list or an object with all its leaves. True and False are words; None is never said."""
        if _is_number(value):
            return bool(abs(value) < HUGE and float(value) in self.numbers)
        if isinstance(value, (str, bool)):
            return _contains(self.folded, " ".join(str(value).casefold().split()))
        parts = [leaf for _, leaf in leaves(value)] if isinstance(value, (list, tuple, dict)) else []
        return bool(parts) and all(map(self.says, parts))

    def tells(self, value: Any) -> bool:
        """Whether the text says `value` or another form of the same: a date, an identifier in plain words, "the last"
        for 1. A list or an object is told when each of its leaves is."""
        if self.says(value):
            return True
        if isinstance(value, (list, dict)):
            parts = [leaf for _, leaf in leaves(value)]
            return bool(parts) and all(map(self.tells, parts))
        if isinstance(value, str):
            return self._dates(value) or self._in_words(value)
        return not isinstance(value, bool) and value == 1 and not _ONCE.isdisjoint(WORD.findall(self.folded))

    def _in_words(self, value: str) -> bool:
        words = " ".join(part for part in _HUMPS.split(value) if part)
        return words != value and self.says(words)

    def _dates(self, value: str) -> bool:
        date = _DATE.fullmatch(value.strip())
        if date is None or not 1 <= int(date[2]) <= 12:
            return False
        year, month, day = map(int, date.groups())
        name, words = _MONTHS[month - 1], set(WORD.findall(self.folded))
        days = {str(day), f"{day:02}", *(f"{day}{ending}" for ending in ("st", "nd", "rd", "th"))}
        months = {name, name[:3], str(month), f"{month:02}"}
        return all(map(words.intersection, (days, months, {str(year), f"{year % 100:02}"})))


def says(text: str, value: Any) -> bool:
    """Whether a user's `text` says `value`."""
    return Text.of(text).says(value)


def things(text: str) -> list[Any]:
    """The quotations of a text, and the numbers (as float) and identifiers outside of them, each once."""
    found: dict[Any, None] = dict.fromkeys(next(part for part in quoted if part) for quoted in QUOTED.findall(text))
    rest = _NUMBERED.sub(" ", QUOTED.sub(" ", text))
    names = [name for name in IDENTIFIER.findall(NUMBER.sub(" ", rest)) if name.casefold() not in ABBREVIATED]
    return list(found | dict.fromkeys(names) | dict.fromkeys(numbers(rest)))


def numbers(text: str) -> Iterator[float]:
    """The numbers that are written in digits."""
    for sign, digits, unit in NUMBER.findall(text):
        value = float(digits.replace(",", "")) * (1000 if unit == "k" else 1)
        yield -value if sign in ("-", "−") else value


def spelled(folded: str) -> Iterator[float]:
    """The numbers that are written in words; not a lone "one", which seldom is a number ("the one in drafts")."""
    for match in _SPELLED.finditer(folded):
        if match[0] == "one":
            continue
        total, current, last = 0, 0, 0  # `last`: what the last word added
        for word in match[0].replace("-", " ").split():
            if word in _SCALES:
                scale = _SCALES[word]
                current = max(current, 1) * scale
                if scale > 100:
                    total, current = total + current, 0
                last = scale
            elif word in _COUNTS:
                count = _COUNTS[word]
                if last and not (last > 99 or (last >= 20 and last % 10 == 0 and 0 < count < 10)):
                    yield float(total + current)
                    total = current = 0
                current, last = current + count, count or 1
        yield float(total + current)


def is_small(value: Any) -> bool:
    """Whether `value` is so short that finding it somewhere proves nothing."""
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, (int, float)):
        return abs(value) < 100 and float(value).is_integer()
    return isinstance(value, str) and len(value.strip()) < 3


def akin(field: str, argument: str) -> bool:
    """Whether two names share a word: `id` and `event_id`."""
    return not set(WORD.findall(field.casefold())).isdisjoint(WORD.findall(argument.casefold()))


def leaves(value: Any, name: str = "", *, keys: bool = False) -> Iterator[tuple[str, Any]]:
    """(name of the nearest key, leaf) for every leaf of a JSON value; with `keys`, the keys of objects too."""
    if isinstance(value, dict):
        for key, item in value.items():
            if keys:
                yield name, key
                if key.isdecimal() and len(key) < 19:  # JSON has no number keys: {"140": …} names 140
                    yield name, int(key)
            yield from leaves(item, key, keys=keys)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item, name, keys=keys)
    else:
        yield name, value


def key_of(value: Any) -> Any:
    """A hashable form in which equal values are equal: numbers by value, texts folded, True apart from 1."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, (list, tuple)):
        return tuple(key_of(item) for item in value)
    if isinstance(value, dict):
        return frozenset((key, key_of(item)) for key, item in value.items())
    return value


class _Stemmer(threading.local):
    """The word that a stemmer works on stands in the stemmer itself: a thread has one of its own."""

    @cached_property
    def word(self) -> Callable[[str], str]:
        from snowballstemmer import stemmer  # late: it brings every language's rules along

        return cast(Callable[[str], str], stemmer("english").stemWord)


_stemmer = _Stemmer()


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """`word` without its endings: "orders", "ordered" and "ordering" are one."""
    return _stemmer.word(word.casefold())


def stems(text: str) -> Iterator[str]:
    """The stems of the words of `text` that say something, identifiers taken apart."""
    for part in WORD.findall(_HUMPS.sub(" ", text)):
        if (lowered := part.casefold()) not in COMMON:
            yield stem(lowered)


def _folded(text: str) -> Text:
    folded = " ".join(text.casefold().split())
    return Text(folded, frozenset((*numbers(folded), *spelled(folded))))


_kept = lru_cache(maxsize=4096)(_folded)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _contains(text: str, part: str) -> bool:
    """Whether `part` stands in `text` as whole words; "_" is part of a word."""
    start = text.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        if not (_joins(text[start - 1 : start]) and _joins(part[0])) and not (
            _joins(text[end : end + 1]) and _joins(part[-1])
        ):
            return True
        start = text.find(part, start + 1)
    return False


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"
