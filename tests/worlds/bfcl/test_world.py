"""BFCL's API classes behind our executor: texts, error kinds, isolation, equality, snapshots."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from bench.bfcl_parity.mutations import Mutations
from rods import interfaces
from rods.analysis.schemas import fits, limits
from rods.calls import Call, parse_python_call
from rods.config import Stage
from rods.environments.base import opened
from rods.tasks import unpacked
from rods.worlds.bfcl.classes import MODULES
from rods.worlds.bfcl.copies import RecordedRandom, decode, encode
from rods.worlds.bfcl.ownership import CHANGED_IN_PLACE, FILE_SYSTEM, READING, SCRATCH
from rods.worlds.bfcl.trees import encode_system
from tests.worlds.bfcl import transcript

FILES = {
    "classes": ["GorillaFileSystem"],
    "config": {
        "GorillaFileSystem": {
            "root": {
                "top": {
                    "type": "directory",
                    "contents": {
                        "a": {
                            "type": "directory",
                            "contents": {"f.txt": {"type": "file", "content": "one"}},
                        },
                        "b": {"type": "directory", "contents": {}},
                        "n.txt": {"type": "file", "content": "x\ny"},
                    },
                }
            }
        }
    },
}
EVERYTHING = {"classes": list(MODULES), "config": {}}


def say(world, tool, /, **arguments):
    return world.call(Call(tool, arguments))


def record(instance):
    """All that an API object holds, as JSON."""
    if type(instance).__name__ == FILE_SYSTEM:
        return json.dumps([encode_system(instance), instance.long_context])
    return json.dumps(
        encode({key: item for key, item in vars(instance).items() if key not in SCRATCH})
    )


def test_results_are_worded_as_the_benchmark_words_them(bfcl):
    world = bfcl.reset(FILES)
    listing = say(world, "ls")
    assert listing.text == '{"current_directory_content": ["a", "b", "n.txt"]}'
    assert (listing.value, listing.error) == (
        {"current_directory_content": ["a", "b", "n.txt"]},
        None,
    )
    made = say(world, "mkdir", dir_name="c")
    assert (made.text, made.value, made.error) == ("None", None, None)
    refused = say(world, "mkdir", dir_name="c")
    assert (refused.text, refused.error) == (
        '{"error": "mkdir: cannot create directory \'c\': File exists"}',
        "tool",
    )


def test_values_are_json_or_else_the_text(bfcl):
    numbers = bfcl.reset({"classes": ["MathAPI", "TravelAPI"], "config": {}})
    decimal = say(numbers, "square_root", number=2, precision=5)
    assert decimal.text == decimal.value == "{'result': Decimal('1.4142')}"
    endless = say(numbers, "multiply", a=1e308, b=1e308)
    assert endless.text == endless.value == '{"result": Infinity}'
    airports = say(numbers, "list_all_airports")
    assert airports.text.startswith("['RMS', 'SBK'") and airports.value[:2] == ["RMS", "SBK"]


def test_mistakes_in_the_call_are_typed_and_worded_as_python_words_them(bfcl):
    world = bfcl.reset(FILES)
    missing = say(world, "cd")
    assert (
        missing.text
        == "Error during execution: GorillaFileSystem.cd() missing 1 required positional argument: "
        "'folder'"
    )
    extra = say(world, "cd", folder="a", path="b")
    assert (
        extra.text
        == "Error during execution: GorillaFileSystem.cd() got an unexpected keyword argument "
        "'path'"
    )
    wrong = say(world, "cd", folder=3)
    assert wrong.text == "Error during execution: 'int' object has no attribute 'rstrip'"
    assert {missing.error, extra.error, wrong.error} == {"bad_arguments"}
    trading = bfcl.reset(
        {"classes": ["TradingBot"], "config": {"TradingBot": {"authenticated": True}}}
    )
    wrong = say(trading, "get_transaction_history", start_date=["2024"])
    assert wrong.text == "Error during execution: strptime() argument 1 must be str, not list"
    travel = bfcl.reset({"classes": ["TravelAPI"], "config": {}})
    missing = say(travel, "get_flight_cost", travel_from="SFO")
    assert "TravelAPI.get_flight_cost() missing 3 required positional arguments" in missing.text


@pytest.mark.parametrize(
    "name", ["_load_scenario", "__init__", "__class__", "root", "add", "exec", "", "kill"]
)
def test_only_documented_tools_of_the_involved_classes_exist(bfcl, name):
    result = say(bfcl.reset(FILES), name)
    assert (result.text, result.error) == (
        f"Error during execution: name '{name}' is not defined",
        "unknown_tool",
    )


def test_text_is_data_and_never_evaluated(bfcl):
    with pytest.raises(ValueError, match="not a literal"):
        parse_python_call("touch(file_name=__import__('os').system('true'))", bfcl.parameters())
    world = bfcl.reset(FILES)
    say(world, "echo", content="__import__('os').getcwd() and sort (x)", file_name="n.txt")
    assert say(world, "cat", file_name="n.txt").value == {
        "file_content": "__import__('os').getcwd() and sort (x)"
    }


def test_worlds_share_nothing_that_can_be_written(bfcl):
    state = {"classes": ["TwitterAPI"], "config": {"TwitterAPI": {"authenticated": True}}}
    one = bfcl.reset(state)
    two = bfcl.reset(state)
    say(one, "post_tweet", content="hello")
    say(one, "mention", tweet_id=0, mentioned_usernames=["@ada"])
    # the classes' default list is one object
    assert say(two, "post_tweet", content="hello").value["mentions"] == []
    call = Call("post_tweet", {"content": "again", "mentions": ["@ben"]})
    one.call(call)
    say(one, "mention", tweet_id=1, mentioned_usernames=["@cleo"])
    assert call.arguments["mentions"] == ["@ben"]
    padded = {
        "classes": ["TravelAPI"],
        "config": {"TravelAPI": {"access_token": "t"}},
        "long_context": True,
    }
    one = bfcl.reset(padded)
    two = bfcl.reset(padded)
    card = "1234567812345678"
    route = {"travel_date": "2024-12-12", "travel_from": "SFO", "travel_to": "LAX"}
    assert (
        say(
            one, "book_flight", access_token="t", card_id=card, travel_class="economy", **route
        ).error
        is None
    )
    balances = [
        say(world, "get_credit_card_balance", access_token="t", card_id=card).value
        for world in (one, two)
    ]
    # the padding is one object, too
    assert balances[0]["card_balance"] < balances[1]["card_balance"] == 5000.0


def test_results_share_nothing_with_the_world(bfcl):
    world = bfcl.reset({"classes": ["TradingBot"], "config": {}})
    say(world, "get_stock_info", symbol="AAPL").value["price"] = 0
    say(world, "get_symbol_by_name", name="Apple").value.clear()
    assert say(world, "get_stock_info", symbol="AAPL").value["price"] == 227.16


def test_the_given_state_is_left_alone(bfcl, tasks):
    for task in tasks[::40]:
        before = json.dumps(task.state)
        world = bfcl.reset(task.state)
        for call in (call for turn in task.calls for call in turn):
            world.call(call)
        assert json.dumps(task.state) == before


def test_equality_is_that_of_python(bfcl):
    state = {
        "classes": ["VehicleControlAPI", "TicketAPI"],
        "config": {"TicketAPI": {"current_user": "ada"}},
    }
    one = bfcl.reset(state)
    two = bfcl.reset(state)
    say(one, "fillFuelTank", fuelAmount=5)
    assert not one.same_state(two)
    say(two, "fillFuelTank", fuelAmount=5.0)
    assert one.same_state(two)
    say(one, "adjustClimateControl", temperature=20, fanSpeed=1)
    say(two, "adjustClimateControl", temperature=20.0, fanSpeed=True)
    assert one.same_state(two)
    say(one, "create_ticket", title="a", priority=2)
    say(one, "create_ticket", title="b")
    say(two, "create_ticket", title="b")
    say(two, "create_ticket", title="a", priority=2)
    assert not one.same_state(two)  # the order of lists counts


def test_files_are_equal_by_name_and_content_wherever_one_stands(bfcl):
    one = bfcl.reset(FILES)
    two = bfcl.reset(FILES)
    say(one, "cd", folder="a")
    assert one.same_state(two)
    say(one, "cd", folder="..")
    say(one, "touch", file_name="p"), say(one, "touch", file_name="q")
    say(two, "touch", file_name="q"), say(two, "touch", file_name="p")
    assert one.same_state(two)  # the order of a directory does not count
    say(two, "echo", content="z", file_name="p")
    assert not one.same_state(two)
    say(one, "echo", content="z", file_name="p")
    assert one.same_state(two)


def test_copied_directories_share_their_files_as_the_class_has_it(bfcl):
    """`cp` of a directory copies only its top: a quirk of the class that ground truths may rest
    on."""
    world = bfcl.reset(FILES)
    say(world, "cp", source="a", destination="c")
    for variant in (world, world.fork(), bfcl.reset(world.snapshot())):
        say(variant, "cd", folder="c")
        say(variant, "echo", content="changed", file_name="f.txt")
        say(variant, "cd", folder="..")
        say(variant, "cd", folder="a")
        assert say(variant, "cat", file_name="f.txt").value == {"file_content": "changed"}


def test_forks_and_snapshots_continue_alike_and_apart(bfcl, tasks):
    for task in tasks[::16]:
        calls = [call for turn in task.calls for call in turn]
        world = bfcl.reset(task.state)
        assert world.snapshot() == task.state
        middle = len(calls) // 2
        for call in calls[:middle]:
            world.call(call)
        fork = world.fork()
        snapshot = world.snapshot()
        again = json.loads(json.dumps(snapshot))
        ends = [
            [variant.call(call).text for call in calls[middle:]]
            for variant in (world, fork, bfcl.reset(again))
        ]
        assert ends[0] == ends[1] == ends[2]
        assert world.same_state(fork)
        assert bfcl.reset(snapshot).snapshot() == snapshot


@pytest.mark.slow
def test_tools_change_nothing_that_they_are_not_to_change(bfcl, tasks):
    """Worlds share what a tool is said not to write (`effects`): here every call is watched by a
    fork."""
    called = set()
    for rollout in Mutations(tasks, 5).take(700):
        world = bfcl.reset(rollout.task.state)
        names = world.snapshot()["classes"]
        for call in (call for turn in rollout.turns for step in turn for call in step):
            fork = world.fork()
            before = {name: record(fork._objects[name]) for name in names}
            given = json.dumps(call.as_json())
            own = {name: world._objects[name] for name in names}
            world.call(call)
            assert {name: record(fork._objects[name]) for name in names} == before, call
            assert json.dumps(call.as_json()) == given
            if call.name in READING:
                assert all(world._objects[name] is own[name] for name in names), call
            called.add(call.name)
    assert len(called & CHANGED_IN_PLACE.keys()) > 40
    assert READING | CHANGED_IN_PLACE.keys() == bfcl.tools().keys()


def test_what_a_task_remembers_as_equal_is_compared_again_after_a_change(bfcl):
    one = bfcl.reset(EVERYTHING)
    two = bfcl.reset(EVERYTHING)
    say(one, "ticket_login", username="ada", password="x")
    say(two, "ticket_login", username="ada", password="x")
    expected = two.fork()
    assert one.same_state(expected) and one.same_state(expected)
    say(one, "create_ticket", title="a")
    assert not one.same_state(expected)
    say(two, "create_ticket", title="a")
    assert one.same_state(two) and two.same_state(one)
    say(two, "close_ticket", ticket_id=1)
    assert not one.same_state(two)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"classes": ["Nothing"], "config": {}},
        {"classes": [3, ["MathAPI"]], "config": {}},
        {"classes": ["MathAPI"], "config": {}, "objects": []},
        {"classes": ["MathAPI"], "config": {}, "objects": {"TicketAPI": {}}},
        {
            "classes": ["GorillaFileSystem"],
            "config": {},
            "objects": {"GorillaFileSystem": {"files": 3}},
        },
        {"classes": ["MathAPI", "MathAPI"], "config": {}},
        {"classes": ["MathAPI"], "config": [], "more": 1},
        {"classes": ["MathAPI"], "config": {"MathAPI": 3}},
        {"classes": ["MathAPI"], "config": {}, "long_context": "yes"},
        {
            "classes": ["GorillaFileSystem"],
            "config": {"GorillaFileSystem": {"root": {"top": {"type": "directory"}}}},
        },
        {"classes": ["TradingBot"], "config": {"TradingBot": {"random_seed": None}}},
        {"classes": ["TwitterAPI"], "config": {"TwitterAPI": {"tweets": {"x": {}}}}},
        {"classes": ["TicketAPI"], "config": {}, "objects": {"TicketAPI": {"~set": 4}}},
    ],
)
def test_illegal_states_are_refused(bfcl, state):
    with pytest.raises(ValueError):
        bfcl.reset(state)


def test_the_empty_state_holds_every_class(bfcl):
    world = bfcl.reset(None)
    assert [bool(say(world, name).text) for name in ("pwd", "list_users", "get_current_time")] == [
        True
    ] * 3


def test_the_golden_transcript_holds_at_this_behaviour(bfcl):
    golden = json.loads(transcript.GOLDEN.read_text(encoding="utf-8"))
    assert transcript.transcript() == golden, "raise world.BEHAVIOUR and write the transcript anew"


@pytest.mark.slow
def test_two_processes_with_other_hash_seeds_agree(wheel_file):
    """Sets are printed in two error texts; the clock is asked in one tool."""
    command = [sys.executable, "-m", "tests.worlds.bfcl.transcript", "--digest"]
    digests = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_texts_with_unordered_parts_are_put_in_order(bfcl):
    world = bfcl.reset(
        {"classes": ["TicketAPI"], "config": {"TicketAPI": {"ticket_queue": [{"id": 1}]}}}
    )
    edited = say(world, "edit_ticket", ticket_id=1, updates={"zeta": 1, "alpha": 2, "mid": 3})
    assert edited.value == {"error": "Invalid fields for update: alpha, mid, zeta"}
    cards = {"credit_card_list": {"1": {"balance": 9}}, "access_token": "t"}
    world = bfcl.reset({"classes": ["TravelAPI"], "config": {"TravelAPI": cards}})
    route = {
        "travel_date": "2024-01-01",
        "travel_from": "SFO",
        "travel_to": "LAX",
        "travel_class": "sofa",
    }
    booked = say(world, "book_flight", access_token="t", card_id="1", **route)
    assert (
        booked.value["error"]
        == "Invalid travel class. Must be one of {'business', 'economy', 'first'}"
    )


def test_ages_do_not_depend_on_the_day(bfcl):
    config = {"TravelAPI": {"user_first_name": "Ada", "user_last_name": "Lin"}}
    world = bfcl.reset({"classes": ["TravelAPI"], "config": config})
    person = {"first_name": "Ada", "last_name": "Lin", "passport_number": "US1"}
    assert say(
        world, "verify_traveler_information", date_of_birth="2008-03-23", **person
    ).value == {"verification_status": True}
    assert (
        say(world, "verify_traveler_information", date_of_birth="2008-03-24", **person).value[
            "verification_status"
        ]
        is False
    )


def test_kept_padding_is_written_as_json_writes_it(bfcl):
    """In long contexts the parts of an answer that never change carry their text."""
    config = {"TradingBot": {"authenticated": True}, "TravelAPI": {"access_token": "t"}}
    world = bfcl.reset(
        {"classes": ["TradingBot", "TravelAPI"], "config": config, "long_context": True}
    )
    say(world, "add_to_watchlist", stock="AAPL")
    route = {
        "travel_date": "2024-12-12",
        "travel_from": "SFO",
        "travel_to": "LAX",
        "travel_class": "economy",
    }
    booking = say(world, "book_flight", access_token="t", card_id="1234567812345678", **route)
    for result in (
        booking,
        say(world, "get_stock_info", symbol="AAPL"),
        say(world, "get_order_details", order_id=12345),
        say(world, "get_available_stocks", sector="Automobile"),
        say(world, "get_flight_cost", **route),
    ):
        assert result.text == json.dumps(result.value) and len(result.text) > 1_000
    watched = say(world, "get_watchlist")
    assert watched.text.startswith("['NVDA', 'AAPL', 'JHGUN', ") and len(watched.text) > 7_000
    assert booking.value["booking_id"] in booking.value["booking_history"]
    again = bfcl.reset(json.loads(json.dumps(world.snapshot())))
    assert again.same_state(world) and say(again, "get_stock_info", symbol="AAPL") == say(
        world, "get_stock_info", symbol="AAPL"
    )


def test_remembered_numbers_are_told_apart_by_how_they_are_written(bfcl):
    world = bfcl.reset({"classes": ["MathAPI"], "config": {}})
    for _ in range(2):
        roots = [
            say(world, "square_root", number=number, precision=9).text
            for number in (0.0, -0.0, 4, 4.0)
        ]
        assert (
            roots
            == ["{'result': Decimal('0')}", "{'result': Decimal('-0')}"]
            + ["{'result': Decimal('2')}"] * 2
        )
        assert "missing 1 required" in say(world, "logarithm", value=1.0, base=[2]).text


def test_dice_draw_what_random_draws_however_often_they_are_copied():
    draws = [("randint", 1, 6), ("uniform", 0.0, 1.0), ("randint", 10, 99)] * 4
    for start in range(8):  # every way through the outcomes that are kept, and past them
        order = draws[start:] + draws[:start]
        generator = random.Random(7)
        dice = RecordedRandom(7)
        for name, low, high in order:
            dice = dice.copy() if start % 2 else decode(encode(dice))
            assert getattr(dice, name)(low, high) == getattr(generator, name)(low, high)


def test_precision_is_put_back(bfcl):
    from decimal import getcontext

    import mpmath

    before = getcontext().prec, mpmath.mp.prec
    world = bfcl.reset({"classes": ["MathAPI"], "config": {}})
    say(world, "square_root", number=2, precision=7)
    say(world, "logarithm", value=10, base=2, precision=7)
    assert (getcontext().prec, mpmath.mp.prec) == before


@pytest.mark.needs("seal")
def test_values_that_descriptions_list_are_known_and_shown_as_bfcl_has_them(bfcl, tasks):
    """BFCL's schemas have no `enum`: what calls are held against, and SEAL's cue, come from the
    words."""
    tools = bfcl.tools()
    listed = {
        (tool.name, one.name): one
        for tool in tools.values()
        for one in tool.parameters
        if one.options
    }
    assert len(listed) == 13
    assert listed["startEngine", "ignitionMode"].options == ("START", "STOP")
    assert listed["lockDoors", "door"].options == ("driver", "passenger", "rear_left", "rear_right")
    assert listed["get_flight_cost", "travel_class"].options == ("economy", "business", "first")
    assert listed["wc", "mode"].options == ("l", "w", "c")
    assert not any("enum" in json.dumps(tool.schema()) for tool in tools.values())
    given = [
        (call, name)
        for task in tasks
        for calls in task.calls
        for call in calls
        for name in call.arguments
    ]
    known = [
        (listed[call.name, name], call.arguments[name])
        for call, name in given
        if (call.name, name) in listed
    ]
    assert len(known) > 500
    assert all(fits(limits(parameter), value) for parameter, value in known)
    seal = interfaces.load(Stage(interface="seal-active"), "hermes")
    (engine,) = seal.documents("bfcl", [tools["startEngine"]])
    assert engine.parameters[0].cue == "[required] Allowed values: START, STOP."


def test_a_rollout_s_world_is_opened_without_parsing_its_state(tasks, bfcl):
    chosen = tasks[::40]
    for task in chosen:
        opened(bfcl, task)
    before = unpacked.cache_info()
    for task in chosen:
        world = opened(bfcl, task)
        assert unpacked.cache_info() == before
        assert world.same_state(bfcl.reset(task.state)) and world.snapshot() == task.state
        before = unpacked.cache_info()
    with pytest.raises(ValueError, match="the state"):
        bfcl.reset_json(b"{}")
    assert opened(bfcl, replace(chosen[0], state=None, id="")).snapshot()["config"] == {}
