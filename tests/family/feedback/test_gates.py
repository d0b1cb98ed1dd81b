"""What a text of feedback may hold: rules of documents, never a value, however it is written (000 Appendix C.2)."""

from __future__ import annotations

import re

import pytest

from rods.family.feedback.gates import LONGEST, GroundTruthValues, feedback_faults
from rods.prompts import FOLDER
from rods.tasks import Task
from rods.worlds import bfcl, desk
from tests.environments import load
from tests.family.feedback.disguises import LEAKS, SOUND, VALUES, leaky_tasks

DIRECTION = "The event may have to be looked up before, as find_event does."
TRUTH = GroundTruthValues(leaky_tasks())


def faults(text: str) -> list[str]:
    world = load("desk")
    tools = world.tools()
    return feedback_faults(world, tools["move_event"], tools["find_event"], "no such event", text, TRUTH)


def test_there_are_enough_disguises_and_sound_texts() -> None:
    assert len(LEAKS) >= 70 and len(SOUND) >= 20


@pytest.mark.parametrize("disguise", LEAKS)
def test_no_disguise_of_a_value_passes(disguise: str) -> None:
    assert not faults(DIRECTION)
    assert faults(f"{DIRECTION} Then {LEAKS[disguise]}.")
    assert faults(f"{LEAKS[disguise][0].upper()}{LEAKS[disguise][1:]}. {DIRECTION}")


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


@pytest.fixture(scope="module")
def ground_truths(wheel_file: object) -> dict[str, GroundTruthValues]:
    tasks: dict[str, list[Task]] = {"desk": desk.generate(7, 400, 40), "bfcl": list(bfcl.tasks())}
    return {name: GroundTruthValues(found) for name, found in tasks.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "tool", "other", "refusal", "text"), SOUND)
def test_a_sound_text_passes_beside_all_the_values_of_a_benchmark(
    environment: str, tool: str, other: str, refusal: str, text: str, ground_truths: dict[str, GroundTruthValues]
) -> None:
    world = load(environment)
    tools = world.tools()
    assert not feedback_faults(world, tools[tool], tools.get(other), refusal, text, ground_truths[environment])


def test_the_examples_that_the_generator_is_shown_would_pass(ground_truths: dict[str, GroundTruthValues]) -> None:
    form, seen = re.compile(r"^Tool: (\w+)\nRefused with: (.*)\nAnswer: (.*)\nRemedy: \w+(?:, tool (\w+))?", re.M), 0
    worlds = {name: load(name) for name in ground_truths}
    for file in sorted(FOLDER.glob("feedback_class_*.txt")):
        for tool, refusal, text, other in form.findall(file.read_text(encoding="utf-8")):
            for name, world in worlds.items():
                tools = world.tools()
                if tool in tools:
                    seen += 1
                    found = feedback_faults(world, tools[tool], tools.get(other), refusal, text, ground_truths[name])
                    assert not found, (file.name, text, found)
    assert seen >= 35


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
