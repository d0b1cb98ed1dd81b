"""Whether a catalogue holds together: what its author sees before any task is composed from it."""

import random
import string
from collections.abc import Iterable, Iterator

from rods.composing.bind import fresh_state, random_chooser, realise, repair
from rods.composing.catalogue import Catalogue, FromEarlierRecipe, FromResult, FromUser, Recipe
from rods.composing.lexicon import delegates
from rods.composing.records import ComposeError, Plan, PlannedTurn
from rods.environments.base import Environment, Tools
from rods.gates.texts import ARTICLES

TRIES = 20  # fresh worlds in which a recipe is tried
MENDS = 3  # of one of them
# tables of a catalogue that name tools
OF_TOOLS = ("swaps", "once", "named", "known", "lookups", "common")


def faults(catalogue: Catalogue, environment: Environment) -> list[str]:
    """What is wrong with the `catalogue` of `environment`, one line a fault; empty when it is
    sound.

    Checked are names (tools, parameters, domains, things, facts, families), the order of steps, and
    that every phrase says every slot exactly once, so that no argument can be left unsaid.
    """
    tools = environment.tools()
    recipes = catalogue.recipes.values()
    book = catalogue.book
    lines = [
        f"{recipe.name}: {fault}"
        for recipe in recipes
        for fault in _recipe(catalogue, recipe, tools)
    ]
    lines += [
        f"recipe {name!r} calls itself {recipe.name!r}"
        for name, recipe in catalogue.recipes.items()
        if name != recipe.name
    ]
    things = _of(recipes, "gives")
    facts = _of(recipes, "makes") | things
    for what, wanted, names in (
        ("no recipe makes the fact {!r}", _of(recipes, "when") | _of(recipes, "unless"), facts),
        ("no recipe gives the thing {!r}", _of(recipes, "needs"), things),
        ("no recipe gives or makes {!r}, which another one ends", _of(recipes, "ends"), facts),
        ("the phrase book has no words for the thing {!r}", things, book.things.keys()),
    ):
        lines += [what.format(name) for name in sorted(wanted - names)]
    # a domain with a family of another name is hidden by it
    families = set(map(catalogue.family, catalogue.domains))
    for label, listed, there, what in (
        ("siblings", {*catalogue.siblings, *catalogue.siblings.values()}, tools.keys(), "tool"),
        *((table, {*getattr(catalogue, table)}, tools.keys(), "tool") for table in OF_TOOLS),
        ("families", catalogue.families.keys(), catalogue.domains.keys() | book.things, "domain"),
        ("thematic", catalogue.thematic, catalogue.domains.keys(), "domain"),
        ("silent", catalogue.silent, things, "thing"),
        ("things", book.things.keys(), things, "thing"),
        ("vague", book.vague.keys(), families, "family"),
        ("supply", book.supply.keys(), families, "family"),
        ("again", book.again.keys(), families, "family"),
    ):
        known = f"known are {', '.join(sorted(there)) or 'none'}"
        lines += [
            f"{label} names the unknown {what} {name!r}: {known}" for name in sorted(listed - there)
        ]
    if book.vague.keys() != book.supply.keys():
        lines.append(f"vague and supply differ in {sorted(book.vague.keys() ^ book.supply.keys())}")
    for label, table in (("vague", book.vague), ("supply", book.supply), ("again", book.again)):
        lines += [
            f"{label} has no words for {name!r}" for name, words in table.items() if not words
        ]
    lines += [
        f"vague of {name!r}: {text!r} leaves the choice to the assistant: say what the user means"
        for name, words in book.vague.items()
        for text in words
        if delegates(f"say {text}")
    ]
    for name, words in book.supply.items():
        lines += [
            f"supply of {name!r}: {text!r} must hold {{value}} once"
            for text in words
            if _fields(text) != ["value"]
        ]
    if not book.stories or 1 not in book.frames:
        lines.append("the phrase book needs a story, and a frame for one request")
    for size, frames in book.frames.items():
        wanted = {str(place) for place in range(size)}
        lines += [
            f"the frame {frame!r} must hold {size} requests"
            for frame in frames
            if set(_fields(frame)) != wanted
        ]
    return lines


def _of(recipes: Iterable[Recipe], field: str) -> set[str]:
    return {name for recipe in recipes for name in getattr(recipe, field)}


def trials(catalogue: Catalogue, environment: Environment) -> tuple[int, dict[str, str]]:
    """Runs each recipe of a catalogue without faults, after others that give and make what it
    wants: in fresh worlds, mended as for a variant, until it has run in one, `TRIES` at most.
    How many worlds that took, and why a recipe never ran, by its name."""
    worlds = 0
    dead: dict[str, str] = {}
    for recipe in catalogue.recipes.values():
        for attempt in range(TRIES):
            key = f"{recipe.name} {attempt}"
            rng = random.Random(key)
            leading = _leading(catalogue, recipe, rng, frozenset((recipe.name,)))
            plan = Plan(
                tuple(PlannedTurn((lead.name,), lead.tools) for lead in leading),
                catalogue.topics(rng),
            )
            worlds += 1
            try:
                _realised(catalogue, environment, plan, key)
            except ComposeError as error:
                dead[recipe.name] = str(error)
                continue
            dead.pop(recipe.name, None)
            break
    return worlds, dead


def _realised(catalogue: Catalogue, environment: Environment, plan: Plan, key: str) -> None:
    """Raises ComposeError."""
    state = fresh_state(catalogue, plan, None, random.Random(f"{key} state"))
    for mend in range(MENDS + 1):
        try:
            realise(environment, catalogue, plan, state, random_chooser(random.Random(key)))
            return
        except ComposeError as error:
            mended = repair(catalogue, state, error, random.Random(f"{key} mend"))
            if mended is None or mend == MENDS:
                raise
            state = mended


def _leading(
    catalogue: Catalogue, recipe: Recipe, rng: random.Random, seen: frozenset[str]
) -> list[Recipe]:
    """`recipe` after others, drawn by chance, that give and make what it wants."""
    others: list[Recipe] = []
    for want in sorted(recipe.wants):
        if any(want in (*other.gives, *other.makes) for other in others):
            continue
        makers = [
            other
            for other in catalogue.recipes.values()
            if want in (*other.gives, *other.makes)
            and want not in other.ends
            and other.name not in seen
        ]
        if makers:
            maker = rng.choice(makers)
            others += _leading(catalogue, maker, rng, seen | {maker.name})
    return [*others, recipe]


def _recipe(catalogue: Catalogue, recipe: Recipe, tools: Tools) -> Iterator[str]:
    slots = {*recipe.user_slots, *recipe.needs}
    loud = slots - catalogue.silent
    for index, step in enumerate(recipe.steps):
        tool = tools.get(step.tool)
        if tool is None:
            yield f"unknown tool {step.tool!r}"
            continue
        if unknown := sorted(step.arguments.keys() - set(tool.parameter_names)):
            yield f"{step.tool} has no parameters {unknown}"
        required = {parameter.name for parameter in tool.parameters if parameter.required}
        if missing := sorted(required - step.arguments.keys()):
            yield f"{step.tool} needs {missing}"
        for source in step.arguments.values():
            if isinstance(source, FromResult) and source.step >= index:
                yield f"step {index} takes a result of step {source.step}, which has not run yet"
    for slot, domain in recipe.user_slots.items():
        if domain not in catalogue.domains:
            yield f"{slot} has the unknown domain {domain!r}"
    for kind, gift in recipe.gives.items():
        if gift.noun and " " not in gift.noun and gift.noun not in slots:
            yield f"the thing {kind!r} is named by the unknown slot {gift.noun!r}"
        if isinstance(gift.value, FromResult) and gift.value.step >= len(recipe.steps):
            yield f"the thing {kind!r} comes from step {gift.value.step}, which does not exist"
        if (
            isinstance(gift.value, FromUser)
            and recipe.user_slots.get(gift.value.slot) != gift.value.domain
        ):
            yield (
                f"the thing {kind!r} comes from {gift.value.slot!r}, which the recipe does not say"
            )
        if isinstance(gift.value, FromEarlierRecipe) and gift.value.kind not in recipe.needs:
            yield f"the thing {kind!r} comes from a thing that the recipe does not need"
    if not recipe.steps or not recipe.phrases:
        yield "a recipe needs steps and phrases"
    for phrase in recipe.phrases:
        fields = _fields(phrase)
        if len(set(fields)) < len(fields) or not loud <= set(fields) <= slots:
            yield f"{phrase!r} must say each of {sorted(loud)} exactly once"
        if phrase[-1] in ".!?" or phrase != phrase.strip():
            yield f"{phrase!r} must be a clause without a full stop"
    for phrase, words in _joints(catalogue, recipe):
        if ARTICLES.match(words):
            remedy = "write the article in the phrase or in the phrase book, not in both"
            yield f"{phrase!r} may come to say {words!r}: {remedy}"


def _joints(catalogue: Catalogue, recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Each phrase with a word right before a slot and what the phrase book may put there."""
    book = catalogue.book
    for phrase in recipe.phrases:
        for before, slot, _, _ in string.Formatter().parse(phrase):
            if slot is None or not before.split() or not before.endswith(" "):
                continue
            if domain := recipe.user_slots.get(slot):
                family = catalogue.family(domain)
                words = [*book.vague.get(family, ()), *book.again.get(family, ())]
            else:
                thing = book.things.get(slot)
                words = [] if thing is None else [*thing.explicit, *thing.back]
            yield from ((phrase, f"{before.split()[-1]} {term}") for term in dict.fromkeys(words))


def _fields(template: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
