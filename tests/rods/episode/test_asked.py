"""A turn is resolved when its state is right and what its user asked to know was shown, whichever
tools showed it (docs/decisions/goals.md), in a garage where most of it can be shown by several."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from rods.calls import Call
from rods.dialects.tags import Tags
from rods.environments.base import Results, reference
from rods.environments.typed import TypedEnvironment
from rods.episode.asked import asked_places, shown
from rods.episode.diagnosis import diagnose
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import GroundTruth, goal_of
from rods.gates.ground_truth import run
from rods.tasks import Reads, Task
from tests.worlds.garage import READS, STRICT, WORLD, call, task

TAGS = Tags()
FIND = call("find_order", plate="B-12")
MONDAY = call("list_day", day="monday")
ALL = call("all_orders")
SHOW = call("show_order", order=17)
PRICE = call("price_of", order=17)
CLOSE = call("close_order", order=17)
CHARGE = call("charge", order=17, amount=400)
Turns = Sequence[Sequence[Call]]


def played(one: Task, turns: Turns, world=WORLD, goal=None) -> Trace:
    """An episode of `one` in which the policy makes these calls, a reply each."""
    texts = [
        text
        for calls in turns
        for text in [*(TAGS.write([made]) for made in calls), TAGS.answer("done")]
    ]
    replies = iter(texts)

    def complete(needs: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [Reply(next(replies)) for _ in needs]

    (trace,) = run_lockstep([Job(one, world, TAGS, goal or goal_of(world, one))], complete)
    return trace


def verdicts(one: Task, turns: Turns, world=WORLD) -> list[tuple[bool, bool]]:
    return [
        (turn.verdict.state, turn.verdict.response)
        for turn in played(one, turns, world).turns
        if turn.verdict is not None
    ]


CLOSED = "Close the order of B-12, please, that stands on Monday's list."
COST = "What does the order of B-12 cost?"
RIGHT = (True, True)
UNSAID = (True, False)  # the state is right; what was asked for was not shown, or guessed


@pytest.mark.parametrize(
    ("text", "truth", "made", "wanted"),
    [
        # a right way that is not the ground truth's
        (CLOSED, (FIND, CLOSE), (MONDAY, CLOSE), RIGHT),
        (CLOSED, (FIND, CLOSE), (ALL, CLOSE), RIGHT),
        (CLOSED, (FIND, CLOSE), (call("history", plate="B-12"), CLOSE), RIGHT),
        (CLOSED, (FIND, CLOSE), (call("close_by_plate", plate="B-12"),), RIGHT),
        ("Charge B-12 for its order.", (FIND, PRICE, CHARGE), (ALL, CHARGE), RIGHT),
        ("Charge B-12 for its order.", (FIND, PRICE, CHARGE), (MONDAY, SHOW, CHARGE), RIGHT),
        ("Book the first free bay for K-77.",
         (call("find_order", plate="K-77"), call("free_bays"),
          call("book_bay", order=18, bay=1)),
         (MONDAY, call("free_bays"), call("book_bay", order=18, bay=1)), RIGHT),
        # the user says for another call what the look-up would show
        ("Close the order of B-12, and then charge 400 for order 17.", (FIND, CLOSE, CHARGE),
         (CLOSE, CHARGE), RIGHT),
        ("Look up the order of B-12 and close order 17.", (FIND, CLOSE), (CLOSE,), UNSAID),
        # what is asked for, by another tool
        (COST, (FIND, PRICE), (ALL,), RIGHT),
        (COST, (FIND, PRICE), (FIND, SHOW), RIGHT),
        (COST, (FIND, PRICE), (MONDAY, SHOW), RIGHT),
        ("Show me the order of B-12.", (FIND, SHOW), (ALL,), RIGHT),
        ("Which orders stand on Monday's list?", (MONDAY,), (ALL,), RIGHT),
        ("Which orders stand on Monday's list?", (MONDAY,),
         (FIND, call("find_order", plate="K-77")), RIGHT),
        ("Who owns B-12?", (call("owner_of", plate="B-12"),),
         (call("owner_of", plate="B-12"),), RIGHT),
        # what is asked for was not shown
        (COST, (FIND, PRICE), (FIND,), UNSAID),
        (COST, (FIND, PRICE), (MONDAY,), UNSAID),
        (COST, (FIND, PRICE), (call("price_of", order=18),), UNSAID),
        (COST, (FIND, PRICE), (call("history", plate="K-77"),), UNSAID),
        (COST, (FIND, PRICE), (call("free_bays"),), UNSAID),
        ("Show me the order of B-12.", (FIND, SHOW), (MONDAY,), UNSAID),
        ("Show me the order of B-12.", (FIND, SHOW), (FIND, PRICE), UNSAID),
        ("Show me the order of B-12.", (FIND, SHOW), (call("show_order", order=18),), UNSAID),
        ("Which orders stand on Monday's list?", (MONDAY,), (FIND,), UNSAID),
        ("Which orders stand on Monday's list?", (MONDAY,),
         (call("list_day", day="tuesday"),), UNSAID),
        ("Who owns B-12?", (call("owner_of", plate="B-12"),),
         (call("owner_of", plate="K-77"),), UNSAID),
        ("Which order is B-12's, and what does it cost? Then close it.", (FIND, PRICE, CLOSE),
         (MONDAY, CLOSE), UNSAID),
        # a way that the words ask to know
        ("Which order is B-12's? Close it.", (FIND, CLOSE),
         (call("close_by_plate", plate="B-12"),), UNSAID),
        ("Which order is B-12's? Close it.", (FIND, CLOSE), (MONDAY, CLOSE), RIGHT),
        ("Tell me which order is B-12's and close it.", (FIND, CLOSE),
         (call("close_by_plate", plate="B-12"),), UNSAID),
        ("Could you close the order of B-12?", (FIND, CLOSE),
         (call("close_by_plate", plate="B-12"),), RIGHT),
        # the state is not as it should be
        (CLOSED, (FIND, CLOSE), (MONDAY, call("close_order", order=18)), (False, True)),
        ("Charge B-12 for its order.", (FIND, PRICE, CHARGE),
         (FIND, PRICE, call("charge", order=17, amount=40)), (False, True)),
        (CLOSED, (FIND, CLOSE), (FIND,), (False, True)),
        # guessed: nobody said or showed the number before
        (CLOSED, (FIND, CLOSE), (CLOSE,), UNSAID),
        (CLOSED, (FIND, CLOSE),
         (call("close_order", order=1), call("close_order", order=2), CLOSE), UNSAID),
        (CLOSED, (FIND, CLOSE), (call("list_day", day="tuesday"), CLOSE), UNSAID),
        ("Charge B-12 for its order.", (FIND, PRICE, CHARGE), (FIND, CHARGE), UNSAID),
        ("Charge B-12 for its order, that is 400.", (FIND, CHARGE), (MONDAY, CHARGE), RIGHT),
        ("Close order 17, it is B-12's.", (FIND, CLOSE), (CLOSE,), UNSAID),
        # silence is never right
        (CLOSED, (FIND, CLOSE), (), (False, False)),
        (COST, (FIND, PRICE), (), UNSAID),
        # whatever shows all that the ground truth does is right, in any order, as it always was
        (CLOSED, (FIND, CLOSE), (FIND, CLOSE), RIGHT),
        (CLOSED, (FIND, CLOSE), (CLOSE, FIND), RIGHT),
    ],
)  # fmt: skip
def test_a_turn_is_judged_by_what_was_asked(text, truth, made, wanted):
    assert verdicts(task((text, truth)), [made]) == [wanted]


def test_a_dump_answers_only_where_values_stand_together():
    price = call("price_of", order=17), run(WORLD, task((COST, (FIND, PRICE))))[0][1]
    answers = ({"cost"}, lambda says: says(17))
    whole = run(WORLD, task((COST, (ALL,))))[0][0]
    assert shown(price, [(ALL, replace_value(whole, whole.value))], *answers)
    columns = {"orders": [17, 18, 23], "costs": [400, 90, 640]}
    assert not shown(price, [(ALL, replace_value(whole, columns))], *answers)
    numbers = [list(range(1, 700))]
    assert not shown(price, [(ALL, replace_value(whole, numbers))], *answers)
    line = "Order 17 of B-12 costs 400."
    assert shown(price, [(ALL, replace_value(whole, line))], *answers)
    padded = line + " and so on" * 20
    assert not shown(price, [(ALL, replace_value(whole, padded))], *answers)


def test_a_text_of_several_lines_inside_of_a_result_is_shown_line_by_line():
    """A listing in a field, where another tool lists the same in other words, or more has come."""
    whole = run(WORLD, task((COST, (ALL,))))[0][0]
    listed = (
        call("list_notes"),
        replace_value(whole, {"content": "[FILE] beds.txt\n[FILE] tools.txt"}),
    )

    def seen(text):
        made = (ALL, replace_value(whole, {"content": text}))
        return shown(listed, [made], set(), lambda says: True)

    assert seen("[FILE] beds.txt\n[FILE] tools.txt\n[FILE] moss.txt")
    assert seen("[FILE] tools.txt  7 B\n[FILE] beds.txt  12 B")
    assert not seen("[FILE] beds.txt\n[FILE] moss.txt")


def test_the_length_of_a_list_is_shown_by_its_entries_unless_it_is_asked_for():
    """A filter that counts what it finds, where the policy lists everything."""
    whole = run(WORLD, task((COST, (ALL,))))[0][0]
    urgent = {"due": "friday", "name": "paint", "priority": "B"}
    later = {"due": "monday", "name": "sand", "priority": "C"}
    found = call("find_urgent"), replace_value(whole, {"jobs": [urgent], "count": 1})
    every = {"jobs": [urgent, later], "count": 2}

    def seen(wanted, made, fields=frozenset()):
        return shown(wanted, [(ALL, replace_value(whole, made))], fields, lambda says: False)

    assert seen(found, every)
    assert not seen(found, {"jobs": [later], "count": 1}), "the entry has to be there"
    assert not seen(found, every, {"count"}), "how many there are was asked"
    costs = call("find_urgent"), replace_value(whole, {"jobs": [urgent], "cost": 1})
    assert not seen(costs, every), "a number that is none of entries"
    held = {"jobs": [urgent | {"count": 3}], "count": 1}
    assert not seen((call("find_urgent"), replace_value(whole, held)), every), "one of an entry"


def replace_value(result, value):
    return result._replace(text=f"{value!r}", value=value)


@dataclass
class Shop:
    sold: list[int] = field(default_factory=list)


SHOP = TypedEnvironment(f"{__name__}:prose", Shop, behaviour=1)
STOCK = {17: ("lamp", "Ada", 400), 23: ("sofa", "Bo", 640), 24: ("desk", "Bo", 400)}


@SHOP.tool("Shop", reads=True)
def find(shop: Shop, name: str) -> str:
    """Finds an item by its name."""
    return next(f"Item number: {key}" for key, one in STOCK.items() if one[0] == name)


@SHOP.tool("Shop", reads=True)
def shelf(shop: Shop, owner: str) -> str:
    """Tells what stands on somebody's shelf."""
    return "\n".join(f"{key}: {one[0]}, {one[2]}" for key, one in STOCK.items() if one[1] == owner)


@SHOP.tool("Shop", reads=True)
def price(shop: Shop, item: int) -> str:
    """Tells the price of an item."""
    return f"Item {item} costs {STOCK[item][2]} crowns."


@SHOP.tool("Shop", reads=True)
def stock(shop: Shop) -> str:
    """Tells all that is in stock, in one line."""
    return " ".join(f"{key} {one[0]} {one[2]}" for key, one in (STOCK | EXTRA).items())


@SHOP.tool("Shop")
def sell(shop: Shop, item: int) -> str:
    """Sells an item."""
    shop.sold.append(item)
    return "sold"


PROSE: Any = SHOP
EXTRA = {number: ("box", "", number * 3) for number in range(100, 130)}


@pytest.mark.parametrize(
    ("text", "truth", "made", "wanted"),
    [
        ("Sell Ada's lamp.", (call("find", name="lamp"), call("sell", item=17)),
         (call("shelf", owner="Ada"), call("sell", item=17)), RIGHT),
        ("Sell Ada's lamp.", (call("find", name="lamp"), call("sell", item=17)),
         (call("shelf", owner="Bo"), call("sell", item=17)), UNSAID),
        ("Sell Ada's lamp.", (call("find", name="lamp"), call("sell", item=17)),
         (call("sell", item=17),), UNSAID),
        ("What does Ada's lamp cost?", (call("find", name="lamp"), call("price", item=17)),
         (call("shelf", owner="Ada"),), RIGHT),
        ("What does Ada's lamp cost?", (call("find", name="lamp"), call("price", item=17)),
         (call("shelf", owner="Bo"),), UNSAID),
        ("What does Ada's lamp cost?", (call("find", name="lamp"), call("price", item=17)),
         (call("price", item=24),), UNSAID),
        ("What does Ada's lamp cost?", (call("find", name="lamp"), call("price", item=17)),
         (call("stock"),), UNSAID),
    ],
)  # fmt: skip
def test_results_of_words_are_read_for_their_values(text, truth, made, wanted):
    one = Task(reference(PROSE), "base", (text,), (truth,), tuple(PROSE.tools()))
    assert verdicts(one, [made], PROSE) == [wanted]


def test_a_later_turn_may_take_what_an_earlier_one_showed():
    one = task(("Find the order of B-12.", (FIND,)), ("Show what it costs.", (PRICE,)),
               ("Close it.", (CLOSE,)))  # fmt: skip
    assert verdicts(one, [(MONDAY,), (SHOW,), (CLOSE,)]) == [RIGHT] * 3
    # the third turn's number was never shown
    blind = task(("Who owns B-12?", (call("owner_of", plate="B-12"),)), (CLOSED, (FIND, CLOSE)))
    assert verdicts(blind, [(call("owner_of", plate="B-12"),), (CLOSE,)]) == [RIGHT, UNSAID]
    assert verdicts(blind, [(call("owner_of", plate="B-12"), FIND), (CLOSE,)]) == [RIGHT] * 2


def test_all_and_state_are_judged_as_they_are_called():
    cases: tuple[tuple[Any, Reads | None, tuple[bool, bool]], ...] = (
        (STRICT, None, UNSAID),
        (STRICT, "asked", RIGHT),
        (WORLD, "all", UNSAID),
        (WORLD, "state", RIGHT),
        (WORLD, ((0, 0),), RIGHT),  # it was shown, by the other one
        (WORLD, (), RIGHT),
    )
    for world, reads, wanted in cases:
        one = task((CLOSED, (FIND, CLOSE)), world=world, reads=reads)
        assert verdicts(one, [(MONDAY, CLOSE)], world) == [wanted], (world.name, reads)
    by_plate = [(call("close_by_plate", plate="B-12"),)]
    assert verdicts(task((CLOSED, (FIND, CLOSE)), reads=((0, 0),)), by_plate) == [UNSAID]
    # the state alone: neither answers nor guesses count, but silence does
    assert verdicts(task((CLOSED, (FIND, CLOSE)), reads="state"), [(CLOSE,)]) == [RIGHT]
    assert verdicts(task((COST, (FIND, PRICE)), reads="state"), [()]) == [UNSAID]


def test_a_way_not_taken_is_no_missing_call():
    one = task((CLOSED, (FIND, CLOSE)))
    for made, wanted in (
        ((MONDAY, CLOSE), "pass"),
        ((CLOSE,), "missing_tool_call"),  # guessed
        ((MONDAY,), "missing_tool_call"),
        ((MONDAY, call("close_order", order=18)), "state_mismatch"),
    ):
        assert diagnose(played(one, [made]), one, WORLD) == (wanted,), made
    # another way to a wrong end: the look-up that was not made is not what went wrong
    two = task(("Charge B-12 for its order.", (FIND, PRICE, CHARGE)))
    trace = played(two, [(ALL, call("charge", order=17, amount=40))])
    assert diagnose(trace, two, WORLD) == ("state_mismatch",)
    strict = task((CLOSED, (FIND, CLOSE)), world=STRICT)
    assert diagnose(played(strict, [(MONDAY, CLOSE)], STRICT), strict, STRICT) == (
        "missing_tool_call",
    )


@pytest.mark.parametrize(
    ("text", "calls", "places"),
    [
        (CLOSED, (FIND, CLOSE), set()),
        (COST, (FIND, PRICE), {1}),
        ("Which order is B-12's, and what does it cost? Then close it.", (FIND, PRICE, CLOSE),
         {0, 1}),
        ("Check whether B-12 has an order and close it.", (FIND, CLOSE), {0}),
        ("When B-12 comes in, close its order.", (FIND, CLOSE), set()),
        ("Look at Monday's list and close B-12's order.", (MONDAY, CLOSE), {0}),
        ("Which bays are free? Book the first for order 18.",
         (call("free_bays"), call("book_bay", order=18, bay=1)), {0}),
    ],
)  # fmt: skip
def test_what_feeds_a_call_is_asked_for_only_by_words(text, calls, places):
    one = task((text, calls))
    changed = {(0, index) for index, made in enumerate(calls) if not _reads(made)}
    found = asked_places(WORLD, one, run(WORLD, one), changed)
    assert set(found) == {(0, index) for index in places}


def _reads(made: Call) -> bool:
    return made.name in {function.__name__ for function in READS}


def test_only_the_fields_that_the_words_name_have_to_be_shown():
    def fields(text: str) -> set[str]:
        one = task((text, (call("find_order", plate="B-12"), SHOW)))
        return asked_places(WORLD, one, run(WORLD, one), set())[0, 1]

    assert fields("What does the order of B-12 cost?") == {"cost"}
    assert fields("Tell me the cost and the day of B-12's order.") == {"cost", "day"}
    assert fields("Show me the order of B-12.") == set()
    assert fields("Show me all of B-12's order, the cost as well.") == set()


def test_a_turn_that_all_resolves_asked_resolves_too():
    """Random calls, four of six tasks' own: nothing that was right is wrong now."""
    rng = random.Random(62)
    texts = ((CLOSED, (FIND, CLOSE)), (COST, (FIND, PRICE)), ("Charge it.", (PRICE, CHARGE)))
    calls = [FIND, MONDAY, ALL, SHOW, PRICE, CLOSE, CHARGE, call("free_bays")]
    moved = 0
    for _ in range(30):
        turns = [rng.choice(texts) for _ in range(rng.randint(1, 3))]
        one = task(*turns)
        made = [
            sorted(rng.sample([*truth, *calls], rng.randint(1, 4)), key=calls.index)
            for _, truth in turns
        ]
        now = verdicts(one, made)
        before = [
            (turn.verdict.state, turn.verdict.response)
            for turn in played(one, made, goal=GroundTruth(WORLD, one)).turns
            if turn.verdict is not None
        ]
        for new, old in zip(now, before, strict=True):
            assert new[0] == old[0] and new[1] >= old[1], (turns, made)
            moved += new != old
    assert moved


@pytest.mark.parametrize("reads", [None, "asked", "all", "state"])
def test_the_ground_truth_resolves_every_turn(reads: Reads | None):
    one = task((CLOSED, (FIND, CLOSE)), (COST, (FIND, PRICE)), ("Thanks.", ()),
               ("Charge it.", (PRICE, CHARGE)), reads=reads)  # fmt: skip
    trace = played(one, one.calls)
    assert trace.binary and set(diagnose(trace, one, WORLD)) <= {"pass", "correct_abstention"}


def test_a_missing_tool_s_turn_is_read_with_the_request_before_it():
    names = tuple(WORLD.tools())
    one = Task(
        reference(WORLD),
        "miss_func",
        ("Which order is B-12's? Close it.", "Some tools are back."),
        ((), (FIND, CLOSE)),
        names,
        later_tools={1: ("find_order", "close_order")},
        state=task((COST, (FIND,))).state,
    )
    results: Results = run(WORLD, one)
    assert set(asked_places(WORLD, one, results, {(1, 1)})) == {(1, 0)}
