"""The chat formats of model families: how each writes calls, thinking and ends, as its chat
template renders them. A family is one table, `NAME.toml` in this folder; take the file away, and
the family is unknown. `rods.dialects.reading` reads by a table, `rods.dialects.native` writes by
it; docs/chat-formats.md shows all tables."""

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rods.canonical import frozen
from rods.errors import UserError
from rods.files import read_toml

Grammar = Literal["json", "named", "pairs", "pythonic", "braced", "channels"]
#: the keys of `Family.form` that a grammar needs
FORMS: Mapping[Grammar, frozenset[str]] = {
    "json": frozenset({"arguments"}),
    "named": frozenset({"name", "separator"}),
    "pairs": frozenset({"key_open", "key_close", "value_close"}),
    "pythonic": frozenset(),
    "braced": frozenset({"quote"}),
    "channels": frozenset({"name", "before", "separator"}),
}


@frozen
class Family:
    """How one family of models writes a reply. Markers are written as they stand here; around them
    any blanks are read."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=False)

    name: str  #: of its file
    title: str  #: the models, for people
    holds: tuple[str, ...]  #: texts that all of its chat templates hold
    grammar: Grammar  #: what stands inside of a call
    lacks: tuple[str, ...] = ()  #: texts that none of its chat templates holds
    open: str = ""  #: opens a call; empty: a reply that begins with a JSON call makes it
    close: str = ""  #: closes a call; empty: a call ends with its last bracket
    between: str = ""  #: what is written between two calls
    section: tuple[str, str] = ("", "")  #: what stands around all calls of a reply
    open_also: tuple[str, ...] = ()  #: other markers that are read as `open`
    list: bool = False  #: whether all calls stand in one block, as a list
    #: whether a whole call at the end of a reply counts without its `close`, as for its server
    unclosed: bool = False
    #: words of the grammar (`FORMS`): json: `arguments` and, read too, `arguments_also` (keys);
    #: named: `name` (a pattern with {name} and perhaps {number}), `separator`, `before`, `after`
    #: (around name and arguments), `id` (opens an id, which is dropped); pairs: `name_open`,
    #: `name_close`, `key_open`, `key_close`, `value_open`, `value_close`, `key_end`, `end`, `pad`
    #: (a blank around values), `scalars` ("python": True, None); braced: `name`, `quote`; channels:
    #: `before`, `name`, `separator`
    form: Mapping[str, str] = field(default_factory=dict)
    think: tuple[str, str] | None = None  #: what opens and closes thinking
    drop: tuple[str, ...] = ()  #: markers of an answer that are no part of it
    ends: tuple[str, ...] = ()  #: tokens that end a reply, beside the tokenizer's own
    #: those of `ends` that open the next message, and so stand in the context
    openers: tuple[str, ...] = ()
    #: tokens that end a message of the history, and do not end a reply
    closes: tuple[str, ...] = ()
    answer_prefix: str = ""  #: what an answer begins with
    single: bool = False  #: whether its chat template renders one call in a message only
    server: str = ""  #: the name after vLLM's --tool-call-parser
    reasoning_server: str = ""  #: the name after vLLM's --reasoning-parser
    loses: tuple[str, ...] = ()  #: what its chat template drops or changes, for people


_FAMILY = TypeAdapter(Family)


@cache
def families() -> Mapping[str, Family]:
    """All families by name. Raises UserError naming a file that is no table of a family."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    return {path.stem: _read(path) for path in files}


def named(name: str) -> Family:
    """The family called `name`. Raises UserError with the names that there are."""
    if name not in families():
        remedy = f"one of {', '.join(families())}"
        raise UserError(f"no family of chat formats is called {name!r}", remedy=remedy)
    return families()[name]


def family_of(template: str) -> Family | None:
    """The family whose chat template this is, by the texts that it holds and lacks; where several
    fit, the one with the most text in its marks, then the first by name."""
    fitting = [
        family
        for family in families().values()
        if all(mark in template for mark in family.holds)
        and not any(mark in template for mark in family.lacks)
    ]
    return max(fitting, key=lambda family: sum(map(len, family.holds)), default=None)


def _read(path: Path) -> Family:
    table = read_toml(path)
    try:
        family = _FAMILY.validate_python({**table, "name": path.stem})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"{key}: {first['msg']}", where=path, remedy="mend that key") from error
    if lacking := FORMS[family.grammar] - family.form.keys():
        remedy = f"add it to [form], as the grammar {family.grammar} needs it"
        raise UserError(f"form.{min(lacking)} is missing", where=path, remedy=remedy)
    if not family.holds:
        raise UserError("holds is empty", where=path, remedy="name a text of its chat template")
    return family
