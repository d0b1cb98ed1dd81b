"""Hostile calls: powers with billions of digits, huge precision, deep recursion, results of
megabytes. Each must end as a typed error within a second, and leave the world usable."""

from __future__ import annotations

import time

import pytest

from rods.calls import Call
from rods.episode.goals import GroundTruth
from rods.worlds.bfcl.bounds import MAX_ITEMS, MAX_TEXT

CLASSES = [
    "GorillaFileSystem",
    "MathAPI",
    "TwitterAPI",
    "TicketAPI",
    "TradingBot",
    "VehicleControlAPI",
    "MessageAPI",
]
STATE = {
    "classes": CLASSES,
    "config": {"TwitterAPI": {"authenticated": True}, "TicketAPI": {"current_user": "ada"}},
}


def nested(depth, value="x"):
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = [
    ("power", {"base": 10**9, "exponent": 10**9}, "too_large"),
    ("power", {"base": -2, "exponent": 10**12}, "too_large"),
    ("power", {"base": 10.0, "exponent": 10**9}, "tool"),
    ("power", {"base": [1] * 900, "exponent": 10**9}, "tool"),
    ("power", {"base": 10**400, "exponent": 2}, "bounds"),
    ("logarithm", {"value": 10, "base": 2, "precision": 10**9}, "bounds"),
    ("logarithm", {"value": 10, "base": 2, "precision": 1e300}, "bounds"),
    ("logarithm", {"value": "1e999999999", "base": 2, "precision": 5_000}, None),
    ("logarithm", {"value": "9" * 16_000, "base": "1e-99999999", "precision": 4_000}, "tool"),
    ("square_root", {"number": 2, "precision": 10**9}, "bounds"),
    ("square_root", {"number": "9" * 16_000, "precision": 5_000}, "tool"),
    ("square_root", {"number": 2, "precision": -1}, "tool"),
    ("round_number", {"number": 5, "decimal_places": -(10**9)}, None),
    ("round_number", {"number": 5.5, "decimal_places": 10**9}, None),
    ("multiply", {"a": 1e308, "b": 1e308}, None),
    ("add", {"a": float("inf"), "b": 1}, "bounds"),
    ("add", {"a": float("nan"), "b": 1}, "bounds"),
    ("sum_values", {"numbers": [1] * (MAX_ITEMS + 1)}, "bounds"),
    ("mean", {"numbers": nested(30)}, "tool"),
    ("mean", {"numbers": nested(3_000)}, "bounds"),
    ("display_log", {"messages": nested(3_000)}, "bounds"),
    ("display_log", {"messages": ["x" * MAX_TEXT] * 900}, "bounds"),
    ("edit_ticket", {"ticket_id": 1, "updates": {"title": nested(100)}}, "bounds"),
    ("echo", {"content": "x" * 50_000_000, "file_name": "a"}, "bounds"),
    ("echo", {"content": ["x" * 50_000_000]}, "bounds"),
    ("post_tweet", {"content": "x", "tags": {"a": {"b": ["x" * 100_000]}}}, "bounds"),
    (
        "place_order",
        {"order_type": "Buy", "symbol": "AAPL", "price": 1e308, "amount": 10**18},
        "tool",
    ),
    ("fillFuelTank", {"fuelAmount": -1e308}, "tool"),
    ("get_ticket", {"ticket_id": 10**5_000}, "bounds"),
    ("tail", {"file_name": "a", "lines": -(10**18)}, "tool"),
    ("x" * 1_000_000, {}, "unknown_tool"),
]


@pytest.mark.few(8, others="slow")
@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    HOSTILE,
    ids=[f"{name[:12]}-{number}" for number, (name, _, _) in enumerate(HOSTILE)],
)
def test_a_hostile_call_ends_as_a_typed_error_within_a_second(bfcl, name, arguments, error):
    bfcl._worker.open()  # a cold worker process may take longer on a busy machine
    world = bfcl.reset(STATE)
    start = time.process_time()
    result = world.call(Call(name, arguments))
    assert time.process_time() - start < 1
    assert result.error == error
    assert len(result.text) < 30_000
    assert world.call(Call("add", {"a": 1, "b": 2})).text == '{"result": 3}'


def test_many_digits_are_computed_in_a_process_that_can_be_killed(bfcl):
    world = bfcl.reset(STATE)
    few = world.call(Call("logarithm", {"value": 10, "base": 2, "precision": 50}))
    many = world.call(Call("logarithm", {"value": 10, "base": 2, "precision": 2_000}))
    assert few.error is many.error is None
    assert few.text[:50] == many.text[:50] and len(many.text) > 2_000 > len(few.text)
    for number, precision in (("x", 2_000), ("x", 20), (-1, 2_000), (-1, 20)):
        failing = world.call(Call("square_root", {"number": number, "precision": precision}))
        assert failing.error == "tool" and failing.value["error"].startswith(
            ("Input must", "Cannot calculate")
        )


def test_a_directory_in_itself_hangs_nobody(bfcl):
    """`cp` of a directory into itself makes an endless tree, as the class has it."""
    world = bfcl.reset(STATE)
    for name, arguments in (
        ("mkdir", {"dir_name": "a"}),
        ("cp", {"source": "a", "destination": "a"}),
    ):
        assert world.call(Call(name, arguments)).error is None
    start = time.process_time()
    assert {world.call(Call(name, {})).error for name in ("find", "du")} == {"bounds"}
    fork = world.fork()
    assert world.call(Call("touch", {"file_name": "x"})).error is None
    assert not world.same_state(fork) and fork.same_state(bfcl.reset(fork.snapshot()))
    assert time.process_time() - start < 1


def test_doubling_a_directory_forty_times_hangs_nobody(bfcl):
    """Each copy shares its children, so that paths double while memory does not grow."""
    world = bfcl.reset(STATE)
    other = bfcl.reset(STATE)
    start = time.process_time()
    for each in (world, other):
        each.call(Call("mkdir", {"dir_name": "a"}))
        for number in range(40):
            each.call(Call("cp", {"source": "a", "destination": f"b{number}"}))
            each.call(Call("mv", {"source": f"b{number}", "destination": "a"}))
    assert {world.call(Call(name, {})).error for name in ("find", "du")} == {"bounds"}
    assert world.same_state(other)
    assert world.snapshot() and world.fork().same_state(other)
    assert time.process_time() - start < 1


def test_a_thousand_directories_deep_hangs_nobody(bfcl):
    world = bfcl.reset(STATE)
    other = bfcl.reset(STATE)
    start = time.process_time()
    for each in (world, other):
        for _ in range(1_500):
            each.call(Call("mkdir", {"dir_name": "d"}))
            each.call(Call("cd", {"folder": "d"}))
    assert world.same_state(other)
    assert world.call(Call("pwd", {})).error is None
    world.call(Call("cd", {"folder": "/"}))
    assert world.call(Call("find", {})).error == "bounds"
    assert bfcl.reset(world.snapshot()).same_state(other)
    assert time.process_time() - start < 3


def test_results_of_megabytes_are_refused(bfcl):
    world = bfcl.reset(STATE)
    for _ in range(100):
        world.call(Call("post_tweet", {"content": "x" * MAX_TEXT}))
    result = world.call(Call("search_tweets", {"keyword": "x"}))
    assert result.error == "too_large" and len(result.text) < 200
    assert world.call(Call("get_tweet", {"tweet_id": 0})).error is None


def test_bounds_are_declared_for_every_argument_that_could_grow(bfcl):
    for tool in bfcl.tools().values():
        for parameter in tool.parameters:
            kind = parameter.schema["type"]
            assert kind in ("number", "boolean") or parameter.bounds, (
                f"{tool.name}.{parameter.name}"
            )
        assert tool.bounded == (tool.name not in ("logarithm", "square_root"))


def test_no_ground_truth_comes_near_the_bounds(bfcl, tasks):
    assert all(
        "Error during execution" not in text
        for task in tasks[::3]
        for turn in GroundTruth(bfcl, task).needed
        for text, _ in turn
    )
