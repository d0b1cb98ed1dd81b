"""Wording: everything is asked for, nothing leaks; the holistic rewrite does what turn-by-turn
wording does not."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace

import pytest

from rods.analysis.containment import Text
from rods.composing import wording
from rods.composing.catalogue import known_catalogue
from rods.composing.records import BoundCall, ComposeError, Draft
from rods.worlds import desk as desk_environment
from tests.environments import Late, load
from tests.rods.composing.drafts import DESK, STORY, desk, drafted, planned

PLAN = planned(["plan_event"], ["room_for_it", "see_balance"], ["take_in"])
FRESH = Late(
    lambda: [draft for _, draft in itertools.islice(desk_environment.fresh_tasks(5, "wording"), 80)]
)


def _word(draft: Draft, seed: int) -> tuple[str, ...]:
    return wording.word(desk(), draft, random.Random(seed))


def _rewrite(draft: Draft, seed: int, narrative: bool = True) -> tuple[str, ...]:
    return wording.rewrite(desk(), draft, narrative=narrative, rng=random.Random(seed))


def test_turn_by_turn_every_turn_names_everything_it_needs() -> None:
    for draft in FRESH:
        for turn, text in zip(draft.turns, _word(draft, 0), strict=True):
            for bound in turn:
                for slot in bound.slots.values():
                    assert Text.of(text).contains_exact(slot.text), (slot, text)


def test_rewrite_refers_back_and_word_does_not() -> None:
    draft = drafted(PLAN)
    title = draft.turns[0][0].call.arguments["title"]
    backs = desk().book.things["event"].back
    rewritten = [_rewrite(draft, seed)[1] for seed in range(40)]
    assert all(title in text or any(back in text for back in backs) for text in rewritten)
    assert 20 < sum(any(back in text.lower() for back in backs) for text in rewritten) < 40
    assert not any(
        "that event" in text or "this event" in text
        for seed in range(40)
        for text in _word(draft, seed)
    )


def test_repeated_value_becomes_a_back_reference_only_in_a_rewrite() -> None:
    draft = next(
        draft
        for seed in range(50)
        if (draft := drafted(PLAN, seed)).turns[2][0].slots["account"].repeats
    )
    assert any("the same account" in _rewrite(draft, seed)[2] for seed in range(10))
    assert not any("the same" in text for seed in range(10) for text in _word(draft, seed))


def test_story_runs_through_a_rewrite_and_only_there() -> None:
    story = next(story for story in desk().book.stories if story.name == STORY["story"])
    draft = drafted(PLAN)
    opened = closed = 0
    for seed in range(20):
        texts = _rewrite(draft, seed)
        opened += any(texts[0].startswith(lead.format(**STORY)) for lead in story.opening)
        closed += any(texts[2].startswith(lead.format(**STORY)) for lead in story.closing)
    assert opened > 15 and closed > 15  # leads are dropped where a turn would grow too long
    plain = [
        text
        for seed in range(20)
        for text in (*_rewrite(draft, seed, narrative=False), *_word(draft, seed))
    ]
    leads = [
        lead.format(**STORY)
        for part in (story.opening, story.later, story.closing)
        for lead in part
    ]
    assert not any(lead in text for text in plain for lead in leads)


def test_phrases_vary() -> None:
    draft = drafted(PLAN)
    assert len({_rewrite(draft, seed)[0] for seed in range(30)}) > 15


def test_texts_are_sentences_within_the_length() -> None:
    short = 0
    for draft in FRESH:
        for text in (*_word(draft, 1), *_rewrite(draft, 1), *_rewrite(draft, 1, narrative=False)):
            if text:
                assert (
                    text[0].isupper() and text[-1] in ".!?" and "{" not in text and "  " not in text
                )
                short += len(text.split()) <= desk().book.longest
    assert short > 0.97 * sum(bool(turn) for draft in FRESH for turn in draft.turns) * 3


def test_no_tool_or_parameter_is_named() -> None:
    names = set(DESK.tools())
    for draft in FRESH:
        for text in (*_word(draft, 2), *_rewrite(draft, 2)):
            assert "_" not in text and not names & set(text.split())


def test_turn_without_calls_has_no_text_yet() -> None:
    draft = drafted(planned(["plan_event"], [], ["see_balance"]))
    assert _word(draft, 0)[1] == _rewrite(draft, 0)[1] == ""


def test_same_key_gives_the_same_words() -> None:
    assert _rewrite(FRESH[0], 3) == _rewrite(FRESH[0], 3)


def test_draft_whose_calls_do_not_fit_its_recipes_is_refused() -> None:
    draft = drafted(planned(["pay_vendor"]))
    torn: tuple[tuple[BoundCall, ...], ...] = (draft.turns[0][:1],)
    with pytest.raises(ComposeError) as caught:
        _word(Draft(draft.plan, draft.state, torn), 0)
    assert caught.value.type == "conversation_construct_failed"


def test_no_lead_comes_twice_in_a_conversation() -> None:
    leads = [
        lead
        for story in desk().book.stories
        for part in (story.opening, story.later, story.closing)
        for lead in part
    ]
    for draft in FRESH:
        texts = " ".join(_rewrite(draft, 4))
        for lead in leads:
            assert texts.count(lead.format(**draft.plan.narrative)) <= 1


def test_an_opening_says_what_the_calls_serve_and_no_topic_is_told() -> None:
    """As variants are worded: the recipes' own purposes open the conversation, and a later turn
    comes back to them."""
    catalogue = desk()
    opened = []
    resumed = 0
    for number, draft in enumerate(FRESH):
        first, *later = wording.rewrite(
            catalogue, draft, narrative=True, served=True, rng=random.Random(number)
        )
        purposes = {
            text
            for turn in draft.turns
            for bound in turn
            for text in catalogue.recipes[bound.recipe].purpose
        }
        for line in catalogue.book.openings:
            before, after = line.split("{intent}")
            if first.startswith(before) and (end := first.find(after)) > 0:
                parts = first[len(before) : end]
                if any(
                    parts == one or parts == f"{one} and {two}"
                    for one in purposes
                    for two in purposes - {one}
                ):
                    opened.append(first[: end + 1])
        told = [
            text
            for text in (first, *later)
            for line in catalogue.book.resumes
            if text.startswith(line)
        ]
        assert len(told) <= 1 and not first.startswith(catalogue.book.resumes)
        resumed += len(told)
        leads = [
            lead
            for story in catalogue.book.stories
            for part in (story.opening, story.later)
            for lead in part
        ]
        leads = [lead.format(**draft.plan.narrative) for lead in leads]
        assert not any(
            text.startswith(lead)
            for text in (first, *later)
            for lead in leads
            if len(lead.split()) > 3
        )
    # a lead is dropped where its turn would grow too long
    assert len(opened) > 0.6 * len(FRESH) and resumed > 10
    assert len(set(opened)) >= 0.8 * len(opened)


def test_what_resumes_an_opening_may_say_what_is_wanted_there() -> None:
    catalogue = replace(desk(), book=replace(desk().book, resumes=("I still have to {intent}.",)))
    resumed = 0
    for number, draft in enumerate(FRESH):
        texts = wording.rewrite(
            catalogue, draft, narrative=True, served=True, rng=random.Random(number)
        )
        for turn, text in zip(draft.turns, texts, strict=True):
            assert "{" not in text
            if text.startswith("I still have to "):
                wanted = {one for bound in turn for one in catalogue.recipes[bound.recipe].purpose}
                assert any(text.startswith(f"I still have to {one}.") for one in wanted)
                resumed += 1
    assert resumed > 10


def test_a_lead_stands_before_the_request_of_its_recipe_alone() -> None:
    draft = drafted(planned(["take_in", "see_balance"], ["see_today"]))
    recipes = dict(desk().recipes)
    for name in ("see_balance", "see_today"):
        recipes[name] = replace(recipes[name], leads=(f"Now {name}.",))
    catalogue = replace(desk(), recipes=recipes)
    led = 0
    for seed in range(20):
        rng = random.Random(seed)
        first, second = wording.rewrite(catalogue, draft, narrative=True, served=True, rng=rng)
        assert "Now see" not in first  # see_balance is not what the turn begins with
        led += second.startswith("Now see_today. ")
        assert "Now see" not in second.removeprefix("Now see_today. ")
        plain = wording.rewrite(catalogue, draft, narrative=True, rng=random.Random(seed))
        assert not any("Now see" in text for text in plain)
    assert 5 < led < 20
    opened = [
        wording.rewrite(
            catalogue,
            drafted(planned(["see_today"], ["take_in"])),
            narrative=True,
            served=True,
            rng=random.Random(seed),
        )
        for seed in range(20)
    ]
    resumes = desk().book.resumes
    assert any(first.startswith("Now see_today.") for first, _ in opened)
    # nothing was told to come back to
    assert not any(
        first.startswith("Now see_today.") and second.startswith(resumes)
        for first, second in opened
    )


def test_a_value_of_several_words_stands_in_quotation_marks_in_a_variant() -> None:
    draft = drafted(planned(["plan_event"], ["mail_person"]))
    text = draft.turns[1][-1].call.arguments["text"]
    for seed in range(6):
        served = wording.rewrite(
            desk(), draft, narrative=True, served=True, rng=random.Random(seed)
        )
        assert f"'{text}'" in served[1] and f"'{text}'" not in _rewrite(draft, seed)[1]


def test_an_opening_before_a_turn_without_calls_tells_of_nothing_that_it_could_serve() -> None:
    draft = drafted(planned(["take_in", "see_balance"], ["see_today"]))
    names = ("take_in", "see_balance", "see_today")

    def tells(told: int | None) -> set[str]:
        text = " ".join(
            wording.rewrite(
                desk(), draft, narrative=True, served=True, told=told, rng=random.Random(seed)
            )[0]
            for seed in range(20)
        )
        return {name for name in names if any(one in text for one in desk().recipes[name].purpose)}

    assert tells(None) == {"take_in", "see_balance", "see_today"}
    assert tells(1) == {"take_in", "see_balance"} and tells(0) == {"take_in"}


def test_in_a_variant_the_same_stands_in_the_first_request_of_a_turn_alone() -> None:
    draft = drafted(planned(["take_in", "see_balance"]))
    asked = [
        replace(
            request,
            slots={name: replace(slot, repeats=True, others=False) for name, slot in slots.items()},
        )
        for request in wording.requests(desk(), draft.turns[0])
        for slots in [request.slots]
    ]

    def back(asked: list[wording.RecipeRequest], strict: bool) -> bool:
        return any(
            "the same account"
            in wording._request(
                desk(), asked, holistic=True, strict=strict, rng=random.Random(seed)
            )
            for seed in range(40)
        )

    assert back(asked[:1], True) and back(asked[1:], False) and not back(asked[1:], True)


def test_where_no_opening_was_told_no_turn_comes_back_to_it() -> None:
    book = desk().book
    dropped = 0
    openings = tuple(line.split("{")[0] for line in book.openings)
    for number, draft in enumerate(FRESH):
        first, *later = wording.rewrite(
            desk(), draft, narrative=True, served=True, rng=random.Random(number)
        )
        if draft.turns[0] and not first.startswith(openings):
            dropped += 1
            assert not any(text.startswith(book.resumes) for text in later)
    assert dropped > 3


def test_the_part_of_a_divided_turn_that_comes_first_keeps_its_opening() -> None:
    catalogue = desk()
    kept = 0
    openings = tuple(line.split("{")[0] for line in catalogue.book.openings)
    for number, draft in enumerate(FRESH):
        text = wording.rewrite(
            catalogue, draft, narrative=True, served=True, rng=random.Random(number)
        )[0]
        if not draft.turns[0] or not text.startswith(openings):
            continue
        opening = text[: text.find(". ") + 1]
        first, rest = wording.parted(catalogue, draft, 0, text, random.Random(number))
        assert first.startswith(opening) and not rest.startswith(openings)
        kept += bool(rest)
    assert kept > 5


@pytest.mark.parametrize("world", ["desk", "bfcl"])
def test_what_follows_other_requests_is_not_said_to_be_first_and_what_precedes_some_not_last(
    world: str,
) -> None:
    catalogue = known_catalogue(load(world))
    assert catalogue is not None
    book = catalogue.book
    frames = {2: (*book.frames[2], "Start with this: {0}. Then {1}."), 3: book.frames[3]}
    catalogue = replace(catalogue, book=replace(book, frames=frames))
    recipe = next(iter(catalogue.recipes.values()))
    recipe = replace(recipe, phrases=("do it",))
    asked = [wording.RecipeRequest(recipe, place, {}) for place in range(5)]

    def texts(count: int, follows: bool) -> str:
        return " ".join(
            wording._request(
                catalogue,
                asked[:count],
                holistic=False,
                strict=True,
                follows=follows,
                rng=random.Random(seed),
            )
            for seed in range(60)
        )

    assert "Start with this" in texts(2, False)
    assert not wording.FOREMOST.search(texts(2, True))
    assert wording.HINDMOST.search(texts(3, True))
    five = texts(5, True)
    assert not wording.FOREMOST.search(five) and not wording.HINDMOST.search(five)


def test_no_order_is_left_open_between_two_requests() -> None:
    for world in ("desk", "bfcl"):
        catalogue = known_catalogue(load(world))
        assert catalogue is not None
        for line in catalogue.book.frames[2]:
            assert not re.search(r"\b(also|in addition)\b", line, re.IGNORECASE), line
