"""What a world of a skeleton offers: its tools and checks, with the body of each, and the file that
has them.

The operations are the plan (003 eq. 2) and the methods (eq. 3) at once: templates of
operations.toml, filled by a skeleton. Every change refuses before it has changed anything, and
every one that succeeds changes something. Checks know things by their labels, never by keys that a
world made: whoever made them in another order has earned as much."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Literal

from rods.canonical import JsonMapping, JsonObject, frozen
from rods.family.environments.procedural.skeletons import (
    STOCK,
    Attribute,
    Kind,
    Skeleton,
    Table,
    class_name,
    listed,
    one_of,
    plural,
    prefix,
    words,
)
from rods.family.environments.programs import assemble, check, tool
from rods.files import read_toml

ENTRIES = 200  # of one table
Role = Literal[
    "get",
    "find",
    "list",
    "links",
    "staged",
    "add",
    "set",
    "remove",
    "move",
    "open",
    "advance",
    "check",
]
Values = JsonMapping


@frozen
class Slot:
    """A parameter: a `key` or `label` of a kind (`of`: its noun), a `value` of the attribute `of`,
    or a `count`."""

    name: str
    takes: Literal["key", "label", "value", "stage", "count"]
    of: str
    attribute: Attribute | None = None
    optional: bool = False

    @property
    def annotation(self) -> str:
        if self.takes == "key":
            return f"{class_name(self.of)}Key"
        if self.attribute is None:
            return self.takes.title()
        return f"{_type(self.attribute)} | None = None" if self.optional else _type(self.attribute)


@frozen
class Operation:
    """A tool or a check: its place in the plan, and its method. `noun` is the kind that it is
    about, `detail` the attribute or stage. A change is asked for by `brief`, and by `asks` with its
    details ("": in a list)."""

    name: str
    role: Role
    noun: str
    slots: tuple[Slot, ...]
    gives: str
    about: str
    body: tuple[str, ...]
    detail: str = ""
    brief: str = ""
    asks: str = ""

    @property
    def reads(self) -> bool:
        return self.role in ("get", "find", "list", "links", "staged", "check")

    def method(self) -> str:
        """Its function."""
        taken = "".join(f", {slot.name}: {slot.annotation}" for slot in self.slots)
        body = "\n".join(f"    {line}" for line in self.body)
        return (
            f'def {self.name}(db: World{taken}) -> {self.gives}:\n    """{self.about}"""\n{body}\n'
        )


def assembled(skeleton: Skeleton) -> str:
    """The source of a world of a skeleton (003 eq. 4)."""
    methods = [
        check(part.method())
        if part.role == "check"
        else tool(class_name(plural(part.noun)), part.reads, part.method())
        for part in operations(skeleton)
    ]
    return assemble(skeleton.about, state(skeleton), [*helpers(skeleton), *methods])


def state(skeleton: Skeleton) -> str:
    """Types, records and the state."""
    templates = _templates()["state"]
    link = skeleton.link
    tables = _tables(skeleton)
    parts = [templates["types"].format(entries=ENTRIES)]
    for table in tables:
        pattern = f'pattern=r"^{prefix(table.noun)}[0-9]{{1,4}}$", max_length=6'
        parts.append(f"{class_name(table.noun)}Key = Annotated[str, Field({pattern})]\n")
    for kind in skeleton.kinds:
        fields = [
            f"{kind.label}: Label",
            *(f"{attribute.name}: {_type(attribute)}" for attribute in kind.attributes),
        ]
        parts.append(
            _record(
                kind.noun, fields + ([f"{kind.at}: {class_name(kind.at)}Key"] if kind.at else [])
            )
        )
    ends = [f"{kind.noun}: {class_name(kind.noun)}Key" for kind in (skeleton.holder, skeleton.item)]
    extra = [f"{link.extra.name}: {_type(link.extra)}"] if link.extra else []
    parts.append(
        _record(link.noun, [*ends, f"stage: {_type(Attribute('stage', link.stages))}", *extra])
    )
    lines = (
        f"    {table.plural}: dict[str, {class_name(table.noun)}] = field(default_factory=dict)"
        for table in tables
    )
    return "".join((*parts, templates["world"].format(tables="\n".join(lines))))


def helpers(skeleton: Skeleton) -> list[str]:
    """The functions that tools and checks look things up with."""
    templates = _templates()["helpers"]
    tables = [_values(skeleton, table) for table in _tables(skeleton)]
    return [
        *(_filled(templates["lookup"], values) for values in tables),
        *(_filled(templates["by_label"], values) for values in tables[:-1]),
    ]


@cache
def operations(skeleton: Skeleton) -> tuple[Operation, ...]:
    """All of a world's tools and checks. Names are unique."""
    templates = _templates()
    every = [
        operation
        for part in ("tools", "checks")
        for table in _tables(skeleton)
        for template in templates["link" if table is skeleton.link else "kind"][part]
        for operation in _expanded(skeleton, table, template)
    ]
    assert len({operation.name for operation in every}) == len(every), "two operations of one name"
    return tuple(every)


def documentation(skeleton: Skeleton) -> str:
    """What the policy is told of the world and its rules (003 eq. 2)."""
    values = _values(skeleton, skeleton.link)
    sentences = (
        _filled(template["says"], values)
        for template in _templates()["documentation"]
        if _stands(template, values)
    )
    return " ".join(filter(None, sentences))


def plan(skeleton: Skeleton) -> dict[str, list[str]]:
    """Every tool and check by name with its parameters, as planned."""
    return {
        operation.name: [slot.name for slot in operation.slots]
        for operation in operations(skeleton)
    }


def _tables(skeleton: Skeleton) -> tuple[Table, ...]:
    """Everything that a state holds."""
    return (*skeleton.kinds, skeleton.link)


@cache
def _templates() -> JsonObject:
    return read_toml(Path(__file__).with_suffix(".toml"))


def _filled(paragraph: str, values: Values) -> str:
    """Empty where not all that it names is there."""
    template = Template(paragraph)
    return template.substitute(values) if values.keys() >= set(template.get_identifiers()) else ""


def _stands(template: JsonMapping, values: Values) -> bool:
    return template.get("when", "noun") in values


def _expanded(skeleton: Skeleton, table: Table, template: JsonMapping) -> Iterator[Operation]:
    values = _values(skeleton, table)
    slots = _slots(skeleton, table)
    if not _stands(template, values):
        return
    for more, value in _each(template.get("each", ""), skeleton, table):
        choices = slots | {"value": value}
        taken = tuple(slot for name in template["takes"] for slot in choices[name])
        filling = {
            **values,
            **more,
            "arguments": ", ".join(f"{slot.name}={slot.name}" for slot in taken),
        }
        parts = {
            name: [
                _filled(paragraph, filling)
                for paragraph in template.get(name, "").strip("\n").split("\n\n")
            ]
            for name in ("name", "about", "body", "detail", "brief", "asks", "gives")
        }
        body = tuple(line for paragraph in parts.pop("body") for line in paragraph.splitlines())
        texts = {name: "".join(paragraphs) for name, paragraphs in parts.items()}
        texts["gives"] = texts["gives"] or "bool"
        yield Operation(
            role=template.get("role", "check"), noun=table.noun, slots=taken, body=body, **texts
        )


def _each(what: str, skeleton: Skeleton, table: Table) -> Iterator[tuple[Values, Sequence[Slot]]]:
    """Further values, and the slot of a value: one of each attribute or advance where that is asked
    for."""
    if what == "advance":
        for advance in skeleton.link.advances:
            more = _worded(advance=advance.verb, after=advance.after)
            more |= {"before": repr(advance.before), "before_listed": listed(advance.before)}
            more["before_words"] = listed([words(stage) for stage in advance.before])
            if advance.frees and skeleton.rules.stock:
                more["freed"] = skeleton.rules.stock
            yield more, ()
    elif what and isinstance(table, Kind):
        for attribute in table.attributes:
            if attribute.settable or what == "attribute":
                yield _worded(attribute=attribute.name), (_of(attribute),)
    else:
        yield {}, ()


def _of(attribute: Attribute, optional: bool = False) -> Slot:
    return Slot(attribute.name, "value", attribute.name, attribute, optional)


def _slots(skeleton: Skeleton, table: Table) -> dict[str, list[Slot]]:
    """What `takes` of an operation may name."""
    noun = table.noun
    slots = {"key": [Slot(noun, "key", noun)], "count": [Slot("count", "count", noun)]}
    if isinstance(table, Kind):
        at = [table.at] if table.at else []
        return slots | {
            "label": [Slot(table.label, "label", noun)],
            "choice": [_of(_choice(table), optional=True)],
            "values": [_of(attribute) for attribute in table.attributes],
            "at": [Slot(place, "key", place) for place in at],
            "at_label": [Slot(place, "label", place) for place in at],
        }
    for name, kind in (("holder", skeleton.holder), ("item", skeleton.item)):
        slots[name] = [Slot(kind.noun, "key", kind.noun)]
        slots[f"{name}_label"] = [Slot(kind.noun, "label", kind.noun)]
    slots["stage"] = [Slot("stage", "stage", noun, Attribute("stage", skeleton.link.stages))]
    slots["extra"] = [_of(skeleton.link.extra)] if skeleton.link.extra else []
    return slots


@cache
def _values(skeleton: Skeleton, table: Table) -> Values:
    """What the templates of a kind or of the links are filled with. A rule that the skeleton lacks
    has no values."""
    link = skeleton.link
    rules = skeleton.rules
    values = {
        **skeleton.verbs,
        "about": skeleton.about,
        "entries": ENTRIES,
        "kinds": listed([words(kind.plural) for kind in skeleton.kinds], "and"),
        "verb": link.verb,
        "open": repr(link.open),
        "phrase": link.phrase,
        "described": link.described,
        "more": f", {link.extra.name}={link.extra.name}" if link.extra else "",
    }
    roles = zip(("holder", "item", "place"), skeleton.kinds, strict=False)
    nouns = {"noun": table.noun, "link": link.noun} | {name: kind.noun for name, kind in roles}
    for name, noun in nouns.items():
        values |= _named(name, noun)
    there = {
        "limit": rules.limit,
        "capacity": rules.capacity,
        "removing": any(kind.removable for kind in skeleton.kinds),
        "taken": not rules.stock and repr(link.taken),
        "stock_most": rules.stock and STOCK[1],
    }
    worded = {
        "first": link.stages[0],
        "extra": link.extra.name if link.extra else "",
        "stock": rules.stock,
    }
    for name, bar in (("barred", rules.barred), ("unfit", rules.unfit)):
        if bar:
            worded |= zip((name, f"{name}_value"), bar, strict=True)
    if rules.charge:
        worded["charge"], values["amount"] = rules.charge
        values["charge_low"] = next(
            attribute.low
            for attribute in skeleton.holder.attributes
            if attribute.name == worded["charge"]
        )
    if isinstance(table, Kind):
        worded |= {"label": table.label, "labels": plural(table.label), "at": table.at}
        worded["choice"] = _choice(table).name
        there["removable"] = table.removable
    values |= {name: value for name, value in there.items() if value}
    return values | _worded(**{name: word for name, word in worded.items() if word})


def _named(name: str, noun: str) -> dict[str, str]:
    """What a kind is called."""
    many = plural(noun)
    article = one_of(noun)
    names = {
        name.title(): class_name(noun),
        f"a_{name}": article,
        f"A_{name}": article.capitalize(),
    }
    return names | _worded(**{name: noun, f"{name}s": many}) | {f"{name}_prefix": prefix(noun)}


def _worded(**names: str) -> dict[str, str]:
    """Names, and what they are in words."""
    return names | {f"{key}_words": words(name) for key, name in names.items()}


def _choice(kind: Kind) -> Attribute:
    """The first of its attributes with a few values; each kind has one."""
    return next(attribute for attribute in kind.attributes if attribute.values)


def _type(attribute: Attribute) -> str:
    if attribute.values:
        return f"Literal[{', '.join(map(repr, attribute.values))}]"
    return f"Annotated[int, Field(ge={attribute.low}, le={attribute.high})]"


def _record(noun: str, fields: Iterable[str]) -> str:
    return f"\n\n@dataclass\nclass {class_name(noun)}:\n" + "".join(
        f"    {field}\n" for field in fields
    )
