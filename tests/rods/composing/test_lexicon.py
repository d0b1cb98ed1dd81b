"""What words ask for, and what they leave open."""

from __future__ import annotations

import pytest

from rods.composing.bind import spoken
from rods.composing.lexicon import delegates, runs_on


@pytest.mark.parametrize(
    "text",
    [
        "Create a folder named something suitable.",
        "Write something into notes.txt.",
        "Book a good room for the picnic.",
        "Any hour will do.",
        "Call it whatever you like.",
        "Put it on any day you like.",
        "Pick a name for the new file.",
        "Use a title of your choice.",
        "Tweet it with a fitting tag.",
        "Follow someone interesting.",
        "I don't care which room it is.",
        "Send a short note to Ada.",
        "Where it goes is up to you.",
        "Name it as you see fit.",
    ],
)
def test_words_that_leave_a_choice_to_whoever_serves_the_request(text: str) -> None:
    assert delegates(text)


@pytest.mark.parametrize(
    "text",
    [
        "Create a folder called what I have in mind.",
        "Book a certain room for the picnic.",
        "Move a certain number of dollars to my usual account.",
        "Now something else: delete the file that I have in mind.",
        "Write something that I drafted into notes.txt.",
        "Say 'pick a name you like' to Ada.",
        "Could you choose the seat that I told Ada of?",
        "Tell me if any of them moved by a certain number of percent. Have a good day.",
        "Please pass the mail about the tournament on to a colleague.",
    ],
)
def test_words_for_what_the_user_has_in_mind_leave_no_choice(text: str) -> None:
    assert not delegates(text)


def test_entries_of_several_words_are_quoted_in_a_list_and_names_are_not() -> None:
    assert spoken(["tires checked", "oil low"]) == "'tires checked' and 'oil low'"
    assert spoken(["left the garage", "north", "on time"]) == (
        "'left the garage', 'north' and 'on time'"
    )
    assert spoken(["Ada Lovelace", "Theo Brandt"]) == "Ada Lovelace and Theo Brandt"
    assert spoken([3, 4, 5]) == "3, 4 and 5"
    assert not runs_on(7) and not runs_on("milk") and runs_on("brown bread")
