"""Replaces personal data in tasks: names of persons, e-mail addresses and phone numbers, each by
the same other one wherever it stands, in text, arguments and states alike.

E-mail addresses and phone numbers are known by their form. Names are those under keys that have
persons (`attendee`, `contacts`), the keys of such objects, what follows a title (`Dr.`), and words
that begin with a frequent given name. A name without any of these signs is not found; nor are
postal addresses, numbers of accounts and the like."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rods.files import module_table
from rods.model_json import mapped
from rods.tasks import Task

_TABLES = module_table(__file__)
GIVEN = frozenset(_TABLES["given"])
_PERSONS = re.compile(rf"(?i)(?:^|_)(?:{'|'.join(_TABLES['persons'])})(?:_?names?|s)?$")
_TITLED = re.compile(rf"\b(?:{'|'.join(_TABLES['titles'])})\.? +((?:[A-Z][\w'’-]+ ?){{1,2}})")
_LIKE_A_NAME = re.compile(r"[^\d@/:;!?()\[\]{}=<>\n]+")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_NAMED = re.compile(
    rf"\b({'|'.join(name.title() for name in sorted(GIVEN))})\b((?: [A-Z][\w'’-]+)*)"
)
_EMAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}")
# with a country's sign, or in two groups or more; no date, no time, no part of a word or number
_PHONE = re.compile(
    r"(?<![\w.,:/@+-])(?!\d{4}-\d\d-\d\d)(?!\d{1,3}[./]\d{1,3}[./]\d{1,4}\b)"
    r"(?:\+\d(?:[ ().\/-]{0,2}\d){6,14}|\(?\d{2,5}\)?(?:[ ./-]{1,2}\d{2,5}){2,4})(?![\w:@]|[.,-]\d)"
)
_PHONE_KEY = re.compile(r"(?i)(?:phone|mobile|fax|telephone|tel)(?:_?number)?s?$")
_FULL_NAME = 3  # words at most


class Pseudonyms:
    """Those of all personal data in `values`, JSON values, in the order in which they stand there:
    the same values give the same pseudonyms."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._names: dict[str, str] = {}  # by words in lower case, one word each
        self._plain: set[str] = set()  # of these, those that stand in lower case, too
        self._emails: dict[str, str] = {}
        self._phones: dict[str, str] = {}  # by digits
        pairs = [pair for value in values for pair in _texts(value)]
        self._taken = {word.lower() for _, text in pairs for word in _WORD.findall(text)}
        self._fresh = (name for name in _TABLES["pseudonyms"] if name not in self._taken)
        for key, text in pairs:
            self._find(key, text)
        words = sorted(self._names, key=len, reverse=True)
        word = rf"(?<![^\W_])(?:{'|'.join(map(re.escape, words)) or '$.'})(?![^\W_])"
        self._single = re.compile(rf"(?i){word}")
        self._pattern = re.compile(rf"(?i){word}(?:[ ._-]{word})*")

    @property
    def count(self) -> int:
        """How many values have a pseudonym; each word of a name is one."""
        return len(self._names) + len(self._emails) + len(self._phones)

    def task(self, task: Task) -> Task:
        """`task` with pseudonyms in all that its policy or its world sees, its id anew."""
        record = task.as_json()
        kept = ("schema", "environment", "type", "tools", "split", "provenance")
        changed = {
            key: value if key in kept else self.value(value)
            for key, value in record.items()
            if key != "id"
        }
        changed["goal"]["calls"] = [
            [{**call, "arguments": self.value(call["arguments"])} for call in turn]
            for turn in record["goal"]["calls"]
        ]
        return Task.from_json(changed)

    def value(self, value: Any) -> Any:
        """A JSON value with pseudonyms in all of its texts, keys too."""
        return mapped(value, lambda leaf: self._text(leaf) if isinstance(leaf, str) else leaf)

    def _text(self, text: str) -> str:
        text = _EMAIL.sub(lambda match: self._emails[match.group().lower()], text)
        text = _PHONE.sub(lambda match: self._phone(match.group()), text)
        digits = _digits(text)
        if digits in self._phones and not _WORD.search(text):  # under a key that says so
            text = self._phone(text)
        return self._pattern.sub(lambda match: self._name(match.group()), text)

    def _name(self, text: str) -> str:
        """Words that are names, one or a whole name, with their pseudonyms. A single word in lower
        case may be no name, as "rose"."""
        whole = re.search(r"[ ._-]", text) is not None

        def other(match: re.Match[str]) -> str:
            word = match.group()
            name = self._names[word.lower()]
            if word.islower():
                return name if whole or word in self._plain or word in GIVEN else word
            return name.upper() if word.isupper() and len(word) > 1 else name.title()

        return self._single.sub(other, text)

    def _phone(self, text: str) -> str:
        """The number with other digits, written as this one is."""
        digits = iter(self._phones.get(_digits(text), _digits(text)))
        return re.sub(r"\d", lambda _: next(digits), text)

    def _find(self, key: str, text: str) -> None:
        for address in _EMAIL.findall(text):
            number = len(self._emails) + 1
            self._emails.setdefault(address.lower(), f"person{number}@mail.example")
        bare = _EMAIL.sub(" ", text)
        numbers = [match.group() for match in _PHONE.finditer(bare)]
        if _PHONE_KEY.search(key) and not _WORD.search(bare):
            numbers.append(bare)
        for digits in filter(None, map(_digits, numbers)):
            if digits not in self._phones:
                # as many digits, which begin as numbers do that are never given out
                number = len(self._phones)
                other = f"555{number:0{max(1, len(digits) - 3)}}"
                self._phones[digits] = other[: len(digits)].rjust(len(digits), "0")
        words = _WORD.findall(bare)
        if _PERSONS.search(key) and 0 < len(words) <= _FULL_NAME and _LIKE_A_NAME.fullmatch(bare):
            self._add(words)
        for match in _TITLED.finditer(bare):
            self._add(match[1].split())
        for match in _NAMED.finditer(bare):
            self._add(_WORD.findall(match.group())[:_FULL_NAME])
        for word in words:
            if word.islower() and word in GIVEN:
                self._add([word])

    def _add(self, words: Iterable[str]) -> None:
        for word in words:
            folded = word.lower()
            if len(folded) > 1 and folded not in self._names:
                number = len(self._names)
                self._names[folded] = next(self._fresh, f"person{chr(97 + number % 26)}{number}")
            if word.islower():
                self._plain.add(folded)


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a JSON value, each with the key under which it stands. The keys of an object
    stand under the key of the object."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield key, name
            own = str(name)
            beside = value.keys() & {"email", "phone", "phone_number", "mobile"}
            if own == "name" and (beside or _PERSONS.search(key)):
                own = "person"
            yield from _texts(item, own)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, key)
    elif isinstance(value, str):
        yield key, value


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)
