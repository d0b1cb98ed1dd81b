"""Reads a catalogue's tables from TOML: recipes, phrase book, pools of values, and what belongs to
them.

`read` checks one file, `merged` puts several together, and `RecipeTables.catalogue` adds what only
code can say: domains that look at the state, initial states, patches, padding. docs/composing.md
shows every table with an example, and the shorthands: alternatives "(show|print)", which may be
empty and do not nest; in recipes shared entries "@name", which may use those above them; families,
a recipe with `each` written once for each of its members. Whatever the format does not know is a
UserError with file and key. Whether tools, slots and things fit together is checked against the
environment, by `rods.worlds.checking.soundness`."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    InstanceOf,
    StrictBool,
    StrictInt,
    ValidationError,
)

from rods.canonical import JsonMapping, JsonObject, Texts, keyed_random
from rods.composing import catalogue
from rods.errors import UserError
from rods.files import read_toml

# that one line of a recipe stands for: lines of many alternatives do not drown the others
MOST_PHRASES = 16
MOST_LINES = 40  # that one line of a frame, a link or a story stands for
LONGEST = 40  # words of a turn, where no file says otherwise
REMEDY = "docs/composing.md shows every table and shorthand with an example"
_ALTERNATIVES = re.compile(r"\(([^()]*\|[^()]*)\)")
_SHARED = re.compile(r"@(\w*)")
_MEMBER = re.compile(r"<(\w+)>")
_JSON = json.JSONDecoder()

Table = JsonMapping
M = TypeVar("M", bound=BaseModel)


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


def _several(lines: Texts, most: int = MOST_LINES) -> Texts:
    return tuple(text for line in lines for text in alternatives(line, most))


def _step(text: str) -> catalogue.RecipeStep:
    tool, _, rest = text.strip().partition(" ")
    sources: dict[str, catalogue.Source] = {}
    while rest := rest.strip():
        name, equals, rest = rest.partition("=")
        if not equals or not name.isidentifier() or name in sources:
            raise ValueError(
                f"{text!r} is no step: write the tool, then name=source for each argument, once"
            )
        if rest.startswith("!"):
            try:
                value, end = _JSON.raw_decode(rest, 1)
            except ValueError:
                raise ValueError(
                    f'{name}={rest} is no JSON: write a constant as !1, !true or !"text"'
                ) from None
            sources[name] = catalogue.Constant(value)
            rest = rest[end:]
        else:
            short, _, rest = rest.partition(" ")
            sources[name] = source(short)
    return catalogue.RecipeStep(tool, sources)


def _gift(text: str) -> catalogue.ProducedEntity:
    value, _, noun = text.partition("/")
    if "{" in noun or "}" in noun:
        raise ValueError(f"the noun {noun!r} holds a slot: name one without braces, or write words")
    return catalogue.ProducedEntity(source(value), noun)


def _named(stories: Any) -> Any:
    """Tables of stories, each with its name, which it is found by."""
    if not isinstance(stories, dict):
        return stories
    return {
        name: {"name": name, **story} if isinstance(story, dict) else story
        for name, story in stories.items()
    }


def _with_lines(stories: dict[str, catalogue.Story]) -> dict[str, catalogue.Story]:
    whole = {}
    for name, story in stories.items():
        opening, later, closing = map(_several, (story.opening, story.later, story.closing))
        if not (opening and later and closing):
            raise ValueError(f"{name} needs a line of each of opening, later and closing")
        whole[name] = replace(story, opening=opening, later=later, closing=closing)
    return whole


def _in_one_family(families: dict[str, Texts]) -> dict[str, Texts]:
    members = [name for held in families.values() for name in held]
    if twice := sorted({name for name in members if members.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)} has another family: list it under one of them")
    return families


Lines = Annotated[Texts, AfterValidator(_several)]
Stories = Annotated[
    dict[str, catalogue.Story], BeforeValidator(_named), AfterValidator(_with_lines)
]
Families = Annotated[dict[str, Texts], AfterValidator(_in_one_family)]
# what is no `{ value = …, text = … }` is a value as it stands
Value = Annotated[catalogue.Worded | Any, Field(union_mode="left_to_right")]
Pool = Annotated[Any, AfterValidator(lambda pool: tuple(pool) if isinstance(pool, list) else pool)]


class _RecipeFields(BaseModel, extra="forbid"):
    """The table of a recipe, with shared entries and members put in."""

    steps: Annotated[tuple[Annotated[str, AfterValidator(_step)], ...], Field(min_length=1)]
    phrases: Annotated[
        Texts, Field(min_length=1), AfterValidator(lambda phrases: _several(phrases, MOST_PHRASES))
    ]
    gives: dict[str, Annotated[str, AfterValidator(_gift)]] = {}
    ends: Texts = ()
    when: Texts = ()
    unless: Texts = ()
    makes: Texts = ()
    purpose: Texts = ()
    leads: Lines = ()
    short: StrictBool = False
    odd: StrictBool = False


class RecipeTables(BaseModel, extra="forbid", frozen=True):
    """What the files say. Fields are those of `Catalogue` and `PhraseBook`, `families`, `siblings`
    and `stories` as they are written; `domains` are the ones with fixed values, `pools` whatever
    lists and tables the environment's own code draws from."""

    file: str
    recipes: Mapping[str, InstanceOf[catalogue.Recipe]] = {}
    domains: dict[str, Annotated[tuple[Value, ...], Field(min_length=1)]] = {}
    pools: dict[str, Pool] = {}
    frames: dict[int, Lines] = {}
    links: Lines = ()
    openings: Lines = ()
    resumes: Lines = ()
    stories: Stories = {}
    things: dict[str, catalogue.Words] = {}
    vague: dict[str, Texts] = {}
    supply: dict[str, Texts] = {}
    again: dict[str, Texts] = {}
    longest: Annotated[StrictInt, Field(ge=0)] = 0
    families: Families = {}
    siblings: tuple[tuple[str, str], ...] = ()
    swaps: dict[str, tuple[str, str]] = {}
    lookups: frozenset[str] = frozenset()
    once: dict[str, Texts] = {}
    named: dict[str, Texts] = {}
    known: frozenset[str] = frozenset()
    thematic: frozenset[str] = frozenset()
    ordinary: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()

    @property
    def book(self) -> catalogue.PhraseBook:
        parts = {entry.name: getattr(self, entry.name) for entry in fields(catalogue.PhraseBook)}
        parts["stories"] = tuple(self.stories.values())
        return catalogue.PhraseBook(**{**parts, "longest": self.longest or LONGEST})

    def catalogue(
        self, environment: str, *, domains: Mapping[str, catalogue.Domain], **rest: Any
    ) -> catalogue.Catalogue:
        """The catalogue of `environment`: these tables, `domains` besides the fixed ones, and
        `rest`, the other fields of `Catalogue` (`make_state`, `patch`, `pad` and `topics` at
        least). Raises UserError for a domain that both the tables and `domains` define, and for a
        thing without the noun that its words hold."""
        if twice := sorted(domains.keys() & self.domains.keys()):
            raise UserError(
                f"the code defines {', '.join(twice)} too",
                where=f"{self.file}, domains",
                remedy="keep one of the two",
            )
        for name, recipe in self.recipes.items():
            for kind, gift in recipe.gives.items():
                explicit = self.things[kind].explicit if kind in self.things else ()
                if not gift.noun and any("{noun}" in words for words in explicit):
                    slot = (
                        f"/{gift.value.kind}"
                        if isinstance(gift.value, catalogue.FromEarlierRecipe)
                        else "/slot"
                    )
                    raise UserError(
                        f"gives a {kind} without a noun, and the words of things.{kind} hold "
                        f"{{noun}}",
                        where=f"{self.file}, recipes.{name}.gives.{kind}",
                        remedy=f"end its source with {slot}, or write words without {{noun}}",
                    )
        names = {entry.name for entry in fields(catalogue.Catalogue)}.intersection(TABLES)
        own = {name: getattr(self, name) for name in names}
        own["domains"] = {**domains, **{name: _fixed(held) for name, held in self.domains.items()}}
        own["families"] = {name: family for family, held in self.families.items() for name in held}
        own["siblings"] = {one: other for two in self.siblings for one, other in (two, two[::-1])}
        return catalogue.Catalogue(environment, book=self.book, **{**own, **rest})


TABLES = tuple(name for name in RecipeTables.model_fields if name != "file")


def _fixed(values: tuple[Any, ...]) -> catalogue.Domain:
    return lambda scene: values


def read(path: Path) -> RecipeTables:
    """The tables of one file. Raises UserError naming file and key for whatever is not of the
    format."""
    content = dict(read_toml(path))
    reader = _RecipeReader(str(path), content.pop("shared", {}))
    content["recipes"] = reader.recipes(content.get("recipes", {}))
    return _checked(RecipeTables, {**content, "file": str(path)}, str(path))


def _checked(model: type[M], content: Table, file: str, key: str = "") -> M:
    """`content` as a `model`. Raises UserError naming file and key."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join([*([key] if key else []), *map(str, fault["loc"])])
        what = fault["msg"].removeprefix("Value error, ")
        raise UserError(what, where=f"{file}, {where}", remedy=REMEDY) from error


def merged(tables: Sequence[RecipeTables]) -> RecipeTables:
    """One of several, in their order. Raises UserError when two define the same name."""
    whole: JsonObject = {name: getattr(RecipeTables(file=""), name) for name in TABLES}
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
            raise UserError(
                f"another file defines {', '.join(twice)} too",
                where=f"{table.file}, {name}",
                remedy="keep one of them, or give one another name",
            )
    return RecipeTables.model_construct(file=", ".join(table.file for table in tables), **whole)


class _RecipeReader:
    """Reads the recipes of one file: puts shared entries in, and writes families out."""

    def __init__(self, file: str, shared: Any) -> None:
        self.file = file
        self.shared: JsonObject = {}
        for name, value in self._table(shared, "shared").items():
            self.shared[name] = self._entries(value, f"shared.{name}")

    def recipes(self, table: Any) -> dict[str, catalogue.Recipe]:
        recipes: dict[str, catalogue.Recipe] = {}
        for key, name, entry in self._written(self._table(table, "recipes"), "recipes", {}):
            if name in recipes:
                self._fault(key, f"there are two recipes {name!r}")
            written = _checked(_RecipeFields, entry, self.file, key)
            recipes[name] = catalogue.Recipe(name, **dict(written))
        return recipes

    def _written(self, table: Table, where: str, outer: Table) -> Iterator[tuple[str, str, Table]]:
        """(key, name, fields) of each recipe, families written out for their members."""
        for name, content in table.items():
            key = f"{where}.{name}"
            entry = self._table(content, key)
            if outer and "each" in entry:
                self._fault(key, "is a family inside a family: write one of the two out")
            for member in self._members(entry, key) if "each" in entry else [outer]:
                if "recipes" in entry:
                    yield from self._written(
                        self._table(entry["recipes"], key), f"{key}.recipes", member
                    )
                else:
                    yield key, self._filled(name, member, key), self._for_member(entry, member, key)

    def _members(self, entry: Table, key: str) -> list[JsonObject]:
        members = self._entries(entry["each"], f"{key}.each")
        if not members or not all(isinstance(member, dict) for member in members):
            self._fault(f"{key}.each", "must hold a table for each member")
        return list(members)

    def _for_member(self, entry: Table, member: Table, key: str) -> Table:
        """A recipe's fields with the shared entries put in, for one member of its family if it has
        one."""
        written = {name: self._entries(value, f"{key}.{name}") for name, value in entry.items()}
        written.pop("each", None)
        for name, more in member.get("adds", {}).items():
            table = isinstance(more, dict)
            written[name] = (
                {**written.get(name, {}), **more} if table else [*written.get(name, []), *more]
            )
        if isinstance(steps := written.get("steps"), list):
            written["steps"] = [self._within(text, f"{key}.steps") for text in steps]
        if isinstance(phrases := written.get("phrases"), list):
            written["phrases"] = [
                each for phrase in phrases for each in self._multiplied(phrase, member, key)
            ]
        return {name: self._filled(value, member, key) for name, value in written.items()}

    def _multiplied(self, phrase: Any, member: Table, key: str) -> Iterator[Any]:
        """A phrase for every choice of what the member has lists of."""
        lists = [name for name, value in member.items() if isinstance(value, list)]
        used = [name for name in lists if f"<{name}>" in str(phrase)]
        for values in itertools.product(*(member[name] for name in used)):
            yield self._filled(phrase, {**member, **dict(zip(used, values, strict=True))}, key)

    def _filled(self, value: Any, member: Table, key: str) -> Any:
        """`value` with what the member has for each `<name>` in its texts."""
        if isinstance(value, list):
            return [self._filled(item, member, key) for item in value]
        if isinstance(value, dict):
            return {name: self._filled(item, member, key) for name, item in value.items()}
        for name in _MEMBER.findall(value) if isinstance(value, str) else ():
            if not isinstance(member.get(name), str):
                self._fault(key, f"<{name}> stands for no text: give every member of `each` one")
            value = value.replace(f"<{name}>", member[name])
        return value

    def _entries(self, value: Any, key: str) -> Any:
        """A list with its shared entries put in; anything else as it is."""
        if not isinstance(value, list):
            return value
        entries: list[Any] = []
        for item in value:
            name = _SHARED.fullmatch(item) if isinstance(item, str) else None
            entry = self._shared_entry(name[1], key) if name else item
            entries += entry if isinstance(entry, list) else [entry]
        return entries

    def _within(self, text: Any, key: str) -> Any:
        """The text of a step with the shared texts put in."""
        while isinstance(text, str) and (name := _SHARED.search(text)):
            shared = self._shared_entry(name[1], key)
            text = f"{text[: name.start()]}{shared}{text[name.end() :]}"
        return text

    def _shared_entry(self, name: str, key: str) -> Any:
        if name not in self.shared:
            self._fault(key, f"@{name} is not shared: define it in [shared], above its first use")
        return self.shared[name]

    def _table(self, value: Any, key: str) -> Table:
        if not isinstance(value, dict):
            self._fault(key, f"must be a table, not {value!r}")
        return value

    def _fault(self, key: str, what: str) -> NoReturn:
        raise UserError(what, where=f"{self.file}, {key}", remedy=REMEDY)
