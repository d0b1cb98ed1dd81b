"""What "that card" may mean once two cards were named: the gate, and the wording of variants."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rods.calls import Call
from rods.composing import bind, task_types, wording
from rods.composing.catalogue import Catalogue
from rods.composing.records import ComposeError, Draft, Plan, PlannedTurn
from rods.environments.base import reference
from rods.gates.ground_truth import run
from rods.gates.values import referents
from rods.tasks import Task
from rods.worlds.bfcl import environment, fetch
from tests.environments import load

THAT = "Tell me how much money is left on that card."
# the turns before it, and what has to hold of the cards of its first and second call
CASES = [
    ([["tv_balance"], ["tv_status"]], "one"),
    ([["tv_balance"], ["tv_book_on"]], "last"),  # the card of the flight is meant
    ([["tv_book"], ["tv_insure_on"]], "first"),  # again the flight's, but another one paid since
    ([["tv_balance", "tv_book_on"], ["tv_status"]], "together"),
]


@pytest.fixture(scope="module")
def book() -> Catalogue:
    fetch()
    return environment().catalogue()


def drafts(book: Catalogue, names: list[list[str]], *, same: bool) -> list[Draft]:
    """Drafts in which the two calls that are paid by card, or ask about one, name the same, or
    not."""
    plan = Plan(
        tuple(
            PlannedTurn(
                tuple(turn), tuple(tool for name in turn for tool in book.recipes[name].tools)
            )
            for turn in [*names, ["tv_balance_again_on"]]
        ),
        {"story": book.book.stories[0].name},
    )
    made = []
    for seed in range(60):
        rng = random.Random(seed)
        state = bind.fresh_state(book, plan, None, rng)
        try:
            draft = bind.realise(load("bfcl"), book, plan, state, bind.random_chooser(rng))
        except ComposeError:
            continue
        cards = [
            bound.call.arguments["card_id"]
            for turn in draft.turns[:-1]
            for bound in turn
            if "card_id" in bound.call.arguments
        ]
        if (len(set(cards)) == 1) is same:
            made.append(draft)
    return made[:3]


@pytest.mark.parametrize(("names", "case"), CASES)
def test_that_card_is_refused_where_another_one_was_named_last_or_beside_it(
    book: Catalogue, names: list[list[str]], case: str
) -> None:
    for same in (True, False):
        chosen = drafts(book, names, same=same)
        assert bool(chosen) or case == "one"
        for draft in chosen:
            rng = random.Random(0)
            task = task_types.apply(
                book, load("bfcl"), draft, wording.word(book, draft, rng), "base", rng
            )
            task = replace(task, script=(*task.script[:-1], THAT), id="")
            reasons = referents(load("bfcl"), task, run(load("bfcl"), task))
            refused = any("fits the words as well" in reason.text for reason in reasons)
            assert refused is (not same and case in ("first", "together")), task.script


@pytest.mark.parametrize(("names", "case"), CASES)
def test_a_variant_names_the_card_where_another_one_was_named_last_or_beside_it(
    book: Catalogue, names: list[list[str]], case: str
) -> None:
    references = 0
    for same in (True, False):
        for draft in drafts(book, names, same=same):
            slot = draft.turns[-1][0].slots["card"]
            # the turn before did not have it, or another one was named
            assert slot.others is (case in ("one", "together") or not same)
            for seed in range(8):
                texts = wording.rewrite(
                    book, draft, narrative=False, served=True, rng=random.Random(seed)
                )
                assert not slot.others or slot.text in texts[-1]
                references += slot.text not in texts[-1]
    assert bool(references) is (case in ("first", "last"))


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("I am done with that list of suppliers. Make that file say 'see you'.", True),
        ("Make the new file say 'see you'.", True),
        ("Make that file say 'see you'.", False),
    ],
)
def test_a_word_of_the_files_name_leaves_it_to_a_reader(text: str, doubt: bool) -> None:
    fetch()
    both = "Start memo.md and sort suppliers.md."
    state = {
        "classes": ["GorillaFileSystem"],
        "config": {
            "GorillaFileSystem": {
                "root": {
                    "home": {
                        "type": "directory",
                        "contents": {"suppliers.md": {"type": "file", "content": "b\na"}},
                    }
                }
            }
        },
        "long_context": False,
    }
    made = (
        (Call("touch", {"file_name": "memo.md"}), Call("sort", {"file_name": "suppliers.md"})),
        (Call("echo", {"content": "see you", "file_name": "suppliers.md"}),),
    )
    world = environment()
    task = Task(
        environment=reference(world),
        type="base",
        script=(both, text),
        calls=made,
        tools=world.tools_of(["GorillaFileSystem"]),
        state=state,
    )
    assert [reason.doubt for reason in referents(world, task, run(world, task))] == [doubt]
