"""What a turn without calls asks for cannot be done in it, not even in part."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bench.blanks import unfair
from bench.gates import accepted
from rods.calls import Call
from rods.config import Gates
from rods.environments.base import reference
from rods.gates.ground_truth import run
from rods.gates.missing import missing
from rods.tasks import RETURN_SENTENCE, Task, TaskType
from rods.worlds.bfcl import environment, fetch
from tests.environments import load
from tests.worlds import garage

CAR: dict[str, Any] = {
    "classes": ["VehicleControlAPI"],
    "config": {
        "VehicleControlAPI": {"random_seed": 7, "fuelLevel": 20.0, "engine_state": "stopped"}
    },
    "long_context": False,
}
DESK: dict[str, Any] = {
    "today": "monday",
    "contacts": {"ada": {"address": "box12", "team": "sales"}},
    "calendar": {
        "events": {"e1": {"title": "picnic", "day": "friday", "hour": 9, "room": "", "guests": []}},
        "next": 2,
    },
    "ledger": {"accounts": {"cash": 500, "office": 200}, "bills": {}, "next": 1},
}
LITERS = Call("gallon_to_liter", {"gallon": 21})
AUTO = Call("setHeadlights", {"mode": "auto"})
SPEED = Call("get_current_speed")
ADDRESS = Call("find_contact", {"name": "ada"})
CANCEL = Call("cancel_event", {"event": "e1"})
MOVE = Call("move_event", {"event": "e1", "day": "monday", "hour": 10})
PICNIC = "Move event e1, the 'picnic', to monday at 10."
MEETING = Call("move_event", {"event": "e7", "day": "monday", "hour": 10})
FIND = Call("find_event", {"title": "picnic"})
TRADE = (
    Call("get_stock_info", {"symbol": "AAPL"}),
    Call("place_order", {"order_type": "Buy", "symbol": "AAPL", "price": 227.16, "amount": 40}),
)
STOCKS = {
    "AAPL": {
        "price": 227.16,
        "percent_change": 0.17,
        "volume": 2.552,
        "MA(5)": 227.11,
        "MA(20)": 227.09,
    }
}
ACCOUNT = {"account_id": 12345, "balance": 10000.0, "binding_card": 1974202140965533}
MARKET: dict[str, Any] = {
    "classes": ["TradingBot"],
    "config": {"TradingBot": {"authenticated": True, "account_info": ACCOUNT, "stocks": STOCKS}},
    "long_context": False,
}
SERVED = {
    r"look it up first|check (its|the) price|look up symbol and price": "get_stock_info",
    r"(go|switch) (in)?to the \w+ folder|open the \w+ folder": "cd",
    r"(find|look up) the (ticker|stock symbol)": "get_symbol_by_name",
    r"look up the id of": "get_user_id",
    r"find the tweet": "search_tweets",
}
MISS_FUNC: TaskType = "miss_func"
HEADLIGHTS = "set the headlights to auto"


def task(
    type: TaskType, texts: tuple[str, str], calls: Sequence[Call], held: Sequence[str] = ()
) -> Task:
    """The first turn asks in vain for what the second serves."""
    name = "bfcl" if calls[0].name in environment().tools() else "desk"
    world = load(name)
    state = MARKET if calls[0].name == "get_stock_info" else CAR
    return Task(
        environment=reference(world),
        type=type,
        script=texts,
        calls=((), tuple(calls)),
        tools=environment().tools_of(state["classes"]) if name == "bfcl" else tuple(world.tools()),
        later_tools={1: tuple(held)} if held else {},
        state=state if name == "bfcl" else DESK,
    )


def found(one: Task, *, fair: bool = True) -> list[str]:
    world = load(one.environment.name)
    return [reason.text for reason in missing(world, one, run(world, one), fair=fair)]


@pytest.fixture(autouse=True)
def wheel() -> None:
    fetch()


def test_a_request_that_is_fully_specified_beside_the_vague_one_is_refused() -> None:
    asked = f"Tell me how many liters some gallons are. Then {HEADLIGHTS}."
    both = task("miss_param", (asked, "I mean 21."), (LITERS, AUTO))
    assert found(both) == [
        "setHeadlights(mode='auto') can be made in the turn that is to be declined"
    ]
    assert found(both, fair=False) == []
    assert unfair(load("bfcl"), both, run(load("bfcl"), both)) == [True]


def test_what_is_asked_for_only_after_the_value_is_no_part_of_the_blank() -> None:
    vague = "Tell me how many liters some gallons are."
    apart = task("miss_param", (vague, f"I mean 21. Then {HEADLIGHTS}."), (LITERS, AUTO))
    assert found(apart) == []
    assert unfair(load("bfcl"), apart, run(load("bfcl"), apart)) == [False]
    for texts in (
        (f"{vague} Check my current speed.", "I mean 21."),
        (vague, "I mean 21. Check my current speed."),
    ):
        speed = found(task("miss_param", texts, (LITERS, SPEED)))
        assert bool(speed) == ("speed" in texts[0]), speed


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ("Convert a suitable number of gallons into liters.", True),
        ("Convert any number of gallons you like into liters.", True),
        ("Convert some gallons into liters, the number is up to you.", True),
        ("Convert a certain number of gallons into liters.", False),
        ("Convert the number of gallons that I have in mind into liters.", False),
    ],
)
def test_a_request_that_leaves_the_choice_to_the_assistant_is_refused(
    asked: str, refused: bool
) -> None:
    reasons = found(task("miss_param", (asked, "I mean 21."), (LITERS,)))
    assert reasons == (["leaves the choice to the assistant"] if refused else [])
    held = task("miss_func", (asked, RETURN_SENTENCE), (LITERS,), ("gallon_to_liter",))
    assert "leaves the choice to the assistant" not in found(held)


def test_each_part_of_a_request_needs_a_function_that_is_held_out() -> None:
    asked = "Tell me how many liters 21 gallons are. Then lock the driver's door."
    calls = (LITERS, Call("lockDoors", {"unlock": False, "door": ["driver"]}))
    (reason,) = found(task("miss_func", (asked, RETURN_SENTENCE), calls, ("gallon_to_liter",)))
    assert reason.startswith("lockDoors(")
    assert (
        found(task("miss_func", (asked, RETURN_SENTENCE), calls, ("gallon_to_liter", "lockDoors")))
        == []
    )


def test_every_function_that_is_held_out_must_be_irreplaceable() -> None:
    moving = Call("transfer_money", {"amount": 80, "source": "cash", "target": "office"})
    texts = ("Find out where ada gets mail. Also move 80 from cash to office.", RETURN_SENTENCE)
    (reason,) = found(
        task("miss_func", texts, (ADDRESS, moving), ("find_contact", "transfer_money"))
    )
    assert reason.startswith("transfer_money(") and "can be done without it" in reason


def test_a_look_up_that_only_serves_what_cannot_be_done_is_none_of_the_user_s_requests() -> None:
    cancel = ("Cancel the picnic.", RETURN_SENTENCE)
    assert found(task("miss_func", cancel, (FIND, CANCEL), ("cancel_event",))) == []
    for_itself = ("Cancel the picnic. Find out where ada gets mail.", RETURN_SENTENCE)
    (reason,) = found(task("miss_func", for_itself, (FIND, CANCEL, ADDRESS), ("cancel_event",)))
    assert reason.startswith("find_contact(")


@pytest.mark.parametrize(
    ("asked", "supplied", "fair"),
    [
        ("Note that we spent what the painter wants from cash.", "75. Then get the balance.", True),
        ("Note what the painter wants as spent from cash and get the balance.", "75.", False),
    ],
)
def test_a_value_that_the_missing_call_has_as_well_asks_for_no_other_call(
    asked: str, supplied: str, fair: bool
) -> None:
    spent = Call("add_expense", {"account": "cash", "amount": 75})
    one = task("miss_param", (asked, supplied), (spent, Call("get_balance", {"account": "cash"})))
    assert (found(one) == []) is fair


@pytest.mark.parametrize(
    "asked",
    [
        "Go to the interviews folder and show me the lines of risks.txt with the word I was told.",
        "Show me the lines of risks.txt in interviews with the word that I was told.",
    ],
)
def test_where_one_goes_for_a_call_that_cannot_be_made_is_for_a_judge_to_see(asked: str) -> None:
    files = {"risks.txt": {"type": "file", "content": "a bill from Sunfield\nno more"}}
    folder = {"interviews": {"type": "directory", "contents": files}}
    calls = (
        Call("cd", {"folder": "interviews"}),
        Call("grep", {"file_name": "risks.txt", "pattern": "from"}),
    )
    one = task("miss_param", (asked, "The word is 'from'."), calls)
    root = {"workspace": {"type": "directory", "contents": folder}}
    state = {
        "classes": ["GorillaFileSystem"],
        "config": {"GorillaFileSystem": {"root": root}},
        "long_context": False,
    }
    one = replace(one, id="", state=state, tools=environment().tools_of(["GorillaFileSystem"]))
    reasons = missing(load("bfcl"), one, run(load("bfcl"), one))
    assert all(reason.doubt for reason in reasons), reasons


@pytest.mark.parametrize(
    ("asked", "calls", "held", "sought"),
    [
        (
            "Buy 40 shares of AAPL at the current price, look it up first.",
            TRADE,
            "place_order",
            True,
        ),
        ("Check the price of AAPL and buy 40 shares at that price.", TRADE, "place_order", True),
        ("Buy 40 shares of AAPL at the current price.", TRADE, "place_order", False),
        ("Find the picnic and cancel it.", (FIND, CANCEL), "cancel_event", True),
        ("I have to go, so cancel the picnic.", (FIND, CANCEL), "cancel_event", False),
    ],
)
def test_a_look_up_that_the_turn_itself_asks_for_is_one_of_its_requests(
    asked: str, calls: Sequence[Call], held: str, sought: bool
) -> None:
    one = task("miss_func", (asked, RETURN_SENTENCE), calls, (held,))
    reasons = found(one)
    assert bool(reasons) == sought
    assert all("can be made in the turn that is to be declined" in reason for reason in reasons)
    assert unfair(load(one.environment.name), one, run(load(one.environment.name), one)) == [sought]


def test_a_call_whose_value_the_turn_is_the_first_to_say_was_not_asked_for_before_it() -> None:
    asked = "Move the picnic to the day that we agreed on at 10, and find the address."
    calls = (FIND, MOVE, ADDRESS)
    later = task("miss_param", (asked, "On monday. I mean ada."), calls)
    assert not any("find_contact" in reason for reason in found(later))
    earlier = asked.replace("the address", "ada's address")
    reasons = found(task("miss_param", (earlier, "On monday."), calls))
    assert any("find_contact" in reason for reason in reasons), reasons


@pytest.mark.slow
def test_no_request_of_forty_blank_turns_can_be_carried_out() -> None:
    """What the texts ask for is read here without the gate: phrases of BFCL's catalogue, and the
    tool that serves."""
    for variant in accepted("bfcl", 40, types=(MISS_FUNC,)):
        for turn in (turn for turn, calls in enumerate(variant.calls) if not calls):
            following = {call.name for call in variant.calls[turn + 1]} & set(
                variant.tools_at(turn)
            )
            asked = {
                tool for phrase, tool in SERVED.items() if re.search(phrase, variant.script[turn])
            }
            assert not asked & following, variant.script[turn]


def test_a_value_of_what_cannot_be_made_either_asks_for_no_other_call_that_has_it() -> None:
    """The account is the expense's, which waits for the bill; the balance is asked for later."""
    texts = (
        "Look up the bill of the supplier I met this morning and enter as much as it asks for as "
        "an expense for cash.",
        "It is the bill of titan. After that tell me how much money is left in cash.",
    )
    calls = (
        Call("find_bill", {"vendor": "titan"}),
        Call("add_expense", {"account": "cash", "amount": 180}),
        Call("get_balance", {"account": "cash"}),
    )
    bill = {"vendor": "titan", "amount": 180, "paid": False}
    ledger = {**DESK["ledger"], "bills": {"i1": bill}, "next": 2}
    one = replace(task("miss_param", texts, calls), state={**DESK, "ledger": ledger}, id="")
    assert found(one) == []
    both = (f"{texts[0]} And how much money is left in the office account?", texts[1])
    calls = (*calls[:2], Call("get_balance", {"account": "office"}))
    one = replace(one, script=both, calls=((), calls), id="")
    assert len(found(one)) == 1, "that one is another's"


@pytest.mark.parametrize(("account", "doubt"), [("savings", True), ("office", False)])
def test_what_a_request_seems_to_ask_for_by_words_alone_is_a_doubt(
    account: str, doubt: bool
) -> None:
    """Savings is named as where the money goes; the balance is asked for in the next turn. Where a
    model wrote that, its judge decides; what the request names for nothing else is certain."""
    texts = (
        "Move everything we have in the account that our treasurer named over to savings"
        + (", and check the balance of office." if account == "office" else "."),
        f"It's cash. Then tell me how much is in {account}.",
    )
    calls = (
        Call("get_balance", {"account": "cash"}),
        Call("transfer_money", {"amount": 280, "source": "cash", "target": "savings"}),
        Call("get_balance", {"account": account}),
    )
    ledger = {**DESK["ledger"], "accounts": {"cash": 280, "savings": 320, "office": 20}}
    one = replace(task("miss_param", texts, calls), state={**DESK, "ledger": ledger}, id="")
    world = load(one.environment.name)
    assert [reason.doubt for reason in missing(world, one, run(world, one))] == [doubt]


def test_what_takes_its_value_from_a_call_that_cannot_be_made_cannot_be_made_either() -> None:
    texts = ("Find the picnic and cancel it.", RETURN_SENTENCE)
    assert found(task("miss_func", texts, (FIND, CANCEL), ("find_event",))) == []


def test_the_default_asks_for_fair_blanks() -> None:
    assert Gates().missing and Gates().fair_blanks


def _file(text: str) -> dict[str, Any]:
    return {"type": "file", "content": text}


def _folder(**contents: Any) -> dict[str, Any]:
    return {"type": "directory", "contents": contents}


FLAT = _folder(**{"plan.txt": _file("the picnic is on Friday"), "list.txt": _file("bread")})
DEEP = _folder(docs=_folder(**{"plan.txt": _file("the picnic is on Friday")}))
LS = Call("ls", {})
CP = Call("cp", {"source": "plan.txt", "destination": "copy.txt"})
MV = Call("mv", {"source": "plan.txt", "destination": "moved.txt"})
FIND_PLAN = Call("find", {"path": ".", "name": "plan"})


@pytest.mark.parametrize(
    ("call", "asked", "beside", "way"),
    [
        (LS, "List what is in this folder.", ("find",), "find"),
        (LS, "List what is in this folder.", ("cat", "pwd"), ""),
        (FIND_PLAN, "Find whatever is named plan here.", ("ls",), "ls"),
        (FIND_PLAN, "Find whatever is named plan here.", ("pwd",), ""),
        (CP, "Copy plan.txt to copy.txt.", ("cat", "echo"), ""),  # which makes no file here
        (CP, "Copy plan.txt to copy.txt.", ("cat", "touch", "echo"), "touch"),
        (CP, "Copy plan.txt to copy.txt.", ("cat",), ""),
        (CP, "Copy plan.txt to copy.txt.", ("touch", "echo"), ""),
        (MV, "Rename plan.txt to moved.txt.", ("cp", "rm"), "cp"),
        (MV, "Rename plan.txt to moved.txt.", ("cat", "rm"), ""),
    ],
)
def test_what_other_calls_show_or_make_is_no_reason_to_decline(
    call: Call, asked: str, beside: Sequence[str], way: str
) -> None:
    reasons = found(files_task(FLAT, call, asked, beside), fair=False)
    assert bool(reasons) is bool(way), reasons
    assert all(f"can be done without it: {way}(" in reason for reason in reasons)


def test_what_lies_deeper_than_a_listing_shows_is_not_shown_by_it() -> None:
    asked = "Find whatever is named plan here."
    assert found(files_task(DEEP, FIND_PLAN, asked, ("ls",)), fair=False) == []
    (reason,) = found(files_task(DEEP, LS, "List what is in this folder.", ("find",)), fair=False)
    assert "find(" in reason


def test_a_look_that_tells_nothing_is_replaced_by_none() -> None:
    empty = files_task(_folder(), LS, "List what is in this folder.", ("find", "pwd"))
    assert found(empty, fair=False) == []


@pytest.mark.parametrize(
    ("call", "asked", "beside", "way"),
    [
        (
            Call("change_address", {"name": "ada", "address": "box7"}),
            "From now on ada gets mail at box7.",
            ("remove_contact", "add_contact"),
            "remove_contact(name='ada'), add_contact(",
        ),
        (
            Call("change_address", {"name": "ada", "address": "box7"}),
            "From now on ada gets mail at box7.",
            ("add_contact", "find_contact"),
            "",
        ),
        (
            Call("change_team", {"name": "ada", "team": "research"}),
            "Put ada into research.",
            ("find_contact", "remove_contact", "add_contact"),
            "find_contact(",
        ),
        (
            Call("reply_mail", {"mail": "m1", "text": "good luck"}),
            "Answer mail m1, which is about 'festival', with 'good luck'.",
            ("read_mail", "send_mail"),
            "read_mail(mail='m1'), send_mail(",
        ),
        (
            Call("reply_mail", {"mail": "m1", "text": "good luck"}),
            "Answer mail m1, which is about 'festival', with 'good luck'.",
            ("send_mail", "search_mail"),
            "",
        ),
        (MOVE, PICNIC, ("cancel_event", "create_event"), "cancel_event("),
        (MOVE, PICNIC, ("cancel_event", "find_event"), ""),
        (
            MEETING,
            "Move event e7, the 'meeting', to monday at 10.",
            ("cancel_event", "create_event"),
            "",
        ),
    ],
)
def test_a_record_that_is_made_anew_and_what_others_do_together_are_ways_round(
    call: Call, asked: str, beside: Sequence[str], way: str
) -> None:
    mail = {"sender": "box9", "subject": "festival", "text": "more details", "flagged": False}
    picnic = DESK["calendar"]["events"]["e1"]
    meeting = {**picnic, "title": "meeting", "hour": 11, "guests": ["box9"]}
    state = {
        **DESK,
        "calendar": {"events": {"e1": picnic, "e7": meeting}, "next": 8},
        "mail": {"inbox": {"m1": mail}, "sent": {}, "next": 2},
    }
    reasons = found(withheld("desk", state, call, asked, beside), fair=False)
    assert bool(reasons) is bool(way), reasons
    assert all(f"can be done without it: {way}" in reason for reason in reasons)


def files_task(root: dict[str, Any], call: Call, asked: str, beside: Sequence[str]) -> Task:
    """A task that withholds the tool of `call`, with those `beside` it, in a file system."""
    state = {
        "classes": ["GorillaFileSystem"],
        "config": {"GorillaFileSystem": {"root": {"home": root}}},
        "long_context": False,
    }
    return withheld("bfcl", state, call, asked, beside)


def withheld(
    name: str, state: dict[str, Any], call: Call, asked: str, beside: Sequence[str] = ()
) -> Task:
    """A task in this world that withholds the tool of `call`, with those `beside` it."""
    world = load(name)
    return Task(
        environment=reference(world),
        type="miss_func",
        script=(asked, RETURN_SENTENCE),
        calls=((), (call,)),
        tools=tuple(tool for tool in world.tools() if tool in (*beside, call.name)),
        later_tools={1: (call.name,)},
        state=state,
    )


def test_tools_without_bounds_are_tried_where_they_run_confined() -> None:
    """A world that waits for another process runs there; in this one such a tool might never
    end."""
    calls = (garage.call("show_order", order=17),)
    one = garage.task(("What is order 17 about?", ()), (RETURN_SENTENCE, calls))
    one = replace(one, type="miss_func", later_tools={1: ("show_order",)}, id="")
    one = replace(one, tools=("all_orders", "show_order"), id="")
    for confined in (False, True):
        world: Any = copy.copy(garage.WORLD)
        unbounded = {name: replace(tool, bounded=False) for name, tool in world.tools().items()}
        world.tools = lambda tools=unbounded: tools
        world.features = replace(world.features, waits=confined)
        reasons = [reason.text for reason in missing(world, one, run(world, one), fair=False)]
        assert bool(reasons) is confined, reasons
