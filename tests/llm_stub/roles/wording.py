"""The user's words for calls that a prompt shows, out of the phrase books that the procedural author uses."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

from rods.analysis.flows import Text
from rods.composing.catalogue import Catalogue, Implied, Known, Recipe, Said, catalogue_for
from tests.environments import load
from tests.llm_stub.roles.reading import Asked

Shown = dict[str, Any]  # {"call", "arguments", "result"} as prompts show a call
TURN = re.compile(r"^Turn (\d+):\n?", re.MULTILINE)
VALUES = re.compile(r"^must say: (.*)$", re.MULTILINE)


def environment_of(names: Sequence[str]) -> str:
    """The built-in environment that has all these tools."""
    return next(name for name in ("desk", "bfcl") if set(names) <= set(load(name).tools()))


def shown_turns(text: str) -> list[str]:
    """The parts of `text` under its headings "Turn 1:"."""
    return TURN.split(text)[2::2]


def shown_calls(text: str) -> list[Shown]:
    """The calls in `text`, one JSON object a line."""
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"call"')]


def must_say(text: str) -> list[Any]:
    """The values after "must say:"."""
    found = VALUES.search(text)
    if found is None or found[1].startswith("("):
        return []
    values: list[Any] = json.loads(f"[{found[1]}]")
    return values


def request(calls: Sequence[Shown], values: Sequence[Any], chance: random.Random) -> str:
    """One turn's text: a phrase for each recipe that the calls make up, and whatever of `values` is still unsaid."""
    catalogue = catalogue_for(load(environment_of([call["call"] for call in calls])))
    rest, sentences = list(calls), []
    while rest:
        recipe = _recipe(catalogue, rest, chance)
        size = 1 if recipe is None else len(recipe.steps)
        part, rest = rest[:size], rest[size:]
        clause = _clause(recipe, part, chance) if recipe is not None else "see to the next thing"
        sentences.append(f"Please {clause[0].lower()}{clause[1:]}.")
    text = " ".join(sentences)
    unsaid = [_words(value) for value in values if not Text.of(text).says(value)]
    return text if not unsaid else f"{text} What matters here is {'; and '.join(unsaid)}."


def _recipe(catalogue: Catalogue, calls: Sequence[Shown], chance: random.Random) -> Recipe | None:
    """The longest recipe that the first of `calls` are the steps of."""
    names = tuple(call["call"] for call in calls)
    fitting = [recipe for recipe in catalogue.recipes.values() if names[: len(recipe.steps)] == recipe.tools]
    fitting = [recipe for recipe in fitting if _implied(recipe, calls)]
    longest = max((len(recipe.steps) for recipe in fitting), default=0)
    return chance.choice([one for one in fitting if len(one.steps) == longest]) if fitting else None


def _implied(recipe: Recipe, calls: Sequence[Shown]) -> bool:
    """Whether the constants that the recipe's words imply are those of the calls."""
    return all(
        call["arguments"].get(argument) == source.value
        for step, call in zip(recipe.steps, calls, strict=False)
        for argument, source in step.arguments.items()
        if isinstance(source, Implied)
    )


def _clause(recipe: Recipe, calls: Sequence[Shown], chance: random.Random) -> str:
    fields: dict[str, str] = {}
    for step, call in zip(recipe.steps, calls, strict=True):
        for argument, source in step.arguments.items():
            value = _words(call["arguments"].get(argument, "that one"))
            if isinstance(source, Said):
                fields.setdefault(source.slot, value)
            elif isinstance(source, Known):
                fields.setdefault(source.kind, "that one")
    phrase = chance.choice(recipe.phrases)
    return re.sub(r"\{(\w+)\}", lambda found: fields.get(found[1], "that one"), phrase)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(str, value))
    return str(value)


def all_turns(asked: Asked, chance: random.Random) -> dict[str, Any]:
    texts = [request(shown_calls(part), must_say(part), chance) for part in shown_turns(asked.fields["turns"])]
    return {"queries": texts}


def one_turn(asked: Asked, chance: random.Random) -> dict[str, Any]:
    part = asked.fields["calls"]
    return {"query": request(shown_calls(part), must_say(part), chance)}


def for_itself(asked: Asked, chance: random.Random) -> dict[str, Any]:
    return {"query": all_turns(asked, chance)["queries"]}


ROLES = {"query": for_itself, "rewrite_turns": all_turns, "refine_rewrite": one_turn}
