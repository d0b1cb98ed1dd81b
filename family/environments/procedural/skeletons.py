"""Draws skeletons of worlds by chance (003 §3 without a model), and states in which such a world
can begin. A topic (topics.toml) says what there may be; a skeleton is one choice of it: which
attributes, tools and rules, with which numbers, and what the tools are called."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import product
from pathlib import Path

from rods.canonical import JsonMapping, JsonObject, frozen, keyed_random
from rods.files import read_toml

TOPICS = Path(__file__).parent / "topics.toml"
STOCK = (0, 30)  # of an item, at least and at most
# how many a state begins with, at least and at most
HOLDERS = (4, 6)
ITEMS = (4, 6)
PLACES = (2, 3)
LINKS = (3, 6)


@frozen
class Attribute:
    """One of a few `values`, or a whole number from `low` to `high`. `settable`: there is a tool
    that changes it."""

    name: str
    values: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    settable: bool = True

    def draw(self, rng: random.Random, usual: float = 0.0) -> str | int:
        """A legal value; the first of a few with the chance `usual`, whatever else chance says."""
        if not self.values:
            return rng.randint(self.low, self.high)
        return self.values[0] if rng.random() < usual else rng.choice(self.values)


@frozen
class Table:
    """What a state has a table of, called by one `noun`."""

    noun: str

    @property
    def plural(self) -> str:
        return plural(self.noun)


@frozen
class Kind(Table):
    """A kind of things. Each has a `label`, which is its own and never changes, and attributes;
    `at` is the kind of place that it is in ("": none)."""

    label: str
    labels: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    at: str = ""
    removable: bool = False


@frozen
class Advance:
    """What takes a link from one of the stages `before` to `after`. `frees`: the item is free
    again."""

    verb: str
    before: tuple[str, ...]
    after: str
    frees: bool


@frozen
class Linking(Table):
    """What links a holder with an item: made by `verb`, in the first of its `stages`."""

    verb: str
    phrase: str
    described: str
    stages: tuple[str, ...]
    advances: tuple[Advance, ...]
    extra: Attribute | None

    @property
    def open(self) -> tuple[str, ...]:
        """The stages from which it can go on."""
        return tuple(
            stage
            for stage in self.stages
            if any(stage in advance.before for advance in self.advances)
        )

    @property
    def taken(self) -> tuple[str, ...]:
        """The stages in which the item is not free."""
        freed = {advance.after for advance in self.advances if advance.frees}
        return tuple(stage for stage in self.stages if stage not in freed)


@frozen
class Rules:
    """What has to hold for a link to be made: at most `limit` open ones a holder; no holder or item
    with the value that keeps it from it (attribute, value); one of the item's `stock` left ("": an
    item has one link at a time); its price (attribute of the holder, amount). `capacity` items a
    place."""

    limit: int | None = None
    barred: tuple[str, str] | None = None
    unfit: tuple[str, str] | None = None
    stock: str = ""
    charge: tuple[str, int] | None = None
    capacity: int | None = None


@frozen
class Skeleton:
    """Everything that a world's source is assembled from. `verbs`: what its tools call the common
    operations."""

    topic: str
    about: str
    verbs: Mapping[str, str] = field(hash=False)
    holder: Kind
    item: Kind
    place: Kind | None
    link: Linking
    rules: Rules

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return (self.holder, self.item, *([self.place] if self.place else []))


def plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    if noun.endswith("lf"):
        return f"{noun[:-1]}ves"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


@cache
def topics() -> JsonMapping:
    """The topics, and what all of them share under `words` and `verbs`."""
    return read_toml(TOPICS)


def topic_names() -> list[str]:
    return [name for name in topics() if name not in ("words", "verbs")]


def draw_skeleton(random_seed: int, number: int, among: Sequence[str] = ()) -> Skeleton:
    """Skeleton `number` of a random seed, of the topics `among` (none: of all). Topics take turns,
    so that some dozen worlds have all of them."""
    names = list(among) or topic_names()
    rng = keyed_random(random_seed, "skeleton", number)
    topic = names[(number + keyed_random(random_seed, "topics").randrange(len(names))) % len(names)]
    options = topics()[topic]
    place = _kind(options["place"], rng) if rng.random() < 0.6 else None
    holder = _kind(options["holder"], rng, removable=rng.random() < 0.5)
    item = _kind(options["item"], rng, at=place.noun if place else "", removable=rng.random() < 0.5)
    stock = options["item"].get("stock", "")
    charge = options["link"].get("charge") if rng.random() < 0.6 else None
    if stock:
        item = _with(item, Attribute(stock, (), *STOCK, settable=rng.random() < 0.5))
    if charge:
        low, high = options["holder"]["numbers"].get(charge[0], (0, 100))
        holder = _with(holder, Attribute(charge[0], (), low, high))
    rules = Rules(
        limit=rng.randint(2, 4) if rng.random() < 0.7 else None,
        barred=_bar(options["holder"], holder),
        unfit=_bar(options["item"], item),
        stock=stock,
        charge=(charge[0], rng.randint(charge[1], charge[2])) if charge else None,
        capacity=rng.randint(ITEMS[1], ITEMS[1] + 3) if place and rng.random() < 0.6 else None,
    )
    verbs = {name: rng.choice(words) for name, words in topics()["verbs"].items()}
    return Skeleton(
        topic, options["about"], verbs, holder, item, place, _linking(options["link"], rng), rules
    )


def _kind(options: JsonMapping, rng: random.Random, at: str = "", removable: bool = False) -> Kind:
    choices: Mapping[str, Sequence[str]] = options["choices"]
    names = rng.sample(list(choices), rng.randint(1, len(choices)))
    attributes = [
        Attribute(name, tuple(values), settable=rng.random() < 0.8)
        for name, values in choices.items()
        if name in names
    ]
    for name, (low, high) in options.get("numbers", {}).items():
        if rng.random() < 0.6:
            attributes.append(Attribute(name, (), low, high, settable=rng.random() < 0.8))
    named = options["named"]
    firsts, lasts = (
        (topics()["words"][name] for name in ("first", "last")) if named == "people" else named
    )
    labels = tuple(f"{first} {last}" for first, last in product(firsts, lasts))
    return Kind(options["noun"], options["label"], labels, tuple(attributes), at, removable)


def _with(kind: Kind, attribute: Attribute) -> Kind:
    others = tuple(other for other in kind.attributes if other.name != attribute.name)
    return replace(kind, attributes=(*others, attribute))


def _bar(options: JsonMapping, kind: Kind) -> tuple[str, str] | None:
    """The value that keeps a thing of this kind from being linked, where it has the attribute."""
    bars = options.get("bars", {})
    return next(
        ((name, bars[name]) for name in bars if name in {trait.name for trait in kind.attributes}),
        None,
    )


def _linking(options: JsonMapping, rng: random.Random) -> Linking:
    advances = [
        Advance(step["verb"], tuple(step["from"]), step["to"], step["frees"])
        for step in options["steps"]
    ]
    ((extra, (low, high)),) = options["extra"].items()
    if rng.random() < 0.4 and all(advances[-1].after not in advance.before for advance in advances):
        advances.pop()  # a world without the last way to end it
    reached = {options["stages"][0], *(advance.after for advance in advances)}
    return Linking(
        **{name: options[name] for name in ("noun", "verb", "phrase", "described")},
        stages=tuple(stage for stage in options["stages"] if stage in reached),
        advances=tuple(advances),
        extra=Attribute(extra, (), low, high, False) if rng.random() < 0.7 else None,
    )


def draw_state(skeleton: Skeleton, random_seed: int, *keys: str | int) -> JsonObject:
    """A state that obeys the rules, as JSON: tables by the plural of their kind, entries by key."""
    rng = keyed_random(random_seed, "state", skeleton.topic, *keys)
    link = skeleton.link
    rules = skeleton.rules
    holders = skeleton.holder
    items = skeleton.item
    state: JsonObject = {kind.plural: {} for kind in skeleton.kinds}
    state |= {link.plural: {}, "next": 1}

    def enter(table: Table, entry: JsonMapping) -> None:
        state[table.plural][f"{prefix(table.noun)}{state['next']}"] = dict(entry)
        state["next"] += 1

    for kind, (least, most) in ((skeleton.place, PLACES), (holders, HOLDERS), (items, ITEMS)):
        if kind is None:
            continue
        for label in rng.sample(kind.labels, min(rng.randint(least, most), len(kind.labels))):
            entry: JsonObject = {kind.label: label}
            entry |= {
                attribute.name: attribute.draw(rng, usual=0.5) for attribute in kind.attributes
            }
            if kind is items and rules.stock:
                entry[rules.stock] = rng.randint(0, 4)
            if kind.at:
                entry[kind.at] = rng.choice(list(state[plural(kind.at)]))
            enter(kind, entry)
    pairs = list(product(state[holders.plural], state[items.plural]))
    rng.shuffle(pairs)
    for holder, item in pairs[: rng.randint(*LINKS)]:
        links = state[link.plural].values()
        stage = rng.choice(link.stages)
        held = sum(other[holders.noun] == holder and other["stage"] in link.open for other in links)
        if stage in link.open and rules.limit is not None and held >= rules.limit:
            continue
        taken = any(other[items.noun] == item and other["stage"] in link.taken for other in links)
        if stage in link.taken and not rules.stock and taken:
            continue
        entry = {holders.noun: holder, items.noun: item, "stage": stage}
        if link.extra:
            entry[link.extra.name] = link.extra.draw(rng)
        enter(link, entry)
    return state


def prefix(noun: str) -> str:
    """What the keys of this kind begin with."""
    return noun[:2].upper()


def words(name: str) -> str:
    """An identifier as words."""
    return name.replace("_", " ")


def class_name(noun: str) -> str:
    """What a kind is called in a program."""
    return noun.title().replace("_", "")


def one_of(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {words(noun)}"


def listed(items: Sequence[str], last: str = "or") -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"
