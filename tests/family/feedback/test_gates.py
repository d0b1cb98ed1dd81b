"""What a text of feedback may hold: rules of documents, never a value, however it is written (000
Appendix C.2)."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family import new_world
from rods.family.feedback.gates import (
    LONGEST,
    GroundTruthValues,
    _choices,
    feedback_doubts,
    feedback_faults,
    word_list,
)
from rods.prompts import FOLDER
from rods.tasks import Task
from rods.worlds import bfcl, desk
from tests.environments import load
from tests.family.feedback.disguises import LEAKS, SOUND, VALUES, leaky_tasks

TASK = desk.generate(7, 1, 1)[0]
HERE = Path(__file__).parent
# Written without knowledge of the gate: texts that give a value away, each with the value, and
# texts that do not.
BLIND, SOUND_BLIND = (
    [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]
    for name in ("disguises.jsonl", "sound.jsonl")
)
DIRECTION = "The event may have to be looked up before, as find_event does."
TRUTH = GroundTruthValues(leaky_tasks())


def faults(text: str) -> list[str]:
    world = load("desk")
    tools = world.tools()
    about = world, tools["move_event"], tools["find_event"], "no such event", text
    return [*feedback_faults(*about, TRUTH), *feedback_doubts(*about)]


def found(
    line: dict[str, Any],
    text: str,
    truth: GroundTruthValues,
    library: Environment | None = None,
    doubts: bool = True,
) -> list[str]:
    """What is held against a text for the tool, the remedy and the refusal of a line of the
    corpora, and what a judge is asked about it."""
    world = library if line["environment"] == "library" and library else load(line["environment"])
    tools = world.tools()
    about = world, tools[line["tool"]], tools.get(line["remedy"]), line["refusal"], text
    return [*feedback_faults(*about, truth), *(feedback_doubts(*about) if doubts else [])]


@cache
def some_task() -> Task:
    return desk.generate(7, 1, 1)[0]


def held(value: Any) -> GroundTruthValues:
    """The values of a ground truth that calls something with `value`."""
    return GroundTruthValues(
        [
            replace(
                some_task(),
                script=("x",),
                calls=((Call("find_event", {"title": value}),),),
                later_tools={},
                id="",
            )
        ]
    )


def opened(text: str) -> str:
    """The text with capitals at the beginnings of its sentences."""
    return re.sub(r"(?:^|[.] )[a-z]", lambda start: start[0].upper(), text)


def test_no_disguise_of_the_blind_corpus_passes() -> None:
    assert len(BLIND) >= 150
    passed = [
        line["text"]
        for line in BLIND
        if not all(
            found(line, text, held(line["value"])) for text in (line["text"], opened(line["text"]))
        )
    ]
    assert not passed


# About real refusals of three worlds, written before the gate (1), while it was made (2), against
# it once it was done (3), without a look at it (4, 7), against it again (5), and after its last
# change (6).
NATURAL, HIDDEN = (
    [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]
    for name in ("natural.jsonl", "hidden.jsonl")
)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """The world of the template."""
    shutil.copytree(Path(new_world.__file__).parent / "template", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Environments().load("world.py:environment")


def test_of_the_hidden_values_few_reach_the_judge_without_a_doubt(library: Environment) -> None:
    passed = [
        (line["list"], line["text"])
        for line in HIDDEN
        if not found(line, line["text"], held(line["value"]), library)
    ]
    assert len(HIDDEN) == 556 and Counter(number for number, _ in passed) == {6: 5, 7: 1}, passed


@pytest.mark.slow
def test_natural_texts_are_refused_for_nothing_and_few_are_doubted(
    ground_truths: dict[str, GroundTruthValues], library: Environment
) -> None:
    refused = Counter[int]()
    doubted = Counter[int]()
    for line in NATURAL:
        truth = ground_truths.get(line["environment"], GroundTruthValues([]))
        if found(line, line["text"], truth, library, doubts=False):
            refused[line["list"]] += 1
        elif found(line, line["text"], truth, library):
            doubted[line["list"]] += 1
    assert len(NATURAL) == 431
    assert refused == {1: 4, 4: 1, 7: 2}, refused
    assert doubted == {1: 7, 2: 4, 3: 3, 4: 2, 5: 1, 6: 2, 7: 42}, doubted


@pytest.mark.slow
def test_sound_texts_of_the_blind_corpus_pass(ground_truths: dict[str, GroundTruthValues]) -> None:
    refused = [
        line["text"]
        for line in SOUND_BLIND
        if found(line, line["text"], ground_truths[line["environment"]])
    ]
    assert len(refused) <= 0.05 * len(SOUND_BLIND), refused


PLACES = [
    *(
        "{v} is expected here.",
        "It is not {v}.",
        "Rather {v} than another.",
        "The one meant is {v}.",
        "Only {v} is known.",
    ),
    *(
        "{o} or {v} is accepted.",
        "Neither {o} nor {v} is accepted.",
        "{n} may be {v}, as the document lists it.",
    ),
]


@pytest.mark.parametrize("environment", ["desk", "bfcl"])
def test_of_the_values_that_a_document_lists_all_are_named_or_none(environment: str) -> None:
    world = load(environment)
    none = GroundTruthValues([])
    singled = 0
    all_of_them = 0
    for tool in world.tools().values():
        for parameter, values in _choices([tool]):
            if not values:
                continue
            noun = parameter.name.replace("_", " ")
            for place, value in enumerate(values):
                other = values[place - 1]
                rest = ", ".join(one for one in values if one != value)
                said = [
                    form.format(v=value, o=other, n=f"The {noun}")
                    for form in PLACES
                    if len(values) > 2 or not form.startswith("{o}")  # which lists both
                ]
                listed = f"{', '.join(values)}"
                said += [
                    f"It is one of {rest}, or another one." * (len(values) > 2),
                    f"It is one of {listed}; {value} fits.",
                ]
                said += [f"It is one of {listed.replace(value, value.upper() + 'S')}."]
                for text in filter(None, said):
                    singled += 1
                    assert feedback_faults(world, tool, None, "not accepted", opened(text), none), (
                        tool.name,
                        text,
                    )
            whole = f"The {noun} has to be one of {', '.join(values)}."
            if parameter.schema.get("type") != "array" and len(whole) <= LONGEST:
                all_of_them += 1
                assert not feedback_faults(world, tool, None, "not accepted", whole, none), whole
            assert parameter.schema.get("type") != "array" or feedback_faults(
                world, tool, None, "bad", whole, none
            )
    assert singled >= 100 and all_of_them >= 5


@pytest.mark.parametrize(
    ("tool", "remedy", "text"),
    [
        ("get_flight_cost", "", "The class should rather be economy than business."),
        ("get_flight_cost", "", "A flight is known in the first class only."),
        ("get_flight_cost", "", "The class needs to come first."),
        ("lockDoors", "", "It needs driver, passenger, rear_left and rear_right, all of them."),
        ("fillFuelTank", "", "Is it accepted: yes no yes yes no."),
        ("create_ticket", "", "The priority is one."),
        ("create_ticket", "", "The priority is at the end of its range."),
        ("create_ticket", "", "The priority is the highest in the document."),
        ("tail", "", "The lines are as many as the number of words here."),
        ("ls", "", "Also what is not visible has to be listed."),
        ("place_order", "", "Either Buy or Sell, and not the other one."),
        ("wc", "", "The mode that tells words is expected."),
        ("send_message", "get_user_id", "You should call get_user_id with the user name first."),
        ("send_message", "get_user_id", "Use get_user_id before send_message."),
        ("send_message", "get_user_id", "get_user_id, then send_message in this exact order."),
        (
            "send_message",
            "get_user_id",
            "Look the user up, then send the message, in this exact order.",
        ),
    ],
)
def test_a_value_is_not_singled_out_nor_an_order_of_calls_given(
    tool: str, remedy: str, text: str
) -> None:
    line = {"environment": "bfcl", "tool": tool, "remedy": remedy, "refusal": "Not accepted"}
    assert found(line, text, GroundTruthValues([]))


@pytest.mark.parametrize(
    "number", ["zero", "two", "seventeen", "dozen", "half", "third", "last", "most", "twice", "7"]
)
def test_numbers_ranks_and_extremes_are_said_where_the_refusal_or_the_tool_says_them(
    number: str,
) -> None:
    line = {"environment": "bfcl", "tool": "divide", "remedy": "", "refusal": "Division failed"}
    text = f"What is expected is {number}."
    assert found(line, text, GroundTruthValues([]))
    assert (
        bool(found({**line, "refusal": f"Division by {number}"}, text, GroundTruthValues([])))
        == number.isdigit()
    )


@pytest.mark.parametrize(
    "text",
    [
        "Invalid airport code. You may need to retrieve the correct code for the city first.",
        "Invalid airport code. You may need to retrieve the code first.",
        "This operation requires certain prerequisites to be met.",
        "Consider checking if prerequisites are satisfied.",
        "This error typically indicates a missing step earlier.",
    ],
)
def test_the_good_examples_of_the_paper_pass(text: str) -> None:
    """000 Appendix C.1 and C.2."""
    line = {
        "environment": "bfcl",
        "tool": "get_flight_cost",
        "remedy": "get_nearest_airport_by_city",
    }
    assert not found({**line, "refusal": "Invalid airport code"}, text, GroundTruthValues([]))


def test_few_words_are_plain_and_none_of_them_is_a_rank() -> None:
    plain, barred = (word_list(name) for name in ("plain_words", "barred_words"))
    assert len(plain) < 600 and not (plain | word_list("general_words")) & barred


@pytest.mark.parametrize("word", ["lighthouse", "violin", "octopus", "bakery", "glacier"])
def test_a_thing_that_no_document_names_is_not_spoken_of(word: str) -> None:
    assert "names" in faults(f"{DIRECTION} A {word} has an event too.")[0]
    assert not faults(f"{DIRECTION} A workspace has an event too.")


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
        "The event is given by its identifier, not by its title. The identifier may have to be "
        "looked up first.",
        "No such event: it has to exist before it can be moved, and find_event may tell whether it "
        "does.",
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
    environment: str,
    tool: str,
    other: str,
    refusal: str,
    text: str,
    ground_truths: dict[str, GroundTruthValues],
) -> None:
    world = load(environment)
    tools = world.tools()
    assert not feedback_faults(
        world, tools[tool], tools.get(other), refusal, text, ground_truths[environment]
    )


def test_the_examples_that_the_generator_is_shown_would_pass(
    ground_truths: dict[str, GroundTruthValues],
) -> None:
    form = re.compile(
        r"^Tool: (\w+)\nRefused with: (.*)\nAnswer: (.*)\nRemedy: \w+(?:, tool (\w+))?", re.M
    )
    seen = 0
    worlds = {name: load(name) for name in ground_truths}
    for file in sorted(FOLDER.glob("feedback_class_*.txt")):
        for tool, refusal, text, other in form.findall(file.read_text(encoding="utf-8")):
            for name, world in worlds.items():
                tools = world.tools()
                if tool in tools:
                    seen += 1
                    found = feedback_faults(
                        world, tools[tool], tools.get(other), refusal, text, ground_truths[name]
                    )
                    assert not found, (file.name, text, found)
    assert seen >= 35


def test_what_the_document_or_the_refusal_shows_may_be_said() -> None:
    shown = [task for task in desk.generate(7, 40, 0) if task.calls]
    values = GroundTruthValues(shown)
    world = load("desk")
    day = "A day is one of monday, tuesday, wednesday, thursday or friday."
    assert feedback_faults(world, world.tools()["move_event"], None, "bad day", day, values) == []
    assert feedback_faults(world, world.tools()["read_mail"], None, "no such mail", day, values)


def test_a_text_has_a_length_and_names_one_other_tool() -> None:
    assert faults("Look it up.") and faults("The event may have to be looked up. " * 20)
    assert len("The event may have to be looked up. " * 20) > LONGEST
    assert (
        "names"
        in faults("See find_event, then list_day, then move_event: the event may be there.")[0]
    )


def test_the_reasons_tell_no_value_that_the_writer_did_not_write() -> None:
    for text in LEAKS.values():
        for reason in faults(f"{DIRECTION} Then {text}."):
            assert all(value not in reason or value in text for value in VALUES)
