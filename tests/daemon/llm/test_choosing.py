"""Answers as values: numbers are the listed ones whatever their form, and truth values are no numbers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from daemon.authors.llm.choosing import Blank, Choosing
from rods.analysis.schemas import fits
from rods.composing.bind import Choice
from rods.composing.catalogue import Recipe, RecipeStep, Said, Scene
from rods.environments.base import Parameter, Tool

KEY = (0, 0, "amount")


def chosen(
    options: list[Any], schema: dict[str, Any], answer: Any, *, legal: bool = True
) -> tuple[Any, dict[Any, Blank]]:
    """What is bound when a model answers `answer` for an argument with these options, and what is left to be asked."""
    tool = Tool("pour", "Kitchen", "Pours.", (Parameter("amount", schema),))
    recipe = Recipe("pour", (RecipeStep("pour", {"amount": Said("amount", "pour.amount")}),), ("pour {amount}",))
    choice = Choice(0, 0, recipe, "amount", "pour.amount", options, Scene({}, {}, {}, {}), (), thematic=False)
    asking = Choosing({"pour": tool}, {}, {}, Random(1))
    asking(choice)
    blank = asking.blanks[KEY]
    assert fits(blank.as_schema(), answer) == legal, "what the schema lets pass must be what is meant here"
    binding = Choosing({"pour": tool}, {KEY: blank.value(answer)}, {}, Random(1))
    return binding(choice), binding.blanks


@pytest.mark.parametrize(("answer", "value"), [(5, 5.0), (5.0, 5.0), (2.5, 2.5), (7, 7), (7.0, 7)])
def test_a_number_is_the_listed_one_whatever_its_form(answer: Any, value: Any) -> None:
    found, asked = chosen([2.5, 5.0, 7], {"type": "number", "enum": [2.5, 5.0, 7]}, answer)
    assert (found, type(found)) == (value, type(value)) and not asked


@pytest.mark.parametrize(("options", "answer"), [([1, 2], True), ([1.0, 2.0], True), ([True, False], 1)])
def test_a_truth_value_is_no_number(options: list[Any], answer: Any) -> None:
    found, asked = chosen(options, {"enum": options}, answer, legal=False)
    assert type(found) is type(options[0])
    assert "is not to be had" in asked[KEY].problem


def test_a_number_that_may_be_invented_stays_as_it_was_given() -> None:
    found, asked = chosen([2.5, 5.0], {"type": "number", "maximum": 9}, 8)
    assert (found, type(found)) == (8, int) and not asked
