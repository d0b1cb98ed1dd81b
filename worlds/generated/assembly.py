"""The file of a generated world (003 eq. 4): imports, state, the environment, and a function for each tool and check.

`assemble` is the form that every such file has, whoever wrote its parts; `assembled` makes the parts of a skeleton.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worlds.generated.operations import ENTRIES, Operation, Slot, operations
from worlds.generated.skeletons import Attribute, Kind, Skeleton, class_name, plural, prefix, words

HEAD = '''\
"""The records of {about}."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from rods.environments.typed import ToolError, TypedEnvironment

'''
FOOT = """

WORLD = TypedEnvironment("environments/{address}/world.py:environment", World, behaviour=1)


def environment() -> TypedEnvironment[World]:
    return WORLD
"""
TYPES = f"""\
Label = Annotated[str, Field(min_length=1, max_length=60)]
Count = Annotated[int, Field(ge=0, le={ENTRIES})]
"""
STATE = """

@dataclass
class World:
{tables}
    next: Annotated[int, Field(ge=1, le=9999)] = 1

    def new_key(self, kind: str) -> str:
        if self.next >= 9999:
            raise ToolError("there are no more keys")
        key = f"{{kind}}{{self.next}}"
        self.next += 1
        return key
"""


def assemble(about: str, state: str, functions: Iterable[str]) -> str:
    """The source of a world, with `{address}` where its own address belongs (rods.environments.addressed). `state`
    holds types and classes, `World` among them; `functions` come after the environment, which tools and checks need."""
    return "".join((HEAD.format(about=about), state, FOOT, *functions))


def tool(group: str, reads: bool, source: str) -> str:
    """A function of a state as a tool of API class `group`."""
    return f'\n\n@WORLD.tool("{group}", reads={reads})\n{source}'


def check(source: str) -> str:
    """A function of a state as a check."""
    return f"\n\n@WORLD.check\n{source}"


def assembled(skeleton: Skeleton) -> str:
    """The source of a world of a skeleton."""
    methods = [registered(each) for each in operations(skeleton)]
    return assemble(skeleton.about, state(skeleton), [*helpers(skeleton), *methods])


def state(skeleton: Skeleton) -> str:
    """Types, records and the state."""
    link = skeleton.link
    nouns = _nouns(skeleton)
    parts = [TYPES]
    parts += [
        f'{class_name(noun)}Key = Annotated[str, Field(pattern=r"^{prefix(noun)}[0-9]{{1,4}}$", max_length=6)]\n'
        for noun, _ in nouns
    ]
    for kind in skeleton.kinds:
        fields = [f"{kind.label}: Label", *(f"{each.name}: {_type(each)}" for each in kind.attributes)]
        fields += [f"{kind.at}: {class_name(kind.at)}Key"] if kind.at else []
        parts.append(_record(kind.noun, fields))
    ends = [f"{each.noun}: {class_name(each.noun)}Key" for each in (skeleton.holder, skeleton.item)]
    extra = [f"{link.extra.name}: {_type(link.extra)}"] if link.extra else []
    parts.append(_record(link.noun, [*ends, f"stage: {_type(Attribute('stage', link.stages))}", *extra]))
    tables = "\n".join(
        f"    {table}: dict[str, {class_name(noun)}] = field(default_factory=dict)" for noun, table in nouns
    )
    return "".join((*parts, STATE.format(tables=tables)))


def helpers(skeleton: Skeleton) -> list[str]:
    """The functions that tools and checks look things up with."""
    return [_lookup(noun, table) for noun, table in _nouns(skeleton)] + [_by_label(kind) for kind in skeleton.kinds]


def registered(operation: Operation) -> str:
    """One tool or check as it stands in the file."""
    if operation.role == "check":
        return check(method(operation))
    return tool(class_name(plural(operation.noun)), operation.reads, method(operation))


def method(operation: Operation) -> str:
    """The function of one tool or check."""
    taken = "".join(f", {each.name}: {_annotation(each)}" for each in operation.slots)
    body = "\n".join(f"    {line}" for line in operation.body)
    return f'def {operation.name}(db: World{taken}) -> {operation.gives}:\n    """{operation.about}"""\n{body}\n'


def _nouns(skeleton: Skeleton) -> list[tuple[str, str]]:
    """(noun, table) of everything that a state holds."""
    kinds = [(each.noun, each.plural) for each in skeleton.kinds]
    return [*kinds, (skeleton.link.noun, skeleton.link.plural)]


def _annotation(slot: Slot) -> str:
    if slot.takes == "key":
        return f"{class_name(slot.of)}Key"
    if slot.takes in ("label", "count"):
        return slot.takes.title()
    assert slot.attribute is not None
    return f"{_type(slot.attribute)} | None = None" if slot.optional else _type(slot.attribute)


def _type(attribute: Attribute) -> str:
    if attribute.values:
        return f"Literal[{', '.join(map(repr, attribute.values))}]"
    return f"Annotated[int, Field(ge={attribute.low}, le={attribute.high})]"


def _record(noun: str, fields: Sequence[str]) -> str:
    return f"\n\n@dataclass\nclass {class_name(noun)}:\n" + "".join(f"    {each}\n" for each in fields)


def _lookup(noun: str, table: str) -> str:
    return (
        f"\n\ndef _{noun}(db: World, key: str) -> {class_name(noun)}:\n    if key not in db.{table}:\n"
        f'        raise ToolError(f"no {words(noun)} has the key {{key}}")\n    return db.{table}[key]\n'
    )


def _by_label(kind: Kind) -> str:
    return (
        f"\n\ndef _{kind.noun}_called(db: World, label: str) -> str | None:\n"
        f"    return next((key for key, each in db.{kind.plural}.items() if each.{kind.label} == label), None)\n"
    )
