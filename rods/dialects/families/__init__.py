"""The chat formats of model families: how each writes calls, thinking and ends, as its chat
template renders them. A family is one table, `NAME.toml` in this folder; take the file away, and
the family is unknown. `rods.dialects.reading` reads by a table, `rods.dialects.native` writes by
it; docs/chat-formats.md shows all tables."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rods.canonical import frozen
from rods.errors import UserError
from rods.files import read_toml

CLOSED = ConfigDict(extra="forbid")


@frozen
class Form:
    """The words of a grammar. Each is for the grammars that are named, and unused elsewhere."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    arguments: str = "arguments"  #: json: the key of a call's arguments
    arguments_also: str = ""  #: json: another key that is read so
    name: str = "{name}"  #: named, braced: a name as it is written; {number} counts the calls
    before: str = ""  #: named: what stands before the name
    separator: str = ""  #: named: what stands between name and arguments
    header: str = ""  #: named: what, of the separator, ends the header in which the name stands
    after: str = ""  #: named: what stands behind the arguments
    name_open: str = ""  #: pairs: what stands before the name
    name_close: str = ""  #: pairs: what stands behind it
    key_open: str = ""  #: pairs: what opens a key
    key_close: str = ""  #: pairs: what closes it
    value_open: str = ""  #: pairs: what opens a value
    pad: str = ""  #: pairs: a blank at both ends of a value that is no part of it
    value_close: str = ""  #: pairs: what closes a value
    key_end: str = ""  #: pairs: what is written behind it
    end: str = ""  #: pairs: what closes the last value
    python: bool = False  #: pairs: whether true and null are written as Python writes them
    quote: str = ""  #: braced: what stands at both ends of a text


@frozen
class Family:
    """How one family of models writes a reply. Markers are written as they stand here; around them
    any blanks are read."""

    __pydantic_config__: ClassVar[ConfigDict] = CLOSED

    name: str  #: of its file
    title: str  #: the models, for people
    holds: tuple[str, ...]  #: texts that all of its chat templates hold
    #: what stands inside of a call. json: an object with name and arguments; named: a name, and
    #: its arguments as JSON; pairs: a name, then keys and values between markers, as bare text;
    #: pythonic: [name(key=value), …]; braced: name{key:value, …} with quotes of its own
    grammar: Literal["json", "named", "pairs", "pythonic", "braced"]
    lacks: tuple[str, ...] = ()  #: texts that none of its chat templates holds
    open: str = ""  #: opens a call; empty: a reply that begins with a JSON call makes it
    close: str = ""  #: closes a call; empty: a call ends with its last bracket
    between: str = ""  #: what is written between two calls
    section: tuple[str, str] = ("", "")  #: what stands around all calls of a reply
    open_also: tuple[str, ...] = ()  #: other markers that are read as `open`
    list: bool = False  #: whether all calls stand in one block, as a list
    #: whether a whole call at the end of a reply counts without its `close`, as for its server
    unclosed: bool = False
    #: whether `open` is text where neither a bracket nor, later, `close` follows and no call came
    #: before, and calls count for thinking that is closed but was not opened
    prose: bool = False
    form: Form = Form()  #: the words of the grammar
    prefix: str = ""  #: what every prompt ends with that a reply is read after
    think: tuple[str, str] | None = None  #: what opens and closes thinking
    drop: tuple[str, ...] = ()  #: markers of an answer that are no part of it
    stray: tuple[str, ...] = ()  #: markers that make a reply malformed where no form has them
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
    return {path.stem: read_family(path) for path in files}


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


def read_family(path: Path) -> Family:
    """The family of a TOML file. Raises UserError naming the file and the key at fault."""
    try:
        family = _FAMILY.validate_python({**read_toml(path), "name": path.stem})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"{key}: {first['msg']}", where=path, remedy="mend that key") from error
    if not family.holds:
        raise UserError("holds is empty", where=path, remedy="name a text of its chat template")
    return family
