"""What prompts show of results: whole while there is room, then what later calls take from them."""

from __future__ import annotations

import pytest

from rods.analysis.containment import leaves
from rods.analysis.flows import infer
from rods.composing.records import BoundCall, Draft, Plan
from rods.config import Roles
from rods.daemon.authors.catalogue_free import catalogue_with_tools
from rods.daemon.authors.llm import showing
from rods.tasks import Task
from rods.worlds import bfcl
from tests.daemon.authors.llm.early import planned
from tests.environments import Late, load


def drafted(task: Task) -> Draft:
    """The ground truth of an original as a draft."""
    environment = load(task.environment.name)
    world = environment.reset(task.state)
    results = [[world.call(call) for call in calls] for calls in task.calls]
    flows = infer(environment.tools(), task, results)
    turns = zip(task.calls, results, flows, strict=True)
    return Draft(
        Plan(()),
        task.state or {},
        tuple(
            tuple(BoundCall(*one, recipe="") for one in zip(*turn, strict=True)) for turn in turns
        ),
    )


DRAFTS = Late(lambda: [drafted(task) for task in bfcl.tasks() if task.type == "long_context"][::5])


def lengths(draft: Draft) -> list[int]:
    return [len(bound.result.text) for calls in draft.turns for bound in calls]


@pytest.mark.parametrize("room", [1_000, Roles().judge.results])
def test_results_stay_within_their_room_and_short_ones_whole(room: int) -> None:
    cut = 0
    for draft in DRAFTS:
        shown = showing.within(draft, room)
        assert (
            sum(lengths(shown))
            <= max(1.1 * room, sum(lengths(draft)) if sum(lengths(draft)) <= room else 0) + 300
        )
        if sum(lengths(draft)) <= room:
            assert shown == draft
        whole = [was for was, now in zip(lengths(draft), lengths(shown), strict=True) if was == now]
        assert all(
            length in whole for length in lengths(draft) if length <= room // len(lengths(draft))
        )
        cut += len(lengths(draft)) - len(whole)
    assert cut > 5


def test_what_a_later_call_takes_from_a_long_result_can_be_read() -> None:
    taken = 0
    for draft in DRAFTS:
        shown = showing.within(draft, 2_000)
        for bound in (bound for calls in draft.turns for bound in calls):
            for argument, flow in bound.flows.items():
                if (
                    flow.origin is None
                    or len((source := draft.turns[flow.origin[0]][flow.origin[1]]).result.text)
                    < 2_000
                ):
                    continue
                values = [
                    value
                    for _, value in leaves(bound.call.arguments[argument])
                    if str(value) in source.result.text
                ]
                text = shown.turns[flow.origin[0]][flow.origin[1]].result.text
                assert all(str(value) in text for value in values), (bound.call, text)
                taken += len(values)
    assert taken > 5, "so many would be lost at the ends of long results"


def test_an_excerpt_shows_the_beginning_and_each_place_once() -> None:
    text = " ".join(f"word{number}" for number in range(1_000))
    shown = showing.excerpt(text, 400, ["word500", ["word501", "word900"], "nowhere", ""])
    assert (
        shown.startswith("word0 ")
        and shown.count("word500 ") == 1
        and "word501" in shown
        and "word900" in shown
    )
    assert shown.count("…") == 3 and len(shown) < 420
    assert (
        showing.excerpt(text, 400) == f"{text[:400]}…"
        and showing.excerpt(text, len(text), ["word1"]) == text
    )
    assert (
        len(showing.excerpt(text, 100, [f"word{number}" for number in range(0, 1_000, 50)])) < 200
    )


def test_bounds_of_a_machine_are_not_shown() -> None:
    bound = {"minimum": -(2**63), "maximum": 2**63 - 1}
    assert showing.bounded({"type": "integer", **bound}) == {"type": "integer"}
    assert showing.bounded({"type": "integer", "maximum": 9}) == {"type": "integer", "maximum": 9}
    listed = {"type": "array", "items": {"type": "integer", **bound}, "maxItems": 3}
    inside = {"type": "object", "properties": {"minimum": {"type": "integer", **bound}}}
    assert showing.bounded(listed) == {**listed, "items": {"type": "integer"}}
    assert showing.bounded(inside) == {
        "type": "object",
        "properties": {"minimum": {"type": "integer"}},
    }


def test_a_plan_says_which_function_gave_what_another_takes_up() -> None:
    catalogue = catalogue_with_tools(load("desk"))
    shown = showing.plan(catalogue, planned("desk", ("read_found",), ("show_file", "answer_it")))
    assert "{mail of 1.1}" in shown and "{file}" in shown, "what the user chooses is open"
