"""Reads a catalogue's tables from TOML: recipes, phrase book, pools of values, and what belongs to them.

`read` checks one file, `merged` puts several together, and `RecipeTables.catalogue` adds what only code can say:
domains that look at the state, initial states, patches, padding. docs/composing.md shows every table with an example.
Three shorthands keep the files short:

- **Alternatives**, in phrases, frames, links and stories: `"(show|print) {file} (now|)"` stands for every combination.
  They may be empty and do not nest.
- **Shared entries**: in a list, `"@name"` stands for the entry or the entries of `[shared] name`; inside a step,
  `@name` stands for that text. A shared entry may use those above it.
- **Families**: a recipe with `each = [{…}, {…}]` is written once for each of these members, `<key>` in its name and
  texts replaced by the member's value; a list as a value gives one phrase for each of its entries. What a member holds
  under `adds` joins the recipe's own fields. A table with `each` and `recipes` repeats several recipes together.

Whatever the format does not know is a UserError with file, key and remedy. Whether tools, slots and things fit together
is checked against the environment, by `worlds.checking.soundness`.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from rods.canonical import keyed_random
from rods.composing.catalogue import (
    Catalogue,
    Domain,
    Gift,
    Got,
    Implied,
    Known,
    PhraseBook,
    Recipe,
    RecipeStep,
    Said,
    Source,
    Story,
    Worded,
    Words,
)
from rods.errors import UserError

MOST_PHRASES = 16  # that one line of a recipe stands for: lines of many alternatives do not drown the others
MOST_LINES = 40  # that one line of a frame, a link or a story stands for
LONGEST = 40  # words of a turn, where no file says otherwise
_ALTERNATIVES = re.compile(r"\(([^()]*\|[^()]*)\)")
_SHARED = re.compile(r"@(\w+)")
_MEMBER = re.compile(r"<(\w+)>")
_FACTS = ("ends", "when", "unless", "makes")
_LISTS = ("steps", "phrases", *_FACTS)
_RECIPE = (*_LISTS, "gives", "short", "each")
_JSON = json.JSONDecoder()

Table = Mapping[str, Any]


@dataclass(frozen=True)
class RecipeTables:
    """What the files say. Fields are those of `Catalogue` and `PhraseBook`; `domains` are the ones with fixed values,
    `pools` whatever lists and tables the environment's own code draws from."""

    file: str
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    domains: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pools: Mapping[str, Any] = field(default_factory=dict)
    frames: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    stories: tuple[Story, ...] = ()
    things: Mapping[str, Words] = field(default_factory=dict)
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
    def book(self) -> PhraseBook:
        said = {name: getattr(self, name) for name in ("frames", "links", "stories", "things")}
        return PhraseBook(
            **said, vague=self.vague, supply=self.supply, again=self.again, longest=self.longest or LONGEST
        )

    def catalogue(self, environment: str, *, domains: Mapping[str, Domain], **rest: Any) -> Catalogue:
        """The catalogue of `environment`: these tables, `domains` besides the fixed ones, and `rest`, the other fields
        of `Catalogue` (`make_state`, `patch`, `pad` and `topics` at least). Raises UserError for a domain that both
        the tables and `domains` define, and for a thing without the noun that its words hold."""
        if twice := sorted(domains.keys() & self.domains.keys()):
            raise UserError(
                f"the code defines {', '.join(twice)} too", where=f"{self.file}, domains", remedy="keep one of the two"
            )
        self._check_nouns()
        given = {name: getattr(self, name) for name in ("recipes", "families", "siblings", "swaps")}
        given |= {name: getattr(self, name) for name in ("lookups", "thematic", "ordinary", "silent", "common")}
        fixed = {name: _fixed(values) for name, values in self.domains.items()}
        return Catalogue(environment, domains={**domains, **fixed}, book=self.book, **{**given, **rest})

    def _check_nouns(self) -> None:
        nameless = (
            (name, kind, gift)
            for name, recipe in self.recipes.items()
            for kind, gift in recipe.gives.items()
            if not gift.noun and any("{noun}" in words for words in self.things.get(kind, Words((), ())).explicit)
        )
        for name, kind, gift in nameless:
            slot = f"/{gift.value.kind}" if isinstance(gift.value, Known) else "/slot"
            raise UserError(
                f"gives a {kind} without a noun, and the words of things.{kind} hold {{noun}}",
                where=f"{self.file}, recipes.{name}.gives.{kind}",
                remedy=f"end its source with {slot}, or write words without {{noun}}",
            )


def _fixed(values: tuple[Any, ...]) -> Domain:
    return lambda scene: values


def read(path: Path) -> RecipeTables:
    """The tables of one file. Raises UserError naming file and key for whatever is not of the format."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read ({error.strerror})", where=str(path), remedy="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"not TOML: {error}", where=str(path), remedy="mend that line") from error
    return TableReader(str(path), content).tables()


def merged(tables: Sequence[RecipeTables]) -> RecipeTables:
    """One of several, in their order. Raises UserError when two define the same name."""
    whole: dict[str, Any] = {"file": ", ".join(each.file for each in tables)}
    for name in (entry.name for entry in fields(RecipeTables)[1:]):
        for each in tables:
            found, so_far = getattr(each, name), whole.get(name)
            twice: list[str] = []
            if not so_far:
                whole[name] = found
            elif isinstance(found, Mapping):
                twice = sorted(map(str, found.keys() & so_far.keys()))
                whole[name] = {**so_far, **found}
            elif isinstance(found, frozenset):
                whole[name] = so_far | found
            elif isinstance(found, tuple):
                whole[name] = so_far + found
            elif found:
                twice = [name]
            if twice:
                what = f"another file defines {', '.join(twice)} too"
                raise UserError(what, where=f"{each.file}, {name}", remedy="keep one of them, or give one another name")
    return RecipeTables(**whole)


def source(text: str) -> Said | Got | Known:
    """A source in short notation: `slot:domain` is Said, `0.address` or `0.mails.0` Got, `^event` Known.

    Raises ValueError for anything else.
    """
    if text.startswith("^"):
        return Known(text[1:])
    slot, colon, domain = text.partition(":")
    if colon:
        return Said(slot, domain)
    number, *path = text.split(".")
    if not number.isdigit() or not path:
        raise ValueError(f"{text!r} is neither slot:domain, step.path nor ^kind")
    return Got(int(number), tuple(int(key) if key.isdigit() else key for key in path))


def alternatives(line: str, most: int = MOST_PHRASES) -> list[str]:
    """The texts that a line with alternatives stands for, a fixed choice of `most` where there are more."""
    pieces = _ALTERNATIVES.split(line)  # plain text and alternatives take turns
    if len(pieces) == 1:
        return [line]
    choices = [piece.split("|") if index % 2 else [piece] for index, piece in enumerate(pieces)]
    texts = [" ".join("".join(chosen).split()).replace(" ,", ",") for chosen in itertools.product(*choices)]
    return texts if len(texts) <= most else keyed_random(0, "phrases", line).sample(texts, most)


class TableReader:
    """Checks and reads the tables of one file."""

    def __init__(self, file: str, content: Table) -> None:
        self.file, self.content = file, content
        self.shared: dict[str, Any] = {}

    def tables(self) -> RecipeTables:
        known = ("shared", *(entry.name for entry in fields(RecipeTables)[1:]))
        self._only(self.content, "", known)
        for name, value in self._table("shared").items():
            self.shared[name] = self._entries(value, f"shared.{name}") if isinstance(value, list) else value
        return RecipeTables(
            self.file,
            recipes=self._recipes(),
            domains={name: self._values(values, f"domains.{name}") for name, values in self._table("domains").items()},
            pools={
                name: tuple(values) if isinstance(values, list) else values
                for name, values in self._table("pools").items()
            },
            frames=self._frames(),
            links=self._lines(self.content.get("links", []), "links"),
            stories=tuple(self._story(name, story) for name, story in self._table("stories").items()),
            things={name: self._words(words, f"things.{name}") for name, words in self._table("things").items()},
            vague=self._texts_by_name("vague"),
            supply=self._texts_by_name("supply"),
            again=self._texts_by_name("again"),
            longest=self._longest(),
            families=self._families(),
            siblings=self._siblings(),
            swaps={name: self._pair(pair, f"swaps.{name}") for name, pair in self._table("swaps").items()},
            lookups=self._names("lookups"),
            thematic=self._names("thematic"),
            ordinary=self._names("ordinary"),
            silent=self._names("silent"),
            common=self._names("common"),
        )

    # --- recipes

    def _recipes(self) -> dict[str, Recipe]:
        found: dict[str, Recipe] = {}
        for key, name, entry in self._written(self._table("recipes"), "recipes", {}):
            if name in found:
                self._fault(key, f"there are two recipes {name!r}", "give one of them another name")
            found[name] = self._recipe(name, entry, key)
        return found

    def _written(self, table: Table, where: str, member: Table) -> Iterator[tuple[str, str, Table]]:
        """(key, name, fields) of each recipe, families written out for their members."""
        for name, entry in table.items():
            key = f"{where}.{name}"
            if not isinstance(entry, dict):
                self._fault(key, "is no recipe", 'write steps = ["tool name=source …"] and phrases = ["…"] under it')
            if member and "each" in entry:
                self._fault(key, "a family inside a family", "write one of the two out")
            members = self._members(entry, key) if "each" in entry else [member]
            for one in members:
                if "recipes" in entry:
                    self._only(entry, key, ("each", "recipes"))
                    yield from self._written(entry["recipes"], f"{key}.recipes", one)
                else:
                    self._only(entry, key, _RECIPE)
                    yield key, str(self._filled(name, one, key)), self._for_member(entry, one, key)

    def _members(self, entry: Table, key: str) -> list[dict[str, Any]]:
        members = self._entries(entry["each"], f"{key}.each")
        if not members or not all(isinstance(one, dict) for one in members):
            self._fault(f"{key}.each", "must hold a table for each member", "write each = [{ name = … }, …]")
        for one in members:
            self._only(one.get("adds", {}), f"{key}.each.adds", ("phrases", "gives", *_FACTS))
        return members

    def _for_member(self, entry: Table, member: Table, key: str) -> Table:
        """A recipe's fields with the shared entries put in, for one member of its family if it has one."""
        written: dict[str, Any] = {
            name: self._entries(value, f"{key}.{name}") if name in _LISTS else value
            for name, value in entry.items()
            if name != "each"
        }
        for name, more in member.get("adds", {}).items():
            empty: Any = {} if isinstance(more, dict) else []
            own = written.get(name, empty)
            written[name] = {**own, **more} if isinstance(more, dict) else [*own, *more]
        written["steps"] = [self._within(text, f"{key}.steps") for text in written.get("steps", [])]
        lists = [name for name, value in member.items() if isinstance(value, list)]
        phrases: list[Any] = []
        for phrase in self._texts(written.get("phrases", []), f"{key}.phrases"):
            used = [name for name in lists if f"<{name}>" in phrase]
            for values in itertools.product(*(member[name] for name in used)):
                phrases.append(self._filled(phrase, {**member, **dict(zip(used, values, strict=True))}, key))
        filled = {name: self._filled(value, member, key) for name, value in written.items() if name != "phrases"}
        return {**filled, "phrases": phrases}

    def _filled(self, value: Any, member: Table, key: str) -> Any:
        if isinstance(value, str):
            return _MEMBER.sub(lambda found: self._value_of(found[1], member, key), value) if "<" in value else value
        if isinstance(value, list):
            return [self._filled(item, member, key) for item in value]
        if isinstance(value, dict):
            return {name: self._filled(item, member, key) for name, item in value.items()}
        return value

    def _value_of(self, name: str, member: Table, key: str) -> str:
        value = member.get(name)
        if not isinstance(value, str):
            self._fault(key, f"<{name}> stands for no text", f"give every member of `each` a {name}")
        return value

    def _recipe(self, name: str, entry: Table, key: str) -> Recipe:
        for needed in ("steps", "phrases"):
            if not entry[needed]:
                self._fault(key, f"has no {needed}", f'write {needed} = ["…"]')
        facts = {fact: self._texts(entry.get(fact, []), f"{key}.{fact}") for fact in _FACTS}
        short = entry.get("short", False)
        if not isinstance(short, bool):
            self._fault(f"{key}.short", "must be true or false", "write short = true, or leave it out")
        gives = entry.get("gives", {})
        if not isinstance(gives, dict):
            self._fault(f"{key}.gives", "must be a table", 'write gives = { kind = "source/noun" }')
        return Recipe(
            name,
            tuple(self._step(text, f"{key}.steps") for text in entry["steps"]),
            tuple(phrase for line in entry["phrases"] for phrase in alternatives(line)),
            {kind: self._gift(text, f"{key}.gives.{kind}") for kind, text in gives.items()},
            **facts,
            short=short,
        )

    def _step(self, text: str, key: str) -> RecipeStep:
        tool, _, rest = text.strip().partition(" ")
        sources: dict[str, Source] = {}
        while rest := rest.strip():
            name, equals, rest = rest.partition("=")
            if not equals or not name.isidentifier() or name in sources:
                self._fault(key, f"{text!r} is no step", "write the tool, then name=source for each argument, once")
            if rest.startswith("!"):
                try:
                    value, end = _JSON.raw_decode(rest, 1)
                except ValueError:
                    self._fault(key, f"{name}={rest} is no JSON", 'write a constant as !1, !true or !"text"')
                sources[name], rest = Implied(value), rest[end:]
            else:
                short, _, rest = rest.partition(" ")
                sources[name] = self._source(short, key)
        return RecipeStep(tool, sources)

    def _gift(self, text: Any, key: str) -> Gift:
        if not isinstance(text, str):
            self._fault(key, "must be a text", 'write "source/noun", or "source" for a thing without a noun')
        value, _, noun = text.partition("/")
        if "{" in noun or "}" in noun:
            self._fault(
                key, f"the noun {noun!r} holds a slot", "name one slot without braces, or write words without any"
            )
        return Gift(self._source(value, key), noun)

    def _source(self, text: str, key: str) -> Any:
        try:
            return source(text)
        except ValueError as error:
            self._fault(key, str(error), "write one of these, or !JSON for a constant in a step")

    # --- the phrase book

    def _frames(self) -> dict[int, tuple[str, ...]]:
        frames: dict[int, tuple[str, ...]] = {}
        for size, lines in self._table("frames").items():
            if not size.isdecimal():
                self._fault(f"frames.{size}", "is no number of requests", "write frames.1, frames.2, …")
            frames[int(size)] = self._lines(lines, f"frames.{size}")
        return frames

    def _story(self, name: str, story: Any) -> Story:
        key = f"stories.{name}"
        self._only(story, key, ("opening", "later", "closing", "groups"))
        opening, later, closing = (
            self._lines(story.get(part, []), f"{key}.{part}") for part in ("opening", "later", "closing")
        )
        if not (opening and later and closing):
            self._fault(key, "misses opening, later or closing", "give it a line of each")
        groups = frozenset(self._texts(story.get("groups", []), f"{key}.groups"))
        return Story(name, opening, later, closing, groups)

    def _words(self, words: Any, key: str) -> Words:
        self._only(words, key, ("explicit", "back"))
        return Words(*(self._texts(words.get(part, []), f"{key}.{part}") for part in ("explicit", "back")))

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
                    self._fault(f"families.{family}", f"{domain!r} has another family", "list it under one of them")
                families[domain] = family
        return families

    def _siblings(self) -> dict[str, str]:
        value = self.content.get("siblings", [])
        if not isinstance(value, list):
            self._fault("siblings", "must be a list of pairs", 'write siblings = [["one", "other"], …]')
        pairs = [self._pair(pair, "siblings") for pair in value]
        return {one: other for pair in pairs for one, other in (pair, pair[::-1])}

    def _pair(self, value: Any, key: str) -> tuple[str, str]:
        pair = self._texts(value, key)
        if len(pair) != 2:
            self._fault(key, f"{list(pair)} is no pair", 'write ["one", "other"]')
        return pair[0], pair[1]

    def _names(self, key: str) -> frozenset[str]:
        return frozenset(self._texts(self.content.get(key, []), key))

    def _texts_by_name(self, key: str) -> dict[str, tuple[str, ...]]:
        return {name: self._texts(texts, f"{key}.{name}") for name, texts in self._table(key).items()}

    def _lines(self, value: Any, key: str) -> tuple[str, ...]:
        return tuple(text for line in self._texts(value, key) for text in alternatives(line, MOST_LINES))

    def _values(self, value: Any, key: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            self._fault(key, "must be a list of values", "write [value, …], or { value = …, text = … } in it")
        return tuple(
            Worded(**item) if isinstance(item, dict) and item.keys() == {"value", "text"} else item for item in value
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
            found = self._shared_entry(name[1], key) if name else item
            entries += found if isinstance(found, list) else [found]
        return entries

    def _within(self, text: Any, key: str) -> str:
        """The text of a step with the shared texts put in."""
        if not isinstance(text, str):
            self._fault(key, "must hold texts only", 'write "tool name=source …"')
        while "@" in text:
            name = _SHARED.search(text)
            found = self._shared_entry(name[1], key) if name else None
            if name is None or not isinstance(found, str):
                self._fault(key, f"@ in {text!r} names no text", "name a text of [shared]")
            text = text[: name.start()] + found + text[name.end() :]
        return str(text)

    def _shared_entry(self, name: str, key: str) -> Any:
        if name not in self.shared:
            self._fault(key, f"@{name} is not shared", f"define {name} in [shared], above its first use there")
        return self.shared[name]

    def _table(self, key: str) -> Table:
        return self._only(self.content.get(key, {}), key, None)

    def _only(self, value: Any, key: str, known: Sequence[str] | None) -> Table:
        """`value`, if it is a table with none but `known` keys."""
        if not isinstance(value, dict):
            self._fault(key, f"must be a table, not {value!r}", f"write [{key}]")
        if known is not None and (unknown := [name for name in value if name not in known]):
            place = f"{key}.{unknown[0]}" if key else unknown[0]
            self._fault(place, "is no key of this table", f"use one of {', '.join(known)}")
        return value

    def _fault(self, key: str, what: str, remedy: str) -> NoReturn:
        raise UserError(what, where=f"{self.file}, {key}", remedy=remedy)
