"""Reads a catalogue's tables from TOML: recipes, phrase book, pools of values, and what belongs to
them.

`read` checks one file, `merged` puts several together, and `RecipeTables.catalogue` adds what only
code can say: domains that look at the state, initial states, patches, padding. docs/composing.md
shows every table with an example, and the shorthands: alternatives "(show|print)", which may be
empty and do not nest; shared entries "@name", which may use those above them; families, a recipe
with `each` written once for each of its members. Whatever the format does not know is a UserError
with file, key and remedy. Whether tools, slots and things fit together is checked against the
environment, by `rods.worlds.checking.soundness`."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rods.canonical import keyed_random
from rods.composing import catalogue
from rods.errors import UserError
from rods.files import read_toml

# that one line of a recipe stands for: lines of many alternatives do not drown the others
MOST_PHRASES = 16
MOST_LINES = 40  # that one line of a frame, a link or a story stands for
LONGEST = 40  # words of a turn, where no file says otherwise
_ALTERNATIVES = re.compile(r"\(([^()]*\|[^()]*)\)")
_SHARED = re.compile(r"@(\w+)")
_MEMBER = re.compile(r"<(\w+)>")
_FACTS = ("ends", "when", "unless", "makes", "purpose")
_LISTS = ("steps", "phrases", *_FACTS)
_RECIPE = (*_LISTS, "gives", "short", "each")
_JSON = json.JSONDecoder()

T = TypeVar("T")
Table = Mapping[str, Any]


@dataclass(frozen=True)
class RecipeTables:
    """What the files say. Fields are those of `Catalogue` and `PhraseBook`; `domains` are the ones
    with fixed values, `pools` whatever lists and tables the environment's own code draws from."""

    file: str
    recipes: Mapping[str, catalogue.Recipe] = field(default_factory=dict)
    domains: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pools: Mapping[str, Any] = field(default_factory=dict)
    frames: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    openings: tuple[str, ...] = ()
    resumes: tuple[str, ...] = ()
    stories: tuple[catalogue.Story, ...] = ()
    things: Mapping[str, catalogue.Words] = field(default_factory=dict)
    vague: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    supply: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    again: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    longest: int = 0
    families: Mapping[str, str] = field(default_factory=dict)
    siblings: Mapping[str, str] = field(default_factory=dict)
    swaps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    lookups: frozenset[str] = frozenset()
    thematic: frozenset[str] = frozenset()
    ordinary: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()

    @property
    def book(self) -> catalogue.PhraseBook:
        parts = {entry.name: getattr(self, entry.name) for entry in fields(catalogue.PhraseBook)}
        return catalogue.PhraseBook(**{**parts, "longest": self.longest or LONGEST})

    def catalogue(
        self, environment: str, *, domains: Mapping[str, catalogue.Domain], **rest: Any
    ) -> catalogue.Catalogue:
        """The catalogue of `environment`: these tables, `domains` besides the fixed ones, and
        `rest`, the other fields of `Catalogue` (`make_state`, `patch`, `pad` and `topics` at
        least). Raises UserError for a domain that both the tables and `domains` define, and for a
        thing without the noun that its words hold."""
        if twice := sorted(domains.keys() & self.domains.keys()):
            what = f"the code defines {', '.join(twice)} too"
            raise UserError(what, where=f"{self.file}, domains", remedy="keep one of the two")
        for name, recipe in self.recipes.items():
            for kind, gift in recipe.gives.items():
                explicit = self.things[kind].explicit if kind in self.things else ()
                if not gift.noun and any("{noun}" in words for words in explicit):
                    slot = (
                        f"/{gift.value.kind}"
                        if isinstance(gift.value, catalogue.FromEarlierRecipe)
                        else "/slot"
                    )
                    what = (
                        f"gives a {kind} without a noun, and the words of things.{kind} hold "
                        f"{{noun}}"
                    )
                    remedy = f"end its source with {slot}, or write words without {{noun}}"
                    raise UserError(
                        what, where=f"{self.file}, recipes.{name}.gives.{kind}", remedy=remedy
                    )
        shared = {entry.name for entry in fields(catalogue.Catalogue)}.intersection(TABLES) - {
            "domains"
        }
        own = {name: getattr(self, name) for name in shared}
        fixed = {name: _fixed(values) for name, values in self.domains.items()}
        return catalogue.Catalogue(
            environment, domains={**domains, **fixed}, book=self.book, **{**own, **rest}
        )


TABLES = tuple(entry.name for entry in fields(RecipeTables)[1:])


def _fixed(values: tuple[Any, ...]) -> catalogue.Domain:
    return lambda scene: values


def read(path: Path) -> RecipeTables:
    """The tables of one file. Raises UserError naming file and key for whatever is not of the
    format."""
    return TableReader(str(path), read_toml(path)).tables()


def merged(tables: Sequence[RecipeTables]) -> RecipeTables:
    """One of several, in their order. Raises UserError when two define the same name."""
    whole: dict[str, Any] = {name: getattr(RecipeTables(""), name) for name in TABLES}
    for name, table in itertools.product(TABLES, tables):
        content = getattr(table, name)
        so_far = whole[name]
        twice: list[str] = []
        if isinstance(content, Mapping):
            twice = sorted(map(str, content.keys() & so_far.keys()))
            whole[name] = {**so_far, **content}
        elif isinstance(content, int):
            twice = [name] if content and so_far else []
            whole[name] = content or so_far
        else:
            whole[name] = so_far | content if isinstance(content, frozenset) else so_far + content
        if twice:
            what = f"another file defines {', '.join(twice)} too"
            raise UserError(
                what,
                where=f"{table.file}, {name}",
                remedy="keep one of them, or give one another name",
            )
    return RecipeTables(", ".join(table.file for table in tables), **whole)


def source(text: str) -> catalogue.FromUser | catalogue.FromResult | catalogue.FromEarlierRecipe:
    """A source in short notation: `slot:domain`, `0.address` or `0.mails.0`, `^event`. Raises
    ValueError for others."""
    if text.startswith("^"):
        return catalogue.FromEarlierRecipe(text[1:])
    slot, colon, domain = text.partition(":")
    if colon:
        return catalogue.FromUser(slot, domain)
    number, *path = text.split(".")
    if not number.isdigit() or not path:
        raise ValueError(f"{text!r} is neither slot:domain, step.path nor ^kind")
    return catalogue.FromResult(
        int(number), tuple(int(key) if key.isdigit() else key for key in path)
    )


def alternatives(line: str, most: int = MOST_PHRASES) -> list[str]:
    """The texts that a line with alternatives stands for, a fixed choice of `most` where there are
    more."""
    pieces = _ALTERNATIVES.split(line)  # plain text and alternatives take turns
    if len(pieces) == 1:
        return [line]
    choices = [piece.split("|") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    texts = [
        " ".join("".join(chosen).split()).replace(" ,", ",")
        for chosen in itertools.product(*choices)
    ]
    return texts if len(texts) <= most else keyed_random(0, "phrases", line).sample(texts, most)


class TableReader:
    """Checks and reads the tables of one file."""

    def __init__(self, file: str, content: Table) -> None:
        self.file = file
        self.content = content
        self.shared: dict[str, Any] = {}

    def tables(self) -> RecipeTables:
        self._only(self.content, "", ("shared", *TABLES))
        for name, value in self._table("shared").items():
            self.shared[name] = (
                self._entries(value, f"shared.{name}") if isinstance(value, list) else value
            )
        names = ("lookups", "thematic", "ordinary", "silent", "common")
        lists: dict[str, Any] = {
            name: frozenset(self._texts(self.content.get(name, []), name)) for name in names
        }
        lists |= {name: self._each(name, self._texts) for name in ("vague", "supply", "again")}
        lists |= {
            name: self._lines(self.content.get(name, []), name)
            for name in ("links", "openings", "resumes")
        }
        return RecipeTables(
            self.file,
            recipes=self._recipes(),
            domains=self._each("domains", self._values),
            pools=self._each(
                "pools", lambda pool, key: tuple(pool) if isinstance(pool, list) else pool
            ),
            frames={
                self._size(size): lines for size, lines in self._each("frames", self._lines).items()
            },
            stories=tuple(self._each("stories", self._story).values()),
            things=self._each("things", self._words),
            longest=self._longest(),
            families=self._families(),
            siblings=self._siblings(),
            swaps=self._each("swaps", self._pair),
            **lists,
        )

    # --- recipes

    def _recipes(self) -> dict[str, catalogue.Recipe]:
        recipes: dict[str, catalogue.Recipe] = {}
        for key, name, entry in self._written(self._table("recipes"), "recipes", {}):
            if name in recipes:
                self._fault(key, f"there are two recipes {name!r}", "give one of them another name")
            recipes[name] = self._recipe(name, entry, key)
        return recipes

    def _written(self, table: Table, where: str, outer: Table) -> Iterator[tuple[str, str, Table]]:
        """(key, name, fields) of each recipe, families written out for their members."""
        for name, entry in table.items():
            key = f"{where}.{name}"
            if not isinstance(entry, dict):
                self._fault(
                    key,
                    "is no recipe",
                    'write steps = ["tool name=source …"] and phrases = ["…"] under it',
                )
            if outer and "each" in entry:
                self._fault(key, "a family inside a family", "write one of the two out")
            for member in self._members(entry, key) if "each" in entry else [outer]:
                if "recipes" in entry:
                    self._only(entry, key, ("each", "recipes"))
                    yield from self._written(entry["recipes"], f"{key}.recipes", member)
                else:
                    self._only(entry, key, _RECIPE)
                    yield key, self._filled(name, member, key), self._for_member(entry, member, key)

    def _members(self, entry: Table, key: str) -> list[dict[str, Any]]:
        members = self._entries(entry["each"], f"{key}.each")
        if not members or not all(isinstance(member, dict) for member in members):
            self._fault(
                f"{key}.each", "must hold a table for each member", "write each = [{ name = … }, …]"
            )
        for member in members:
            self._only(member.get("adds", {}), f"{key}.each.adds", ("phrases", "gives", *_FACTS))
        return members

    def _for_member(self, entry: Table, member: Table, key: str) -> Table:
        """A recipe's fields with the shared entries put in, for one member of its family if it has
        one."""
        written = {name: value for name, value in entry.items() if name != "each"}
        for name in filter(written.__contains__, _LISTS):
            written[name] = self._entries(written[name], f"{key}.{name}")
        for name, more in member.get("adds", {}).items():
            table = isinstance(more, dict)
            written[name] = (
                {**written.get(name, {}), **more} if table else [*written.get(name, []), *more]
            )
        written["steps"] = [self._within(text, f"{key}.steps") for text in written.get("steps", [])]
        lists = [name for name, value in member.items() if isinstance(value, list)]
        phrases: list[Any] = []
        for phrase in self._texts(written.get("phrases", []), f"{key}.phrases"):
            used = [name for name in lists if f"<{name}>" in phrase]
            for values in itertools.product(*(member[name] for name in used)):
                phrases.append(
                    self._filled(phrase, {**member, **dict(zip(used, values, strict=True))}, key)
                )
        filled = {
            name: self._filled(value, member, key)
            for name, value in written.items()
            if name != "phrases"
        }
        return {**filled, "phrases": phrases}

    def _filled(self, value: Any, member: Table, key: str) -> Any:
        """`value` with what the member has for each `<name>` in its texts."""
        if isinstance(value, list):
            return [self._filled(item, member, key) for item in value]
        if isinstance(value, dict):
            return {name: self._filled(item, member, key) for name, item in value.items()}
        for name in _MEMBER.findall(value) if isinstance(value, str) else ():
            if not isinstance(member.get(name), str):
                self._fault(
                    key, f"<{name}> stands for no text", f"give every member of `each` a {name}"
                )
            value = value.replace(f"<{name}>", member[name])
        return value

    def _recipe(self, name: str, entry: Table, key: str) -> catalogue.Recipe:
        for needed in ("steps", "phrases"):
            if not entry[needed]:
                self._fault(key, f"has no {needed}", f'write {needed} = ["…"]')
        facts = {fact: self._texts(entry.get(fact, []), f"{key}.{fact}") for fact in _FACTS}
        short = entry.get("short", False)
        if not isinstance(short, bool):
            self._fault(
                f"{key}.short", "must be true or false", "write short = true, or leave it out"
            )
        gives = entry.get("gives", {})
        if not isinstance(gives, dict):
            self._fault(f"{key}.gives", "must be a table", 'write gives = { kind = "source/noun" }')
        steps = tuple(self._step(text, f"{key}.steps") for text in entry["steps"])
        phrases = tuple(phrase for line in entry["phrases"] for phrase in alternatives(line))
        gifts = {kind: self._gift(text, f"{key}.gives.{kind}") for kind, text in gives.items()}
        return catalogue.Recipe(name, steps, phrases, gifts, **facts, short=short)

    def _step(self, text: str, key: str) -> catalogue.RecipeStep:
        tool, _, rest = text.strip().partition(" ")
        sources: dict[str, catalogue.Source] = {}
        while rest := rest.strip():
            name, equals, rest = rest.partition("=")
            if not equals or not name.isidentifier() or name in sources:
                self._fault(
                    key,
                    f"{text!r} is no step",
                    "write the tool, then name=source for each argument, once",
                )
            if rest.startswith("!"):
                try:
                    value, end = _JSON.raw_decode(rest, 1)
                except ValueError:
                    self._fault(
                        key, f"{name}={rest} is no JSON", 'write a constant as !1, !true or !"text"'
                    )
                sources[name] = catalogue.Constant(value)
                rest = rest[end:]
            else:
                short, _, rest = rest.partition(" ")
                sources[name] = self._source(short, key)
        return catalogue.RecipeStep(tool, sources)

    def _gift(self, text: Any, key: str) -> catalogue.ProducedEntity:
        if not isinstance(text, str):
            self._fault(
                key, "must be a text", 'write "source/noun", or "source" for a thing without a noun'
            )
        value, _, noun = text.partition("/")
        if "{" in noun or "}" in noun:
            remedy = "name one slot without braces, or write words without any"
            self._fault(key, f"the noun {noun!r} holds a slot", remedy)
        return catalogue.ProducedEntity(self._source(value, key), noun)

    def _source(self, text: str, key: str) -> Any:
        try:
            return source(text)
        except ValueError as error:
            self._fault(key, str(error), "write one of these, or !JSON for a constant in a step")

    # --- the phrase book

    def _size(self, size: str) -> int:
        if not size.isdecimal():
            self._fault(f"frames.{size}", "is no number of requests", "write frames.1, frames.2, …")
        return int(size)

    def _story(self, story: Any, key: str) -> catalogue.Story:
        self._only(story, key, ("opening", "later", "closing", "groups"))
        parts = ("opening", "later", "closing")
        opening, later, closing = (
            self._lines(story.get(part, []), f"{key}.{part}") for part in parts
        )
        if not (opening and later and closing):
            self._fault(key, "misses opening, later or closing", "give it a line of each")
        groups = frozenset(self._texts(story.get("groups", []), f"{key}.groups"))
        return catalogue.Story(key.removeprefix("stories."), opening, later, closing, groups)

    def _words(self, words: Any, key: str) -> catalogue.Words:
        self._only(words, key, ("explicit", "back"))
        return catalogue.Words(
            *(self._texts(words.get(part, []), f"{key}.{part}") for part in ("explicit", "back"))
        )

    def _longest(self) -> int:
        longest = self.content.get("longest", 0)
        if type(longest) is not int or longest < 0:
            self._fault("longest", "must be a number of words", f"write longest = {LONGEST}")
        return longest

    # --- lists and tables

    def _families(self) -> dict[str, str]:
        families: dict[str, str] = {}
        for family, domains in self._table("families").items():
            for domain in self._texts(domains, f"families.{family}"):
                if domain in families:
                    self._fault(
                        f"families.{family}",
                        f"{domain!r} has another family",
                        "list it under one of them",
                    )
                families[domain] = family
        return families

    def _siblings(self) -> dict[str, str]:
        value = self.content.get("siblings", [])
        if not isinstance(value, list):
            self._fault(
                "siblings", "must be a list of pairs", 'write siblings = [["one", "other"], …]'
            )
        pairs = [self._pair(pair, "siblings") for pair in value]
        return {name: other for pair in pairs for name, other in (pair, pair[::-1])}

    def _pair(self, value: Any, key: str) -> tuple[str, str]:
        pair = self._texts(value, key)
        if len(pair) != 2:
            self._fault(key, f"{list(pair)} is no pair", 'write ["one", "other"]')
        return pair[0], pair[1]

    def _lines(self, value: Any, key: str) -> tuple[str, ...]:
        return tuple(
            text for line in self._texts(value, key) for text in alternatives(line, MOST_LINES)
        )

    def _values(self, value: Any, key: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            self._fault(
                key,
                "must be a list of values",
                "write [value, …], or { value = …, text = … } in it",
            )
        return tuple(
            catalogue.Worded(**item)
            if isinstance(item, dict) and item.keys() == {"value", "text"}
            else item
            for item in value
        )

    def _texts(self, value: Any, key: str) -> tuple[str, ...]:
        entries = self._entries(value, key)
        if not all(isinstance(text, str) for text in entries):
            self._fault(key, "must hold texts only", 'write ["…", "…"]')
        return tuple(entries)

    def _entries(self, value: Any, key: str) -> list[Any]:
        """A list with its shared entries put in."""
        if not isinstance(value, list):
            self._fault(key, f"must be a list, not {value!r}", 'write ["…"]')
        entries: list[Any] = []
        for item in value:
            name = _SHARED.fullmatch(item) if isinstance(item, str) else None
            entry = self._shared_entry(name[1], key) if name else item
            entries += entry if isinstance(entry, list) else [entry]
        return entries

    def _within(self, text: Any, key: str) -> str:
        """The text of a step with the shared texts put in."""
        if not isinstance(text, str):
            self._fault(key, "must hold texts only", 'write "tool name=source …"')
        while "@" in text:
            name = _SHARED.search(text)
            shared = self._shared_entry(name[1], key) if name else None
            if name is None or not isinstance(shared, str):
                self._fault(key, f"@ in {text!r} names no text", "name a text of [shared]")
            text = text[: name.start()] + shared + text[name.end() :]
        return str(text)

    def _shared_entry(self, name: str, key: str) -> Any:
        if name not in self.shared:
            self._fault(
                key,
                f"@{name} is not shared",
                f"define {name} in [shared], above its first use there",
            )
        return self.shared[name]

    def _table(self, key: str) -> Table:
        return self._only(self.content.get(key, {}), key, None)

    def _each(self, table: str, read_entry: Callable[[Any, str], T]) -> dict[str, T]:
        """The entries of a table, each read from its value and key."""
        return {
            name: read_entry(value, f"{table}.{name}") for name, value in self._table(table).items()
        }

    def _only(self, value: Any, key: str, keys: Sequence[str] | None) -> Table:
        """`value`, if it is a table with none but `known` keys."""
        if not isinstance(value, dict):
            self._fault(key, f"must be a table, not {value!r}", f"write [{key}]")
        if keys is not None and (unknown := [name for name in value if name not in keys]):
            place = f"{key}.{unknown[0]}" if key else unknown[0]
            self._fault(place, "is no key of this table", f"use one of {', '.join(keys)}")
        return value

    def _fault(self, key: str, what: str, remedy: str) -> NoReturn:
        raise UserError(what, where=f"{self.file}, {key}", remedy=remedy)
