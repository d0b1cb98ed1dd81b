"""Where what a text lists may be read in two ways."""

from __future__ import annotations

from typing import Any

import pytest

from rods.analysis.containment import Text
from rods.calls import Call
from rods.composing.parse_wording import plain
from rods.environments.base import reference
from rods.gates.ground_truth import run
from rods.gates.texts import requests, undone
from rods.tasks import Task
from rods.worlds.bfcl import environment, fetch
from tests.environments import load

TWO = ["tires checked", "oil change due"]
CAR: dict[str, Any] = {
    "classes": ["VehicleControlAPI"],
    "config": {"VehicleControlAPI": {"random_seed": 7, "fuelLevel": 20.0}},
    "long_context": False,
}


def log(text: str, messages: list[str]) -> Task:
    fetch()
    return Task(
        environment=reference(load("bfcl")),
        type="base",
        script=(text,),
        calls=((Call("display_log", {"messages": messages}),),),
        tools=environment().tools_of(CAR["classes"]),
        state=CAR,
    )


@pytest.mark.parametrize(
    ("text", "messages", "clear"),
    [
        ("Display the log with the entries tires checked and oil change due.", TWO, False),
        ("Display the log with the entries oil change due, tires checked.", TWO, False),
        ("Display the log with the entries 'tires checked and oil change due'.", TWO, False),
        ("Display the log with the entries 'tires checked' and 'oil change due'.", TWO, True),
        ('Display the log with the entries "tires checked", and "oil change due".', TWO, True),
        ("Display the log: first tires checked, then oil change due.", TWO, True),
        ("Display the log with the entries parked and washed.", ["parked", "washed"], True),
        ("Display the log with the entries parked and oil change due.", ["parked", TWO[1]], False),
        ("Display the log with Ada Berg and Theo Brandt.", ["Ada Berg", "Theo Brandt"], True),
        ("Display the log with the entry tires checked.", TWO[:1], True),
    ],
)
def test_entries_of_a_list_that_run_into_each_other_are_refused(
    text: str, messages: list[str], clear: bool
) -> None:
    task = log(text, messages)
    results = run(load("bfcl"), task)
    reasons = [reason.text for reason in undone(task, results)]
    assert (reasons == []) is clear
    assert all("is not said" in reason for reason in reasons)
    assert set(reasons) <= {reason.text for reason in requests(load("bfcl"), task, results)}


def test_quotation_marks_hide_no_entry() -> None:
    text = "Display the log with the entries 'tires checked' and 'oil change due'."
    assert Text.of(text).contains_exact(TWO)
    assert plain(text) == "display the log with the entries tires checked and oil change due."
