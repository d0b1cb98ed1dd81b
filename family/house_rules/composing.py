"""What composing needs of a world with house rules: desk's catalogue, with recipes whose calls keep
to the rules."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from rods.composing.catalogue import Catalogue, Constant, FromResult, Recipe, RecipeStep
from rods.family.house_rules.rule import VIA, Rule
from rods.worlds.desk.catalogue import catalogue as of_desk

T = TypeVar("T")


def catalogue(rules: Mapping[str, Rule]) -> Catalogue:
    """Desk's for a world with these rules, by tool: what a rule wants is a step or an argument
    more. Recipes that break a rule of the kind `form` are left out: no source of an argument joins
    two values."""
    kept = {name: _kept(rules, recipe) for name, recipe in of_desk().recipes.items()}
    return replace(
        of_desk(), recipes={name: recipe for name, recipe in kept.items() if recipe is not None}
    )


def _kept(rules: Mapping[str, Rule], recipe: Recipe) -> Recipe | None:
    steps: list[RecipeStep] = []
    places: list[int] = []  # where each step of desk's recipe stands now
    for step in recipe.steps:
        rule = rules.get(step.tool)
        arguments = {name: _moved(of, places) for name, of in step.arguments.items()}
        if rule is not None and rule.kind == "form":
            return None
        if rule is not None and rule.first:
            before = RecipeStep(rule.first, {rule.key: arguments[rule.key]} if rule.key else {})
            steps += [before] if before not in steps else []
        if rule is not None and rule.kind == "default":
            arguments[VIA] = Constant(rule.value)
        places.append(len(steps))
        steps.append(RecipeStep(step.tool, arguments))
    gives = {
        kind: replace(gift, value=_moved(gift.value, places)) for kind, gift in recipe.gives.items()
    }
    return replace(recipe, steps=tuple(steps), gives=gives)


def _moved(source: T, places: list[int]) -> T:
    """The same source, where steps were put in between."""
    return replace(source, step=places[source.step]) if isinstance(source, FromResult) else source
