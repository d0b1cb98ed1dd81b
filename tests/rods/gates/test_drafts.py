"""The judge by rules: accepts what was composed, objects to calls and forms that are not the
draft's and to texts that no user would type, and says whether words may mend it."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rods.calls import Call
from rods.composing.records import Draft
from rods.composing.wording import SLACK
from rods.faults import Defect
from rods.gates.drafts import judge
from rods.tasks import RETURN_SENTENCE, Task
from rods.worlds import desk as desk_environment
from tests.rods.composing.drafts import DESK, desk, made, planned

TASK, DRAFT = made(planned(["plan_event"], ["room_for_it", "pay_vendor"], ["take_in"]))
MISS_FUNC, FUNC_DRAFT = made(planned(["see_day"], [], ["pay_vendor"]), "miss_func")
MISS_PARAM, PARAM_DRAFT = made(planned(["see_day"], [], ["move_money"]), "miss_param")
LONG, LONG_DRAFT = made(planned(["see_team"], ["shift_event"]), "long_context")


def _changed(task: Task, **changes: Any) -> Task:
    return replace(task, id="", **changes)


def _text(task: Task, turn: int, change: Callable[[str], str]) -> Task:
    script = list(task.script)
    script[turn] = change(script[turn])
    return _changed(task, script=tuple(script))


def _judged(task: Task, draft: Draft) -> list[Defect]:
    return judge(DESK, task, draft, desk().book.longest + SLACK)


def test_what_desk_composes_is_accepted() -> None:
    for task, draft in itertools.islice(desk_environment.fresh_tasks(4, "judged"), 40):
        assert _judged(task, draft) == []
    for task, draft in (
        (TASK, DRAFT),
        (MISS_FUNC, FUNC_DRAFT),
        (MISS_PARAM, PARAM_DRAFT),
        (LONG, LONG_DRAFT),
    ):
        assert _judged(task, draft) == []


@pytest.mark.parametrize(
    ("turn", "change", "reason"),
    [
        (2, lambda text: f"{text} Use add_income.", "the text names 'add_income'"),
        (0, lambda text: f"{text} Thought process: none.", "artefact"),
        (0, lambda text: f'{text} {{"name": "x"}}.', "artefact"),
        (0, lambda text: f"{text} Please please.", "says 'Please please'"),
        (0, lambda text: f"{text} Take the one of the rooms.", "says 'the one of'"),
        (0, lambda text: text[0].lower() + text[1:], "not written in sentences"),
        (0, lambda text: text.rstrip("?."), "not written in sentences"),
        (0, lambda text: "", "not written in sentences"),
        (0, lambda text: f"{text} {'Well then. ' * 12}".strip(), "words long"),
    ],
)
def test_corrupted_text_is_a_query_fault_of_its_turn(
    turn: int, change: Callable[[str], str], reason: str
) -> None:
    faults = _judged(_text(TASK, turn, change), DRAFT)
    assert any(reason in fault.reason for fault in faults), faults
    assert {(fault.verdict, fault.turn) for fault in faults} == {("query_fixable", turn)}


def test_changed_calls_are_a_fault_of_the_calls() -> None:
    calls = [list(turn) for turn in TASK.calls]
    variants: list[list[list[Call]]] = [copy.deepcopy(calls) for _ in range(4)]
    variants[0][1].pop()
    variants[1][2].append(Call("list_day", {}))
    variants[2][1].reverse()
    variants[3][2][0] = Call("add_income", {**calls[2][0].arguments, "amount": 1})
    for variant in variants:
        faults = _judged(_changed(TASK, calls=tuple(map(tuple, variant))), DRAFT)
        assert [fault.verdict for fault in faults] == ["gt_unfixable"]


@pytest.mark.parametrize(
    ("task", "draft"),
    [
        (_changed(MISS_FUNC, held_out={}), FUNC_DRAFT),
        (_changed(MISS_FUNC, held_out={1: ("pay_bill",)}), FUNC_DRAFT),
        (_changed(MISS_FUNC, held_out={2: ("list_day",)}), FUNC_DRAFT),
        (_changed(MISS_FUNC, held_out={2: ()}), FUNC_DRAFT),
        (_text(MISS_FUNC, 2, lambda text: "Now please."), FUNC_DRAFT),
        (_text(MISS_FUNC, 0, lambda text: RETURN_SENTENCE), FUNC_DRAFT),
        (_changed(MISS_FUNC, type="base"), FUNC_DRAFT),
        (_changed(MISS_PARAM, type="miss_func"), PARAM_DRAFT),
        (_changed(MISS_PARAM, held_out={2: ("transfer_money",)}), PARAM_DRAFT),
        (_text(MISS_PARAM, 2, lambda text: "I mean that one."), PARAM_DRAFT),
        (_text(MISS_PARAM, 1, lambda text: f"{text} {MISS_PARAM.script[2]}"), PARAM_DRAFT),
        (_changed(TASK, type="miss_param"), DRAFT),
        (_changed(LONG, state=LONG_DRAFT.state), LONG_DRAFT),
    ],
)
def test_broken_form_is_a_fault_of_the_calls(task: Task, draft: Draft) -> None:
    faults = _judged(task, draft)
    assert faults and {fault.verdict for fault in faults} == {"gt_unfixable"}


def test_fault_in_a_request_made_in_vain_counts_to_the_turn_that_serves_it() -> None:
    faults = _judged(_text(MISS_FUNC, 1, lambda text: f"{text} Use pay_bill."), FUNC_DRAFT)
    assert {(fault.verdict, fault.turn) for fault in faults} == {("query_fixable", 2)}
