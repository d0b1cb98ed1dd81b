"""What a world of a skeleton offers: its tools and checks, with the body of each.

The operations are the plan (003 eq. 2) and the methods (eq. 3) at once; `worlds.generated.assembly` makes a file of
them. What the file offers in the end is read from its signatures (`rods.environments.typed`) and held against the plan
by `worlds.checking.worlds`. Every change refuses before it has changed anything, and every one that succeeds changes
something: setting what is so already is refused. Checks know things by their labels, never by keys that a world made,
so that whoever made them in another order has earned as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from worlds.generated.skeletons import (
    STOCK,
    Attribute,
    Kind,
    Skeleton,
    class_name,
    listed,
    one_of,
    plural,
    prefix,
    words,
)

ENTRIES = 200  # of one table
Role = Literal["get", "find", "list", "links", "staged", "add", "set", "remove", "move", "open", "advance", "check"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A parameter: a `key` or `label` of a kind (`of`: its noun), a `value` of the attribute `of`, or a `count`."""

    name: str
    takes: Literal["key", "label", "value", "stage", "count"]
    of: str
    attribute: Attribute | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A tool or a check: its place in the plan, and its method. `noun` is the kind that it is about, `detail` the
    attribute or stage."""

    name: str
    role: Role
    noun: str
    slots: tuple[Slot, ...]
    gives: str
    about: str
    body: tuple[str, ...]
    detail: str = ""

    @property
    def reads(self) -> bool:
        return self.role in ("get", "find", "list", "links", "staged", "check")


def operations(skeleton: Skeleton) -> tuple[Operation, ...]:
    """All of a world's tools and checks. Names are unique."""
    made = [*_tools(skeleton), *_checks(skeleton)]
    assert len({each.name for each in made}) == len(made), "two operations of one name"
    return tuple(made)


def _tools(skeleton: Skeleton) -> Iterator[Operation]:
    for kind in skeleton.kinds:
        yield from _reading(skeleton, kind)
        yield from _changing(skeleton, kind)
    yield from _linking(skeleton)


def _key(kind: Kind) -> Slot:
    return Slot(kind.noun, "key", kind.noun)


def _label(kind: Kind) -> Slot:
    return Slot(kind.label, "label", kind.noun)


def _value(attribute: Attribute, optional: bool = False) -> Slot:
    return Slot(attribute.name, "value", attribute.name, attribute, optional)


def _reading(skeleton: Skeleton, kind: Kind) -> Iterator[Operation]:
    noun, table, verbs = kind.noun, kind.plural, skeleton.verbs
    yield Operation(
        f"{verbs['get']}_{noun}",
        "get",
        noun,
        (_key(kind),),
        class_name(noun),
        f"Everything known of one {words(noun)}.",
        (f"return _{noun}(db, {noun})",),
    )
    yield Operation(
        f"{verbs['find']}_{noun}",
        "find",
        noun,
        (_label(kind),),
        "str",
        f"The key of the {words(noun)} with this {words(kind.label)}.",
        (
            f"key = _{noun}_called(db, {kind.label})",
            "if key is None:",
            f'    raise ToolError(f"there is no {words(noun)} {{{kind.label}}}")',
            "return key",
        ),
    )
    choice = next((each for each in kind.attributes if each.values), None)
    listing = f"{{key: each.{kind.label} for key, each in db.{table}.items()"
    wanted = f" if {choice.name} is None or each.{choice.name} == {choice.name}" if choice else ""
    yield Operation(
        f"{verbs['list']}_{table}",
        "list",
        noun,
        (_value(choice, optional=True),) if choice else (),
        "dict[str, str]",
        f"Keys and {words(plural(kind.label))} of all {words(table)}"
        + (f", or of those with one {words(choice.name)}." if choice else "."),
        (f"return {listing}{wanted}}}",),
    )


def _changing(skeleton: Skeleton, kind: Kind) -> Iterator[Operation]:
    noun, table, verbs, place = kind.noun, kind.plural, skeleton.verbs, skeleton.place
    taken = [
        f"if _{noun}_called(db, {kind.label}) is not None:",
        f'    raise ToolError(f"there is {one_of(noun)} {{{kind.label}}} already")',
        f"if len(db.{table}) >= {ENTRIES}:",
        f'    raise ToolError("there are too many {words(table)}")',
    ]
    given = [kind.label, *(each.name for each in kind.attributes)]
    slots = [_label(kind), *(_value(each) for each in kind.attributes)]
    if kind.at and place:
        taken += [f"_{kind.at}(db, {kind.at})", *_room(skeleton)]
        given.append(kind.at)
        slots.append(_key(place))
    arguments = ", ".join(f"{name}={name}" for name in given)
    yield Operation(
        f"{verbs['add']}_{noun}",
        "add",
        noun,
        tuple(slots),
        "str",
        f"Enters a new {words(noun)} and gives its key.",
        (
            *taken,
            f'key = db.new_key("{prefix(noun)}")',
            f"db.{table}[key] = {class_name(noun)}({arguments})",
            "return key",
        ),
    )
    for attribute in kind.attributes:
        if attribute.settable:
            name = attribute.name
            yield Operation(
                f"{verbs['set']}_{noun}_{name}",
                "set",
                noun,
                (_key(kind), _value(attribute)),
                class_name(noun),
                f"Sets the {words(name)} of one {words(noun)}.",
                (
                    f"found = _{noun}(db, {noun})",
                    f"if found.{name} == {name}:",
                    f'    raise ToolError(f"its {words(name)} is {{{name}}} already")',
                    f"found.{name} = {name}",
                    "return found",
                ),
                name,
            )
    if kind.removable:
        link = skeleton.link.plural
        yield Operation(
            f"{verbs['remove']}_{noun}",
            "remove",
            noun,
            (_key(kind),),
            "bool",
            f"Takes {one_of(noun)} out of the records, unless some {words(skeleton.link.noun)} names it.",
            (
                f"_{noun}(db, {noun})",
                f"if any(each.{noun} == {noun} for each in db.{link}.values()):",
                f'    raise ToolError("some {words(skeleton.link.noun)} names this {words(noun)}")',
                f"del db.{table}[{noun}]",
                "return True",
            ),
        )
    if kind.at and place:
        at = kind.at
        yield Operation(
            f"{verbs['move']}_{noun}",
            "move",
            noun,
            (_key(kind), _key(place)),
            class_name(noun),
            f"Brings one {words(noun)} to another {words(at)}.",
            (
                f"found = _{noun}(db, {noun})",
                f"_{at}(db, {at})",
                f"if found.{at} == {at}:",
                '    raise ToolError("it is there already")',
                *_room(skeleton),
                f"found.{at} = {at}",
                "return found",
            ),
        )


def _room(skeleton: Skeleton) -> list[str]:
    if skeleton.rules.capacity is None or skeleton.place is None:
        return []
    at = skeleton.place.noun
    return [
        f"if sum(each.{at} == {at} for each in db.{skeleton.item.plural}.values()) >= {skeleton.rules.capacity}:",
        f'    raise ToolError("this {words(at)} is full")',
    ]


def _linking(skeleton: Skeleton) -> Iterator[Operation]:
    link, holder, item, rules = skeleton.link, skeleton.holder, skeleton.item, skeleton.rules
    noun, table = link.noun, link.plural
    key = Slot(noun, "key", noun)
    yield Operation(
        f"{skeleton.verbs['get']}_{noun}",
        "get",
        noun,
        (key,),
        class_name(noun),
        f"Everything known of one {words(noun)}.",
        (f"return _{noun}(db, {noun})",),
    )
    yield Operation(
        f"{skeleton.verbs['list']}_{table}_of_{holder.noun}",
        "links",
        noun,
        (_key(holder),),
        f"dict[str, {class_name(noun)}]",
        f"All {words(table)} of one {words(holder.noun)}, by key.",
        (
            f"_{holder.noun}(db, {holder.noun})",
            f"return {{key: each for key, each in db.{table}.items() if each.{holder.noun} == {holder.noun}}}",
        ),
    )
    stage = Attribute("stage", link.stages)
    yield Operation(
        f"{skeleton.verbs['list']}_{table}",
        "staged",
        noun,
        (Slot("stage", "stage", noun, stage),),
        f"dict[str, {class_name(noun)}]",
        f"All {words(table)} in one stage, by key.",
        (f"return {{key: each for key, each in db.{table}.items() if each.stage == stage}}",),
    )
    slots = [_key(holder), _key(item), *([_value(link.extra)] if link.extra else [])]
    effects = []
    if rules.stock:
        effects.append(f"{_found(item)}.{rules.stock} -= 1")
    if rules.charge:
        effects.append(f"{_found(holder)}.{rules.charge[0]} -= {rules.charge[1]}")
    entry = f"{holder.noun}={holder.noun}, {item.noun}={item.noun}, stage={link.stages[0]!r}"
    entry += f", {link.extra.name}={link.extra.name}" if link.extra else ""
    yield Operation(
        f"{link.verb}_{item.noun}",
        "open",
        noun,
        tuple(slots),
        "str",
        f"Makes a new {words(noun)} ({link.stages[0]}) and gives its key.",
        (
            f"{_found(holder)} = _{holder.noun}(db, {holder.noun})",
            f"{_found(item)} = _{item.noun}(db, {item.noun})",
            *_conditions(skeleton),
            f'key = db.new_key("{prefix(noun)}")',
            *effects,
            f"db.{table}[key] = {class_name(noun)}({entry})",
            "return key",
        ),
        link.stages[0],
    )
    for advance in link.advances:
        freed = []
        if advance.frees and rules.stock:
            freed = [
                f"{_found(item)} = _{item.noun}(db, found.{item.noun})",
                f"if {_found(item)}.{rules.stock} >= {STOCK[1]}:",
                f'    raise ToolError("there is no room for another of its {words(rules.stock)}")',
                f"{_found(item)}.{rules.stock} += 1",
            ]
        yield Operation(
            f"{advance.verb}_{noun}",
            "advance",
            noun,
            (key,),
            class_name(noun),
            f"Takes {one_of(noun)} that is {listed([words(each) for each in advance.before])} to the stage "
            f"{words(advance.after)}.",
            (
                f"found = _{noun}(db, {noun})",
                f"if found.stage not in {advance.before!r}:",
                f'    raise ToolError(f"it is {{found.stage}}, not {listed(advance.before)}")',
                *freed,
                f"found.stage = {advance.after!r}",
                "return found",
            ),
            advance.after,
        )


def _found(kind: Kind) -> str:
    return f"the_{kind.noun}"


def _conditions(skeleton: Skeleton) -> Iterator[str]:
    """The lines that refuse a new link, one rule after another."""
    link, holder, item, rules = skeleton.link, skeleton.holder, skeleton.item, skeleton.rules
    each_link = f"for each in db.{link.plural}.values()"
    if rules.barred:
        yield f"if {_found(holder)}.{rules.barred[0]} == {rules.barred[1]!r}:"
        yield f'    raise ToolError("this {words(holder.noun)} is {words(rules.barred[1])}")'
    if rules.unfit:
        yield f"if {_found(item)}.{rules.unfit[0]} == {rules.unfit[1]!r}:"
        yield f'    raise ToolError("this {words(item.noun)} is {words(rules.unfit[1])}")'
    same = f"each.{holder.noun} == {holder.noun} and each.{item.noun} == {item.noun}"
    yield f"if any({same} and each.stage in {link.open!r} {each_link}):"
    yield f'    raise ToolError("there is such {one_of(link.noun)} already")'
    if rules.limit is not None:
        yield f"made = sum(each.{holder.noun} == {holder.noun} and each.stage in {link.open!r} {each_link})"
        yield f"if made >= {rules.limit}:"
        yield f'    raise ToolError("this {words(holder.noun)} has {rules.limit} open {words(link.plural)} already")'
    if rules.stock:
        yield f"if {_found(item)}.{rules.stock} < 1:"
        yield f'    raise ToolError("this {words(item.noun)} has no {words(rules.stock)} left")'
    else:
        yield f"if any(each.{item.noun} == {item.noun} and each.stage in {link.taken!r} {each_link}):"
        yield f'    raise ToolError("this {words(item.noun)} is taken")'
    if rules.charge:
        name, amount = rules.charge
        yield f"if {_found(holder)}.{name} - {amount} < {holder.attribute(name).low}:"
        yield f'    raise ToolError("this {words(holder.noun)} has too little {words(name)}: it takes {amount}")'
    yield f"if len(db.{link.plural}) >= {ENTRIES}:"
    yield f'    raise ToolError("there are too many {words(link.plural)}")'


def _checks(skeleton: Skeleton) -> Iterator[Operation]:
    for kind in skeleton.kinds:
        noun, called = kind.noun, f"_{kind.noun}_called(db, {kind.label})"
        is_there = f"The records have {one_of(noun)} of this {words(kind.label)}."
        yield Operation(
            f"{noun}_is_known", "check", noun, (_label(kind),), "bool", is_there, (f"return {called} is not None",)
        )
        if kind.removable:
            gone = f"The records have no {words(noun)} of this {words(kind.label)}."
            yield Operation(
                f"{noun}_is_gone", "check", noun, (_label(kind),), "bool", gone, (f"return {called} is None",)
            )
        for attribute in kind.attributes:
            yield Operation(
                f"{noun}_{attribute.name}_is",
                "check",
                noun,
                (_label(kind), _value(attribute)),
                "bool",
                f"The {words(noun)} has this {words(attribute.name)}.",
                (
                    f"key = {called}",
                    f"return key is not None and db.{kind.plural}[key].{attribute.name} == {attribute.name}",
                ),
                attribute.name,
            )
        if kind.at and skeleton.place:
            at = Slot(kind.at, "label", kind.at)
            yield Operation(
                f"{noun}_is_in",
                "check",
                noun,
                (_label(kind), at),
                "bool",
                f"The {words(noun)} is in this {words(kind.at)}.",
                (
                    f"key, at = {called}, _{kind.at}_called(db, {kind.at})",
                    f"return key is not None and at is not None and db.{kind.plural}[key].{kind.at} == at",
                ),
            )
        yield _counting(noun, kind.plural)
    link, holder, item = skeleton.link, skeleton.holder, skeleton.item
    pair = (Slot(holder.noun, "label", holder.noun), Slot(item.noun, "label", item.noun))
    found = (
        f"one = _{holder.noun}_called(db, {holder.noun})",
        f"other = _{item.noun}_called(db, {item.noun})",
        f"links = db.{link.plural}.values()",
        f"pairs = [each for each in links if (each.{holder.noun}, each.{item.noun}) == (one, other)]",
    )
    stage = Attribute("stage", link.stages)
    yield Operation(
        f"{link.noun}_is",
        "check",
        link.noun,
        (*pair, Slot("stage", "stage", link.noun, stage)),
        "bool",
        f"{one_of(link.noun).capitalize()} of the two is in this stage.",
        (*found, "return any(each.stage == stage for each in pairs)"),
        "stage",
    )
    if link.extra:
        extra = link.extra.name
        yield Operation(
            f"{link.noun}_{extra}_is",
            "check",
            link.noun,
            (*pair, _value(link.extra)),
            "bool",
            f"{one_of(link.noun).capitalize()} of the two has this number of {words(extra)}.",
            (*found, f"return any(each.{extra} == {extra} for each in pairs)"),
            extra,
        )
    yield _counting(link.noun, link.plural)


def _counting(noun: str, table: str) -> Operation:
    return Operation(
        f"{noun}_count_is",
        "check",
        noun,
        (Slot("count", "count", noun),),
        "bool",
        f"There are just so many {words(table)}.",
        (f"return len(db.{table}) == count",),
        "count",
    )


def documentation(skeleton: Skeleton) -> str:
    """What the policy is told of the world and its rules (003 eq. 2)."""
    link, holder, item, rules = skeleton.link, skeleton.holder, skeleton.item, skeleton.rules
    one, kind = words(holder.noun), words(item.noun)
    told = [f"You keep the records of {skeleton.about}: {listed([words(k.plural) for k in skeleton.kinds], 'and')}, "
            f"and the {words(link.plural)} between {words(holder.plural)} and {words(item.plural)}."]  # fmt: skip
    told.append(f"{one_of(link.noun).capitalize()} begins as {words(link.stages[0])}.")
    told.append(f"No {one} has two open {words(link.plural)} for the same {kind}.")
    if rules.limit is not None:
        told.append(f"{one_of(holder.noun).capitalize()} has at most {rules.limit} open {words(link.plural)}.")
    if rules.barred:
        told.append(
            f"{one_of(holder.noun).capitalize()} whose {words(rules.barred[0])} is {words(rules.barred[1])} gets none."
        )
    if rules.unfit:
        told.append(
            f"{one_of(item.noun).capitalize()} whose {words(rules.unfit[0])} is {words(rules.unfit[1])} cannot be had."
        )
    if rules.stock:
        told.append(f"Each takes one of the {words(rules.stock)} of the {kind}.")
    else:
        told.append(f"{one_of(item.noun).capitalize()} is in one such {words(link.noun)} at a time.")
    if rules.charge:
        told.append(f"Each costs the {one} {rules.charge[1]} of its {words(rules.charge[0])}.")
    if rules.capacity is not None and skeleton.place:
        told.append(f"{one_of(skeleton.place.noun).capitalize()} has room for {rules.capacity} {words(item.plural)}.")
    if any(each.removable for each in skeleton.kinds):
        told.append(f"What {one_of(link.noun)} names is never removed.")
    told.append("Things have keys; look them up by what they are called.")
    return " ".join(told)


def plan(skeleton: Skeleton) -> dict[str, list[str]]:
    """Every tool and check by name with its parameters, as planned."""
    return {each.name: [slot.name for slot in each.slots] for each in operations(skeleton)}
