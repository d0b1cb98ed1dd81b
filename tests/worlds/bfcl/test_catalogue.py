"""The catalogue as a whole, and what facts keep from happening: using an account after logging out,
going up from the top, starting a running engine."""

from __future__ import annotations

import random
import re

import pytest

from rods.composing import planning
from rods.composing.catalogue import Catalogue
from rods.composing.lexicon import delegates
from rods.composing.plan_search import PlanShape
from rods.composing.records import ComposeError, Plan
from rods.worlds.bfcl import environment, fetch
from rods.worlds.bfcl.catalogue import CLASSES
from rods.worlds.checking.soundness import faults
from tests.environments import load


@pytest.fixture(scope="module")
def book() -> Catalogue:
    fetch()
    return environment().catalogue()


def test_it_holds_together(book: Catalogue) -> None:
    assert faults(book, load("bfcl")) == []


def test_every_recipe_has_a_purpose_that_can_be_told_before_anything_is_known(
    book: Catalogue,
) -> None:
    purposes = {text: recipe.name for recipe in book.recipes.values() for text in recipe.purpose}
    assert all(recipe.purpose for recipe in book.recipes.values())
    assert [text for text in purposes if re.search(r"[{<_]|\b(that (?!my)|the same )", text)] == []
    assert len(set(purposes)) > len(book.recipes)


def test_every_tool_that_can_succeed_is_in_a_recipe(book: Catalogue) -> None:
    used = {tool for each in book.recipes.values() for tool in each.tools}
    assert load("bfcl").tools().keys() - used == {"get_outside_temperature_from_weather_com"}


def test_every_class_has_recipes_of_its_own_for_all_kinds_of_context(book: Catalogue) -> None:
    groups = {name: tool.group for name, tool in load("bfcl").tools().items()}
    for group in set(groups.values()):
        own = [
            each
            for each in book.recipes.values()
            if {groups[tool] for tool in each.tools} == {group}
        ]
        assert len(own) >= 15 and sum(not each.short for each in own) >= 15


def test_phrases_are_clean_and_many(book: Catalogue) -> None:
    phrases = [phrase for each in book.recipes.values() for phrase in each.phrases]
    assert len(phrases) > 2000 and len(set(phrases)) > 0.9 * len(phrases)
    for phrase in phrases:
        assert not re.search(r"  | ,|\(|\)|\|| \.|\b(\w+) \1\b", phrase), phrase


def test_no_two_classes_define_one_domain() -> None:
    names = [name for each in CLASSES for name in (*each.domains, *each.tables.domains)]
    assert len(names) == len(set(names))


def plans(book: Catalogue, group: str, count: int = 60) -> list[Plan]:
    found = []
    for seed in range(count):
        try:
            found.append(
                planning.plan(
                    book,
                    load("bfcl"),
                    PlanShape((2, 2, 2, 1)),
                    "base",
                    usable=frozenset({group}),
                    tries=1,
                    rng=random.Random(seed),
                )
            )
        except ComposeError:
            continue
    assert len(found) > count / 2
    return found


def order(plan: Plan) -> list[str]:
    return [name for turn in plan.turns for name in turn.recipes]


def test_nobody_logs_in_after_using_an_account_or_uses_it_after_logging_out(
    book: Catalogue,
) -> None:
    for plan in plans(book, "TradingBot", 150):
        names = order(plan)
        inside = [name for name in names if "tr_in" in book.recipes[name].makes]
        logins = [name for name in names if name.startswith("tr_login")]
        assert logins in ([], inside[:1])
        if "tr_logout" in names:
            assert not set(names[names.index("tr_logout") + 1 :]) & set(inside)


def test_one_goes_up_only_after_going_down(book: Catalogue) -> None:
    for plan in plans(book, "GorillaFileSystem", 150):
        level = 0
        for name in order(plan):
            for step in book.recipes[name].steps:
                if step.tool == "cd":
                    level += -1 if name == "fs_back" else 1
            assert level >= 0


def test_an_engine_starts_once(book: Catalogue) -> None:
    for plan in plans(book, "VehicleControlAPI", 150):
        assert sum("startEngine" in book.recipes[name].tools for name in order(plan)) <= 1


def test_nobody_insures_one_booking_twice(book: Catalogue) -> None:
    insured = 0
    for plan in plans(book, "TravelAPI", 400):
        new, old = False, False  # whether the last booking, and whether any booking is insured
        for name in order(plan):
            recipe = book.recipes[name]
            if "book_flight" in recipe.tools and "booking" in recipe.gives:
                new = False
            if "purchase_insurance" in recipe.tools:
                insured += 1
                assert not (new if "booking" in recipe.needs else old), order(plan)
                new = old = True
    assert insured > 20


def test_who_has_registered_a_card_reads_out_no_old_one(book: Catalogue) -> None:
    reading = [each for each in book.recipes.values() if "card" in each.user_slots.values()]
    new = [each for each in book.recipes.values() if "register_credit_card" in each.tools]
    assert len(reading) > 9 and all("new_card" in each.unless for each in reading)
    assert new and all("new_card" in each.makes for each in new)
    assert any("card" in each.needs for each in book.recipes.values()), (
        "it is paid with all the same"
    )


def test_what_is_vague_leaves_no_choice_to_the_assistant(book: Catalogue) -> None:
    words = [text for texts in book.book.vague.values() for text in texts]
    assert len(words) > 50
    assert [text for text in words if delegates(f"Write {text}.")] == []


def test_nobody_is_mentioned_on_a_tweet_posted_without_mentions(book: Catalogue) -> None:
    for recipe in book.recipes.values():
        for step in recipe.steps:
            if step.tool == "post_tweet" and "tweet" in recipe.gives:
                facts = recipe.ends if "mentions" in step.arguments else recipe.makes
                assert "tw_unmentioned" in facts, recipe.name
    mentioning = 0
    for plan in plans(book, "TwitterAPI", 400):
        unmentioned = False
        for name in order(plan):
            for step in book.recipes[name].steps:
                if step.tool == "post_tweet":
                    unmentioned = "mentions" not in step.arguments
                if step.tool == "mention" and "tweet" in book.recipes[name].needs:
                    assert not unmentioned, order(plan)
                    mentioning += 1
    assert mentioning


def test_no_door_is_locked_before_all_are(book: Catalogue) -> None:
    some = 0
    for plan in plans(book, "VehicleControlAPI", 400):
        names = order(plan)
        if "car_lock_some" in names:
            some += 1
            later = names[names.index("car_lock_some") + 1 :]
            locked = [name for name in later if "lockDoors" in book.recipes[name].tools]
            assert locked in ([], ["car_unlock_some"]), names
    assert some > 5


# what one looks at first, and what is listed to be picked from
@pytest.mark.parametrize(
    ("tool", "argument", "words"),
    [
        ("lockDoors", "", "make sure"),
        ("activateParkingBrake", "", "make sure"),
        ("setHeadlights", "", "make sure"),
        ("get_user_tickets", "status", "pick|which|check|go through"),
        ("ls", "", "everything|all"),
        ("cp", "", r"copy of \{file\} (called|named)"),
    ],
)
def test_no_phrase_asks_for_another_call_than_its_own(
    book: Catalogue, tool: str, argument: str, words: str
) -> None:
    phrases = [
        phrase
        for recipe in book.recipes.values()
        for step in recipe.steps
        if step.tool == tool and (argument in step.arguments or not argument)
        if (tool, *step.arguments) != ("ls", "a")
        for phrase in recipe.phrases
    ]
    assert phrases and [phrase for phrase in phrases if re.search(rf"\b({words})\b", phrase)] == []
