"""Binding: flows are true, calls run in a fresh world, failures are typed."""

from __future__ import annotations

import copy
import random

import pytest

from rods.analysis.containment import Text
from rods.analysis.flows import Flow
from rods.composing import bind, states
from rods.composing.records import ComposeError, Plan, PlannedTurn
from tests.rods.composing.drafts import DESK, STATE, desk, drafted, planned


def test_flows_say_where_every_argument_came_from() -> None:
    draft = drafted(planned(["plan_event"], ["invite_to_it"], ["see_today", "pay_vendor"]))
    (plan_event,) = draft.turns[0]
    look_up, invite = draft.turns[1]
    today, find_bill, pay = draft.turns[2]
    assert plan_event.flows == {"title": Flow("user"), "day": Flow("user"), "hour": Flow("user")}
    assert look_up.flows == {"name": Flow("user")}
    assert invite.flows == {"event": Flow("result", (0, 0)), "address": Flow("result", (1, 0))}
    assert today.flows == {} and today.call.arguments == {}
    assert pay.flows == {"bill": Flow("result", (2, 1)), "account": Flow("user")}
    assert find_bill.recipe == pay.recipe == "pay_vendor"


def test_a_result_flow_holds_the_value_that_the_result_gave() -> None:
    for seed in range(20):
        draft = drafted(planned(["read_found", "look_up_person"], ["write_to_sender"], ["pass_it_to_them"]), seed)
        for turn in draft.turns:
            for bound in turn:
                assert set(bound.flows) == set(bound.call.arguments)
                for argument, flow in bound.flows.items():
                    if flow.origin is not None:
                        origin = draft.turns[flow.origin[0]][flow.origin[1]]
                        assert Text.shown(origin.result.text).contains_exact(bound.call.arguments[argument])


def test_a_thing_that_the_user_named_is_user_in_its_turn_and_earlier_afterwards() -> None:
    draft = drafted(planned(["add_person", "mail_them"], ["mail_them"]))
    assert draft.turns[0][1].flows["address"] == Flow("user")
    assert draft.turns[1][0].flows["address"] == Flow("earlier")


def test_executes_in_a_fresh_world_and_leaves_the_state_alone() -> None:
    state = copy.deepcopy(STATE)
    plan = planned(["shift_event"], ["drop_event"])
    first = bind.realise(DESK, desk(), plan, state, bind.random_chooser(random.Random(3)))
    assert state == STATE
    world = DESK.reset(STATE)
    for bound in (bound for turn in first.turns for bound in turn):
        assert world.call(bound.call) == bound.result
    assert bind.realise(DESK, desk(), plan, state, bind.random_chooser(random.Random(3))) == first


def test_topic_of_the_story_is_what_most_tasks_are_about() -> None:
    chosen = [drafted(planned(["look_up_event"]), seed).turns[0][0].call.arguments["title"] for seed in range(60)]
    assert 35 < chosen.count("picnic") < 60
    spare = [drafted(planned(["drop_event"]), seed).turns[0][0].call.arguments["title"] for seed in range(20)]
    assert set(spare) == {"launch"}  # not the event that the story is about


def test_repeats_are_marked_only_where_a_back_reference_is_clear() -> None:
    marked = 0
    for seed in range(40):
        draft = drafted(planned(["see_balance"], ["take_in"], ["move_money"], ["spend"]), seed)
        account = [turn[0].slots["account"].text for turn in (draft.turns[0], draft.turns[1], draft.turns[3])]
        repeats = [turn[0].slots["account"].repeats for turn in (draft.turns[0], draft.turns[1], draft.turns[3])]
        assert repeats[0] is False and repeats[1] == (account[0] == account[1])
        assert repeats[2] is False  # two accounts were spoken of in the turn before
        marked += repeats[1]
    assert marked


def _error(plan: Plan, state: dict[str, object] | None = None) -> ComposeError:
    with pytest.raises(ComposeError) as caught:
        drafted(plan, state=state)
    return caught.value


def test_failures_are_typed_and_say_where() -> None:
    recipes = desk().recipes
    unknown = _error(Plan((PlannedTurn(("juggle",), ()),)))
    assert (unknown.type, unknown.function, unknown.turn) == ("func_sample_failed", "juggle", 0)
    nothing_given = _error(planned(["see_today"], ["move_it"]))
    assert (nothing_given.type, nothing_given.function, nothing_given.turn) == ("func_sample_failed", "move_it", 1)
    ended = _error(planned(["look_up_event"], ["cancel_it"], ["room_for_it"]))
    assert (ended.type, ended.turn) == ("func_sample_failed", 2)
    torn = _error(Plan((PlannedTurn(("pay_vendor",), recipes["pay_vendor"].tools[:1]),)))
    assert torn.type == "decompose_failed"
    empty = _error(planned(["show_file"]))
    assert (empty.type, empty.domain, empty.function) == ("param_gen_failed", "file", "read_file")
    illegal = _error(planned(["see_today"]), {"today": "sunday"})
    assert illegal.type == "vm_exec_failed"


def test_refused_call_is_vm_exec_failed_with_the_call() -> None:
    poor = copy.deepcopy(STATE)
    poor["ledger"]["accounts"] = {"cash": 0, "savings": 0}
    error = _error(planned(["pay_vendor"]), poor)
    assert error.type == "vm_exec_failed" and error.function == "pay_bill" and error.turn == 0
    assert error.call is not None and error.call.arguments["bill"] == "i15"
    assert "not enough money" in error.detail


def test_same_call_twice_in_a_turn_is_duplicate_func() -> None:
    state = copy.deepcopy(STATE)
    state["ledger"]["accounts"] = {"cash": 600, "savings": 600}
    error = _error(planned(["see_bill", "cover_bill"]), state)
    assert error.type == "duplicate_func" and error.function == "find_bill"


def test_repair_and_the_same_choices_realise_what_failed_before() -> None:
    poor = copy.deepcopy(STATE)
    poor["ledger"]["accounts"] = {"cash": 0, "savings": 0}
    plan = planned(["pay_vendor"], ["move_money"])
    state = poor
    for _ in range(3):
        try:
            bind.realise(DESK, desk(), plan, state, bind.random_chooser(random.Random(5)))
            break
        except ComposeError as error:
            mended = states.repair(desk(), state, error, random.Random(0))
            assert mended is not None
            state = mended
    assert (
        bind.realise(DESK, desk(), plan, state, bind.random_chooser(random.Random(5))).turns[1][0].result.error is None
    )
