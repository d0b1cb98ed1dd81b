"""Plans of single tools: what may be said for an argument is bound by its schema alone."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rods.analysis.schemas import fits
from rods.calls import Call
from rods.composing.bind import Choice
from rods.composing.catalogue import LEFT_OUT, FromUser, Recipe, RecipeStep, Scene
from rods.daemon.authors.catalogue_free import fitting_values, single_tools
from rods.daemon.authors.catalogue_free.probing import Prober
from rods.daemon.authors.llm.executing import Answers, UnboundArgument, ValueChooser
from rods.environments.base import Environment, Parameter, Result, Tool
from rods.tasks import Task
from tests.environments import load

BFCL = pytest.mark.needs("bfcl")


def choices(environment: Environment, task: Task) -> list[tuple[Choice, Any]]:
    """Every value that the ground truth of a task gives, or leaves out, with the choice that a plan
    of its tools makes there, in the world at that moment."""
    catalogue = single_tools(environment)
    instance = environment.reset(task.state)
    found = []
    calls = list[tuple[Call, Result]]()
    for turn, made in enumerate(task.calls):
        for place, call in enumerate(made):
            scene = Scene(instance.snapshot(), {}, {}, {}, tuple(calls))
            recipe = catalogue.recipes[call.name]
            for slot, domain in recipe.user_slots.items():
                values = list(catalogue.domains[domain](scene))
                choice = Choice(
                    turn, place, recipe, slot, domain, values, scene, (), thematic=False
                )
                found.append((choice, call.arguments.get(slot, LEFT_OUT)))
            calls.append((call, instance.call(call)))
    return found


@BFCL
def test_every_value_of_the_training_tasks_of_bfcl_can_be_said() -> None:
    from rods.worlds import bfcl

    environment = load("bfcl")
    roots = [task for task in bfcl.tasks() if task.split == "train" and task.type == "base"]
    said = 0
    forced = []
    refused = []
    for task in roots:
        for choice, value in choices(environment, task):
            key = (choice.turn, choice.place, choice.slot)
            asking = ValueChooser(environment.tools(), Answers(), Random(1))
            asking(choice)
            if key not in asking.blanks:
                forced.append((task.id, key))
                continue
            answered = ValueChooser(environment.tools(), Answers({key: value}), Random(1))
            found = answered(choice)
            legal = value is LEFT_OUT or fits(asking.blanks[key].as_schema(), value)
            if found != value or answered.blanks or not legal:
                refused.append((task.id, key, value))
            said += value is not LEFT_OUT
    assert (len(roots), said, forced, refused) == (100, 973, [], [])


@BFCL
def test_what_is_shown_for_a_value_is_what_the_world_takes_at_that_moment() -> None:
    """`cat` takes files of the folder at hand; which, a guess from names does not say."""
    from rods.worlds import bfcl

    environment = load("bfcl")
    task = next(
        task
        for task in bfcl.tasks()
        if task.split == "train" and any(call.name == "cat" for turn in task.calls for call in turn)
    )
    choice, _ = next(found for found in choices(environment, task) if found[0].recipe.name == "cat")
    prober = Prober(environment, single_tools(environment), task.state or {})
    chooser = ValueChooser(environment.tools(), Answers(), Random(1), prober)
    chooser(choice)
    (blank,) = chooser.blanks.values()
    instance = environment.reset(task.state)
    for call, _ in choice.scene.calls:
        instance.call(call)
    guessed = [
        instance.fork().call(Call("cat", {"file_name": name})).error for name in choice.values
    ]
    assert any(guessed), "the guess alone shows what cannot be had"
    assert blank.values and all(
        instance.call(Call("cat", {"file_name": name})).error is None for name in blank.values
    )


@pytest.mark.parametrize(
    ("listed", "schema", "asked"),
    [(["auto"], {"type": "string"}, True), ([1], {"enum": [1]}, False)],
)
def test_one_value_that_is_listed_is_an_example_unless_the_schema_has_no_other(
    listed: list[Any], schema: dict[str, Any], asked: bool
) -> None:
    blank = UnboundArgument(
        (0, 0, "mode"), "start", "mode", listed, {listed[0]: listed[0]}, not asked, schema, False
    )
    assert ("such as" in blank.line()) == asked
    tool = Tool("start", "Car", "Starts.", (Parameter("mode", schema),))
    recipe = Recipe(
        "start", (RecipeStep("start", {"mode": FromUser("mode", "start.mode")}),), ("start",)
    )
    choice = Choice(
        0, 0, recipe, "mode", "start.mode", listed, Scene({}, {}, {}, {}), (), thematic=False
    )
    chooser = ValueChooser({"start": tool}, Answers(), Random(1))
    chooser(choice)
    assert bool(chooser.blanks) == asked


def test_no_example_is_a_text_that_nobody_can_say() -> None:
    parameter = Parameter("folder", {"type": "string"}, required=False, default="")
    assert fitting_values(parameter, Scene({"root": "", "home": "alex"}, {}, {}, {})) == ["alex"]
