"""Catalogues: found by name, sound, or refused with the place."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.blanks import unfair
from rods.composing import bind, planning, task_types, wording
from rods.composing.catalogue import Recipe, RecipeStep, Words, catalogue_for
from rods.composing.plan_search import PlanShape
from rods.composing.recipes import source
from rods.composing.records import ComposeError
from rods.gates.ground_truth import run
from rods.gates.texts import style
from rods.tasks import TASK_TYPES
from rods.worlds.checking.soundness import faults
from tests.environments import load
from tests.rods.composing.drafts import desk

DESK = load("desk")
MAIL = "find_contact → send_mail"
OWN = "tests.rods.composing.own_environment:environment"


def test_desk_and_a_users_own_catalogue_are_sound() -> None:
    assert faults(desk(), DESK) == []
    assert faults(catalogue_for(load(OWN)), load(OWN)) == []


def test_environment_without_a_catalogue_is_no_prompts() -> None:
    with pytest.raises(ComposeError) as caught:
        catalogue_for(load("tests.rods.composing.own_environment:bare"))
    assert caught.value.type == "no_prompts"


def step(tool: str, **sources: str) -> RecipeStep:
    return RecipeStep(tool, {parameter: source(text) for parameter, text in sources.items()})


@pytest.mark.parametrize(
    ("recipe", "fault"),
    [
        (Recipe("r", (step("dance"),), ("dance",)), "unknown tool"),
        (
            Recipe("r", (step("read_file", file="file:file", mode="file:file"),), ("read {file}",)),
            "no parameters",
        ),
        (Recipe("r", (step("write_file", file="file:file"),), ("write {file}",)), "needs ['text']"),
        (
            Recipe("r", (step("read_file", file="file:cabinet"),), ("read {file}",)),
            "unknown domain",
        ),
        (Recipe("r", (step("read_file", file="0.files.0"),), ("read it",)), "has not run yet"),
        (Recipe("r", (step("read_file", file="file:file"),), ("read something",)), "exactly once"),
        (
            Recipe("r", (step("read_file", file="file:file"),), ("read {file} and {file}",)),
            "exactly once",
        ),
        (Recipe("r", (step("read_file", file="file:file"),), ("Read {file}.",)), "full stop"),
        (Recipe("r", (step("read_file", file="^drawer"),), ("read {drawer}",)), "no recipe gives"),
        (Recipe("other", (step("read_file", file="file:file"),), ("read {file}",)), "calls itself"),
    ],
)
def test_unsound_recipe_is_named(recipe: Recipe, fault: str) -> None:
    broken = replace(desk(), recipes={**desk().recipes, "r": recipe})
    assert any(fault in line for line in faults(broken, DESK))


def test_unsound_phrase_book_is_named() -> None:
    book = desk().book
    for changed, fault in (
        (replace(book, things={}), "no words for the thing"),
        (replace(book, supply={}), "vague and supply differ"),
        (replace(book, vague={**book.vague, "day": ()}), "vague has no words for 'day'"),
        (
            replace(book, vague={**book.vague, "room": ("a good room",)}),
            "vague of 'room': 'a good room' leaves the choice to the assistant",
        ),
        (
            replace(book, vague={**book.vague, "text": ("something",)}),
            "vague of 'text': 'something' leaves the choice to the assistant",
        ),
        (replace(book, supply={**book.supply, "day": ("On that day.",)}), "must hold {value} once"),
        (replace(book, frames={1: ("Please.",)}), "must hold 1 requests"),
        (replace(book, stories=()), "needs a story"),
    ):
        assert any(fault in line for line in faults(replace(desk(), book=changed), DESK))


def test_an_article_that_phrase_and_phrase_book_both_write_is_named() -> None:
    phrase = "read the {file}"
    recipe = Recipe("r", (step("read_file", file="file:file"),), (phrase,))
    for vague, said in (
        ("one of the files", "the one of the files"),
        ("a file", "the a file"),
        ("other file", ""),
    ):
        book = replace(
            desk().book, vague={"file": (vague,)}, supply={"file": ("I mean {value}.",)}, again={}
        )
        broken = replace(desk(), recipes={"r": recipe}, book=book)
        found = [fault for fault in faults(broken, DESK) if "article" in fault]
        assert found == ([f"r: {phrase!r} may come to say {said!r}: {ARTICLE}"] if said else [])


ARTICLE = "write the article in the phrase or in the phrase book, not in both"


WORDS = {**desk().book.things, "dance": Words(("the {noun}",), ("it",))}


def test_lists_that_name_what_there_is_not_are_named() -> None:
    ours = desk()
    hidden = {"target": ("that account",)}  # its family is "account", by which words are looked up
    unknown = {"dance": ("it",)}
    gone = Recipe("gone", (step("read_file", file="file:file"),), ("read {file}",), ends=("dance",))
    for changed, fault in (
        (
            replace(ours, book=replace(ours.book, vague=hidden)),
            "vague names the unknown family 'target'",
        ),
        (
            replace(ours, book=replace(ours.book, supply=hidden)),
            "supply names the unknown family 'target'",
        ),
        (
            replace(ours, book=replace(ours.book, vague=unknown)),
            "vague names the unknown family 'dance'",
        ),
        (
            replace(ours, book=replace(ours.book, supply=unknown)),
            "supply names the unknown family 'dance'",
        ),
        (
            replace(ours, book=replace(ours.book, things=WORDS)),
            "things names the unknown thing 'dance'",
        ),
        (
            replace(ours, recipes={**ours.recipes, "gone": gone}),
            "no recipe gives or makes 'dance', which another one ends",
        ),
        (replace(ours, families={"dance": "day"}), "families names the unknown domain 'dance'"),
        (replace(ours, thematic=frozenset({"dance"})), "thematic names the unknown domain 'dance'"),
        (replace(ours, silent=frozenset({"dance"})), "silent names the unknown thing 'dance'"),
        (replace(ours, common=frozenset({"dance"})), "common names the unknown tool 'dance'"),
        (
            replace(ours, book=replace(ours.book, again={"dance": ("it",)})),
            "again names the unknown family 'dance'",
        ),
    ):
        (named,) = (line for line in faults(changed, DESK) if line.startswith(fault))
        assert ("names the unknown" in fault) == (": known are " in named)
        assert "account" in named or "family" not in fault


@pytest.mark.parametrize("type", TASK_TYPES)
def test_a_users_own_environment_is_composed_from_like_desk(type: str) -> None:
    catalogue = catalogue_for(load(OWN))
    environment = load(OWN)
    counts = {"miss_func": (1, 0, 2), "miss_param": (0, 1, 2)}.get(type, (1, 2, 1))
    accepted = 0
    for seed in range(12):
        rng = random.Random(seed)
        try:
            plan = planning.plan(
                catalogue,
                environment,
                PlanShape(counts),
                type,  # type: ignore[arg-type]
                rng=rng,
            )
            state = bind.fresh_state(catalogue, plan, None, rng)
            draft = bind.realise(environment, catalogue, plan, state, bind.random_chooser(rng))
            texts = wording.rewrite(catalogue, draft, narrative=True, rng=rng)
            task = task_types.apply(
                catalogue,
                environment,
                draft,
                texts,
                type,  # type: ignore[arg-type]
                rng,
            )
        except ComposeError:
            continue
        accepted += not style(task, catalogue.book.longest + wording.SLACK)
        assert True not in unfair(environment, task, run(environment, task)), (
            task.script,
            task.calls,
        )
    assert accepted >= 6


def test_the_content_id_follows_recipes_and_words_alone() -> None:
    ours = desk()
    assert replace(ours, shown=3).content_id == ours.content_id
    first, *others = ours.recipes.values()
    for changed in (
        replace(ours, recipes={each.name: each for each in (*others, first)}),
        replace(
            ours,
            recipes={**ours.recipes, first.name: replace(first, phrases=(*first.phrases, "again"))},
        ),
        replace(ours, book=replace(ours.book, longest=3)),
    ):
        assert changed.content_id != ours.content_id
