"""Finds a value in a text: as it is, as a number, in another form (docs/gates.md). Alone decides
what a text says."""

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import orjson

from rods.files import module_table

WORD = re.compile(r"[^\W_]+")
QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)|\"([^\"]+)\"|“([^“”]+)”")
# Signs and units belong to a number ("-3", "$5", "20%", "5km", "3pm", "2nd"); ranges, dates and
# times have several ("5-7", "2024-05-04", "10:30"). A comma groups thousands or separates. "1.2.3",
# "v2" and "file_4" have none.
_UNITS = (
    "st|nd|rd|th|am|pm|km|cm|mm|mi|m|kg|g|lbs?|oz|l|ml|mph|kmh|psi|hrs?|h|mins?|secs?|s|kb|mb|gb"
    "|usd|eur|k"
)
NUMBER = re.compile(
    r"(?<!\w)(?<!\w\.)(?:(?<![\w)\]])([-+−]))?"
    r"(\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\.)\.\d+)"
    rf"({_UNITS})?(?!\w|\.\w)",
    re.IGNORECASE,
)
# What is no word of a language: parts joined by a sign, capitals, letters with digits.
IDENTIFIER = re.compile(
    r"[#@]?(?<![^\W_])[^\W_]++(?:[._/][^\W_]++)+|[#@]\w+|\b[A-Z]{3,}\b|\b(?=\w*[A-Za-z])\w*\d\w*"
)
HUGE = 1e300  # numbers that no text says; Python's integers may not even fit a float
# "covid-19": a name rather than a number, for who asks what was asked about
_NUMBERED = re.compile(r"[^\W\d_]-\d+")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|_|-")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
WORDS = module_table(__file__, "words.toml")
_COUNTS = {word: number for number, word in enumerate(WORDS["numbers"])}
_COUNTS |= {word: 20 + 10 * number for number, word in enumerate(WORDS["tens"])}
_COUNTS |= WORDS["pairs"]
_SCALES: dict[str, int] = WORDS["scales"]
_CLOCK = re.compile(
    rf"\b(\d{{1,2}}|{'|'.join(WORDS['numbers'][1:13])})(?:[:.](\d\d))?"
    r"(?: ?(?:o'clock )?"
    r"(?:(am|a\.m\.?|in the morning)|(pm|p\.m\.?|in the (?:afternoon|evening)|at night))"
    r"(?!\w)|(?<=:\d\d)(?![:\d]))|\b(noon|midday|midnight)\b",
    re.IGNORECASE,
)
_MEASURE = re.compile(
    rf"\b(half an?|an?|\d+(?:\.\d+)?|{'|'.join(WORDS['numbers'][1:])})(?: more|-)? ?"
    rf"({'|'.join(WORDS['measures'])})s?\b"
)
_NUMERAL = rf"(?:{'|'.join((*_COUNTS, *_SCALES))})\b"
_SPELLED = re.compile(rf"\b{_NUMERAL}(?:(?: and |[ -]){_NUMERAL})*")
_ONCE = frozenset(WORDS["once"])
COMMON = frozenset(WORDS["common"].split())  # words that say nothing about which tool is meant
# characters of a text that is remembered folded; and of one that is found between words only
KEPT = 2_000


@dataclass(frozen=True, slots=True)
class Text:
    """A text, folded for searching, and the numbers in it."""

    folded: str
    numbers: frozenset[float]
    clocks: frozenset[tuple[int, int]] = frozenset()  #: times of day, as (hour of 24, minute)

    @staticmethod
    def of(text: str) -> "Text":
        """What somebody says."""
        return _kept(text) if len(text) <= KEPT else _folded(text)

    @staticmethod
    def shown(text: str) -> "Text":
        """What the text of a tool's result says: the leaves and keys of JSON, or the text."""
        value = read_json(text)
        return Text.of(value) if value is text else Text.holding(value)

    @staticmethod
    def holding(value: Any) -> "Text":
        """What a JSON value says with its leaves and keys."""
        values = values_in(value, keys=True)
        text = _folded(" | ".join(map(str, values)))
        exact = (float(leaf) for leaf in values if is_number(leaf) and abs(leaf) < HUGE)
        return Text(text.folded, text.numbers.union(exact), text.clocks)

    def contains_exact(self, value: Any) -> bool:
        """Whether the text contains `value` as a whole: a number as a number, a text between the
        boundaries of words, a list or an object with all its leaves. True and False are words; None
        is never said."""
        if is_number(value):
            return bool(abs(value) < HUGE and float(value) in self.numbers)
        if isinstance(value, (str, bool)):
            return _contains(self.folded, key_of(str(value)))
        parts = values_in(value) if isinstance(value, (list, tuple, dict)) else []
        return bool(parts) and all(map(self.contains_exact, parts))

    def contains_any_form(self, value: Any) -> bool:
        """Whether the text says `value` or another form of the same: a date, an identifier in plain
        words, "the last" for 1. A list or an object is told when each of its leaves is."""
        if self.contains_exact(value):
            return True
        if isinstance(value, (list, dict)):
            parts = values_in(value)
            return bool(parts) and all(map(self.contains_any_form, parts))
        if isinstance(value, str):
            words = " ".join(part for part in _HUMPS.split(value) if part)
            return (
                self._dates(value)
                or not self.clocks.isdisjoint(clocks(value))
                or (words != value and self.contains_exact(words))
            )
        return (
            not isinstance(value, bool)
            and value == 1
            and not _ONCE.isdisjoint(WORD.findall(self.folded))
        )

    def says_unit(self, value: Any) -> bool:
        """Whether `value` is a unit's sign that the text says in words: "feet" for "ft"."""
        words = WORDS["units"].get(value, ()) if isinstance(value, str) else ()
        return any(map(self.contains_exact, words))

    def converts(self, value: Any) -> bool:
        """Whether the number `value` is a measure of the text in a smaller unit: "three weeks" for
        21."""
        return is_number(value) and any(
            _size(count) * factor == value
            for count, unit in _MEASURE.findall(self.folded)
            for factor in WORDS["measures"][unit]
        )

    def covers(self, leaf: Any) -> bool:
        """Whether a leaf of an argument needs no mention, or is mentioned."""
        unspoken = leaf is None or isinstance(leaf, bool) or leaf == ""
        return unspoken or self.contains_any_form(leaf)

    def _dates(self, value: str) -> bool:
        date = _DATE.fullmatch(value.strip())
        if date is None or not (1 <= int(date[2]) <= 12 and 1 <= int(date[3]) <= 31):
            return False
        year, month, day = map(int, date.groups())
        name = WORDS["months"][month - 1]
        words = set(WORD.findall(self.folded))
        days = {str(day), f"{day:02}", *(f"{day}{ending}" for ending in ("st", "nd", "rd", "th"))}
        months = {name, name[:3], str(month), f"{month:02}"}
        if _contains(self.folded, WORDS["ordinals"][day - 1]):
            words.add(str(day))
        return all(map(words.intersection, (days, months, {str(year), f"{year % 100:02}"})))


def read_json(text: str) -> Any:
    """The JSON value that `text` is; where it is none, the text itself."""
    try:
        return orjson.loads(text)
    except ValueError:
        return text


def things(text: str) -> list[Any]:
    """The quotations of a text, and the numbers (as float) and identifiers outside of them, each
    once."""
    quotes: dict[Any, None] = dict.fromkeys(
        next(part for part in quoted if part) for quoted in QUOTED.findall(text)
    )
    rest = _NUMBERED.sub(" ", QUOTED.sub(" ", text))
    times = [float(part) for hour, minute in clocks(rest) for part in (hour, minute) if part]
    rest = _CLOCK.sub(" ", rest)
    names = [
        name
        for name in IDENTIFIER.findall(NUMBER.sub(" ", rest))
        if name.casefold() not in WORDS["abbreviated"]
    ]
    return list(quotes | dict.fromkeys(names) | dict.fromkeys((*numbers(rest), *times)))


def clocks(text: str) -> Iterator[tuple[int, int]]:
    """The times of day in a text, as (hour of 24, minute): "17:00", "4 pm", "three in the
    afternoon", "noon"."""
    for said, minute, early, late, word in _CLOCK.findall(text.casefold()):
        hour = int(_size(said)) if said else 12 * (word != "midnight")
        if (early or late) and hour <= 12:
            midnight = hour == 12 and late == "at night"
            hour = hour % 12 + 12 * bool(late and not midnight)
        if hour < 24 and int(minute or 0) < 60:
            yield hour, int(minute or 0)


def numbers(text: str) -> Iterator[float]:
    """The numbers that are written in digits."""
    for sign, digits, unit in NUMBER.findall(text):
        value = float(digits.replace(",", "")) * (1000 if unit == "k" else 1)
        yield -value if sign in ("-", "−") else value


def spelled(folded: str) -> Iterator[float]:
    """The numbers that are written in words; not a lone "one", which seldom is a number ("the one
    in drafts")."""
    for match in _SPELLED.finditer(folded):
        if match[0] == "one":
            continue
        # `last`: what the last word added
        total = 0
        current = 0
        last = 0
        for word in match[0].replace("-", " ").split():
            if word in _SCALES:
                scale = _SCALES[word]
                current = min(max(current, 1) * scale, int(HUGE))
                if scale > 100:
                    total = total + current
                    current = 0
                last = scale
            elif word in _COUNTS:
                count = _COUNTS[word]
                if last and not (last > 99 or (last >= 20 and last % 10 == 0 and 0 < count < 10)):
                    yield float(total + current)
                    total = current = 0
                current = current + count
                last = count or 1
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
    """(name of the nearest key, leaf) for every leaf of a JSON value; with `keys`, the keys of
    objects too."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item, name, keys=keys)
    elif isinstance(value, str) or not isinstance(value, Mapping):
        yield name, value
    else:
        for key, item in value.items():
            if keys:
                yield name, key
                # JSON has no number keys: {"140": …} names 140
                if key.isdecimal() and len(key) < 19:
                    yield name, int(key)
            yield from leaves(item, key, keys=keys)


def values_in(value: Any, *, keys: bool = False) -> list[Any]:
    """The leaves of a JSON value; with `keys`, the keys of objects too."""
    return [leaf for _, leaf in leaves(value, keys=keys)]


def keys_in(value: Any, *, keys: bool = False) -> set[Any]:
    """The same by `key_of`."""
    return set(map(key_of, values_in(value, keys=keys)))


def form_of(value: Any) -> str:
    """What an identifier looks like: "a.a" for "notes.txt", "A" for "AAPL", "000" for a number of
    three digits; "a" also for any ordinary word."""
    return re.sub("[a-z]+", "a", re.sub("[A-Z]+", "A", re.sub(r"\d", "0", str(value))))


def key_of(value: Any) -> Any:
    """A hashable form in which equal values are equal: numbers by value, texts folded, True apart
    from 1."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, (list, tuple)):
        return tuple(map(key_of, value))
    if isinstance(value, dict):
        return frozenset((key, key_of(item)) for key, item in value.items())
    return value


_per_thread = threading.local()  # the word that a stemmer works on stands in the stemmer itself


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """`word` without its endings: "orders", "ordered" and "ordering" are one."""
    if not hasattr(_per_thread, "stem"):
        from snowballstemmer import stemmer  # late: it brings every language's rules along

        _per_thread.stem = stemmer("english").stemWord
    return cast(str, _per_thread.stem(word.casefold()))


def stems(text: str) -> Iterator[str]:
    """The stems of the words of `text` that say something, identifiers taken apart."""
    for part in WORD.findall(_HUMPS.sub(" ", text)):
        if (lowered := part.casefold()) not in COMMON:
            yield stem(lowered)


def _folded(text: str) -> Text:
    text = key_of(text)
    times = frozenset(clocks(text))
    hours = (float(hour) for hour, minute in times if not minute)
    words = text.replace("half a dozen", "six")
    return Text(text, frozenset((*numbers(text), *spelled(words), *hours)), times)


_kept = lru_cache(maxsize=4096)(_folded)


def _size(count: str) -> float:
    if count[0] in "ah":  # "a", "half an"
        return 0.5 if count[0] == "h" else 1.0
    return _COUNTS[count] if count in _COUNTS else float(count)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _contains(text: str, part: str) -> bool:
    """Whether `part` stands in `text` as whole words; "_" is part of a word."""
    # its ends decide nothing, and are not tried at every place where it may begin
    if len(part) > KEPT:
        return part in text
    start = text.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        begins_inside = _joins(text[start - 1 : start]) and _joins(part[0])
        if not begins_inside and not (_joins(text[end : end + 1]) and _joins(part[-1])):
            return True
        start = text.find(part, start + 1)
    return False


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"
