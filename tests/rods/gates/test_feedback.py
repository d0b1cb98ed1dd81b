"""What a text of feedback may hold: rules of documents, never a value, however it is written (000 Appendix C.2)."""

from __future__ import annotations

import pytest

from rods.gates.feedback import LONGEST, GroundTruthValues, feedback_faults
from tests.environments import load
from tests.rods.gates.disguises import LEAKS, VALUES, leaky_tasks
from worlds import desk

DIRECTION = "The event may have to be looked up before, as find_event does."
TRUTH = GroundTruthValues(leaky_tasks())


def faults(text: str) -> list[str]:
    world = load("desk")
    tools = world.tools()
    return feedback_faults(world, tools["move_event"], tools["find_event"], "no such event", text, TRUTH)


def test_there_are_enough_disguises() -> None:
    assert len(LEAKS) >= 30


@pytest.mark.parametrize("disguise", LEAKS)
def test_no_disguise_of_a_value_passes(disguise: str) -> None:
    assert not faults(DIRECTION)
    assert faults(f"{DIRECTION} Then {LEAKS[disguise]}.")
    assert faults(f"{LEAKS[disguise].capitalize()}. {DIRECTION}")


@pytest.mark.parametrize(
    "text",
    [
        "The event is given by its identifier, not by its title. The identifier may have to be looked up first.",
        "No such event: it has to exist before it can be moved, and find_event may tell whether it does.",
        "Nothing is known under this name. Look at what there is before you try again.",
    ],
)
def test_a_rule_in_plain_words_passes(text: str) -> None:
    assert faults(text) == []


def test_what_the_document_or_the_refusal_shows_may_be_said() -> None:
    shown = [task for task in desk.generate(7, 40, 0) if task.calls]
    values = GroundTruthValues(shown)
    world = load("desk")
    day = "A day is one of monday, tuesday or any other that the document lists."
    assert feedback_faults(world, world.tools()["move_event"], None, "bad day", day, values) == []
    assert feedback_faults(world, world.tools()["read_mail"], None, "no such mail", day, values)


def test_a_text_has_a_length_and_names_one_other_tool() -> None:
    assert faults("Look it up.") and faults("The event may have to be looked up. " * 20)
    assert len("The event may have to be looked up. " * 20) > LONGEST
    assert "names" in faults("See find_event, then list_day, then move_event: the event may be there.")[0]


def test_the_reasons_tell_no_value_that_the_writer_did_not_write() -> None:
    for text in LEAKS.values():
        for reason in faults(f"{DIRECTION} Then {text}."):
            assert all(value not in reason or value in text for value in VALUES)
