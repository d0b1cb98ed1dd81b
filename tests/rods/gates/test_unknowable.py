"""Which values no reader comes to by himself, in tasks of people as odd as they write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rods.calls import Call
from rods.gates.ground_truth import replayed
from rods.gates.unknowable import unknowable
from rods.gates.values import grounding
from rods.worlds import desk
from tests.environments import desk_tasks

DESK = desk.environment()
STATE = {
    "today": "thursday",
    "contacts": {"sam": {"address": "box24", "team": "design"}},
    "calendar": {
        "events": {
            "e11": {"title": "launch", "day": "monday", "hour": 9, "guests": [], "room": ""}
        },
        "next": 26,
    },
    "mail": {"inbox": {}, "sent": {}, "next": 25},
    "files": {"map": {"folder": "old", "text": "all approved", "locked": False, "shared": []}},
    "ledger": {
        "accounts": {"events": 200, "taxes": 640},
        "bills": {
            "i10": {"vendor": "nimbus", "amount": 180, "paid": False},
            "i18": {"vendor": "falcon", "amount": 220, "paid": False},
        },
        "next": 25,
    },
}


def found(request: str, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """What is unknowable of a task with one request."""
    task = replace(
        desk_tasks(5, 1, 0)[0],
        id="",
        script=(request,),
        calls=(tuple(Call(name, arguments) for name, arguments in calls),),
        tools=tuple(DESK.tools()),
        state=STATE,
        provenance={},
    )
    results, reasons = replayed(DESK, task)
    assert results is not None and not reasons
    return [*map(str, unknowable(DESK, task, results, grounding(DESK, task, results)))]


@pytest.mark.parametrize(
    ("request_", "amount"),
    [
        ("Anna brought 130 and Bob brought 85, put the sum of both into events.", 215),
        ("Put the 130 of Anna and the 85 of Bob into events in one go.", 215),
        ("I had 500 for the party, 130 went on drinks. Put the rest into events.", 370),
        ("Three people paid 45 each. Put that into events.", 135),
        ("Put 10% of 500 into events.", 50),
        ("Put a quarter of 500 into events.", 125),
        ("Bitte buche 1.250 auf events.", 1250),
        ("请向events存入130元", 130),
    ],
)
def test_what_is_reckoned_from_the_words_is_known(request_: str, amount: int) -> None:
    assert not found(request_, ("add_income", {"account": "events", "amount": amount}))


def test_what_is_reckoned_from_words_and_results_is_known() -> None:
    bills = [("find_bill", {"vendor": vendor}) for vendor in ("nimbus", "falcon")]
    spent = ("add_expense", {"account": "taxes", "amount": 400})
    assert not found("Spend the total of the bills of nimbus and falcon from taxes.", *bills, spent)
    balance = ("get_balance", {"account": "events"})
    raised = ("add_income", {"account": "events", "amount": 100})
    assert not found("Bring events up to 300.", balance, raised)
    gala = ("create_event", {"title": "gala", "day": "monday", "hour": 11})
    after = "Create the event gala on monday two hours after launch."
    assert not found(after, ("find_event", {"title": "launch"}), gala)


@pytest.mark.parametrize(
    ("request_", "arguments"),
    [
        ("Create a file named by the initials of Anna Maria Klein in drafts: hello.", {}),
        ("Create the file amk in drafts that says, in German, welcome.", {"text": "Willkommen"}),
    ],
)
def test_a_text_may_be_made_of_another(request_: str, arguments: dict[str, Any]) -> None:
    file = {"file": "amk", "folder": "drafts", "text": "hello", **arguments}
    assert not found(request_, ("create_file", file))


def test_what_follows_from_nothing_is_not() -> None:
    income = "add_income", {"account": "events", "amount": 215}
    assert found("Put our usual sum into events.", income)
    assert found("Put 50 into taxes, and the usual into events.", income)
    assert found("Enter a bill of 1.250 from lumen, and put the usual into events.", income)
    lunch = "create_event", {"title": "lunch", "day": "friday", "hour": 13}
    assert found("Create the event lunch on friday at the usual.", lunch)
    name = "create_file", {"file": "roland", "folder": "drafts", "text": "hello"}
    assert found("Create a file for that friend of mine in drafts saying hello.", name)
