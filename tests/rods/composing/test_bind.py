"""Binding: flows are true, calls run in a fresh world, failures are typed; initial states: fresh,
patched without damage, and nothing where nothing helps."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, strategies as some

from rods.analysis.containment import Text
from rods.analysis.flows import Flow
from rods.calls import Call
from rods.composing import bind
from rods.composing.records import ComposeError, Plan, PlannedTurn
from rods.worlds import desk as desk_environment
from tests.rods.composing.drafts import DESK, STATE, desk, drafted, planned

JSON = some.recursive(
    some.integers() | some.text(max_size=3) | some.none(),
    lambda inner: (
        some.dictionaries(some.sampled_from("abcd"), inner, max_size=3)
        | some.lists(inner, max_size=2)
    ),
    max_leaves=12,
)
OBJECT = some.dictionaries(some.sampled_from("abcd"), JSON, max_size=4)


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
        draft = drafted(
            planned(["read_found", "look_up_person"], ["write_to_sender"], ["pass_it_to_them"]),
            seed,
        )
        for turn in draft.turns:
            for bound in turn:
                assert set(bound.flows) == set(bound.call.arguments)
                for argument, flow in bound.flows.items():
                    if flow.origin is not None:
                        origin = draft.turns[flow.origin[0]][flow.origin[1]]
                        assert Text.shown(origin.result.text).contains_exact(
                            bound.call.arguments[argument]
                        )


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
    chosen = [
        drafted(planned(["look_up_event"]), seed).turns[0][0].call.arguments["title"]
        for seed in range(60)
    ]
    assert 35 < chosen.count("picnic") < 60
    spare = [
        drafted(planned(["drop_event"]), seed).turns[0][0].call.arguments["title"]
        for seed in range(20)
    ]
    assert set(spare) == {"launch"}  # not the event that the story is about


def test_repeats_are_marked_only_where_a_back_reference_is_clear() -> None:
    marked = 0
    for seed in range(40):
        draft = drafted(planned(["see_balance"], ["take_in"], ["move_money"], ["spend"]), seed)
        account = [
            turn[0].slots["account"].text
            for turn in (draft.turns[0], draft.turns[1], draft.turns[3])
        ]
        repeats = [
            turn[0].slots["account"].repeats
            for turn in (draft.turns[0], draft.turns[1], draft.turns[3])
        ]
        assert repeats[0] is False and repeats[1] == (account[0] == account[1])
        assert repeats[2] is False  # two accounts were spoken of in the turn before
        marked += repeats[1]
    assert marked


def test_others_that_a_reference_back_might_mean_are_marked() -> None:
    said = [["plan_event"], ["room_for_it"]]
    assert not drafted(planned(*said)).turns[1][0].slots["event"].others
    late = drafted(planned(["plan_event"], ["see_balance"], ["room_for_it"]))
    assert late.turns[2][0].slots["event"].others  # the turn before was about something else
    other = drafted(planned(["plan_event"], ["look_up_event", "see_balance"], ["invite_address"]))
    assert other.turns[2][0].slots["event"].others  # two events were named
    marked = set()
    for seed in range(12):  # the sender's address looks like the person's
        draft = drafted(planned(["pass_to_person"], ["read_it", "mail_them"]), seed)
        shown = draft.turns[1][0].result.value["sender"]
        slot = draft.turns[1][1].slots["person"]
        if shown != draft.turns[1][1].call.arguments["address"]:
            marked.add(slot.others)
    assert marked == {True}


def _error(plan: Plan, state: dict[str, object] | None = None) -> ComposeError:
    with pytest.raises(ComposeError) as caught:
        drafted(plan, state=state)
    return caught.value


def test_failures_are_typed_and_say_where() -> None:
    recipes = desk().recipes
    unknown = _error(Plan((PlannedTurn(("juggle",), ()),)))
    assert (unknown.type, unknown.function, unknown.turn) == ("func_sample_failed", "juggle", 0)
    nothing_given = _error(planned(["see_today"], ["move_it"]))
    assert (nothing_given.type, nothing_given.function, nothing_given.turn) == (
        "func_sample_failed",
        "move_it",
        1,
    )
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


def test_a_call_that_was_made_before_and_is_refused_now_is_duplicate_func() -> None:
    """No state would let the second invitation succeed."""
    twice = planned(["plan_event"], ["invite_to_it"], ["invite_them"])
    error = _error(twice)
    assert (error.type, error.function, error.turn) == ("duplicate_func", "invite_guest", 2)


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
            mended = bind.repair(desk(), state, error, random.Random(0))
            assert mended is not None
            state = mended
    assert (
        bind.realise(DESK, desk(), plan, state, bind.random_chooser(random.Random(5)))
        .turns[1][0]
        .result.error
        is None
    )


@given(OBJECT, OBJECT)
def test_merge_never_replaces_an_object_by_something_else(
    base: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = copy.deepcopy((base, patch))

    def check(old: Any, new: Any) -> None:
        if isinstance(old, dict):
            assert isinstance(new, dict) and set(old) <= set(new)
            for key in old:
                check(old[key], new[key])

    merged = bind.deep_merge(base, patch)
    check(base, merged)
    assert (base, patch) == before
    assert bind.deep_merge(merged, patch) == merged


def test_later_patches_override_fields_and_coexist() -> None:
    once = bind.deep_merge({"a": {"x": 1, "y": {"z": 2}}}, {"a": {"x": 5, "y": "summary", "w": 6}})
    assert bind.deep_merge(once, {"a": {"x": 7}}) == {"a": {"x": 7, "y": {"z": 2}, "w": 6}}


def test_fresh_state_holds_other_names_than_the_seeds() -> None:
    seed = desk_environment.generate(3, 4, 0)[0]
    plan = planned(["mail_person"], ["look_up_event"], ["show_file"], ["pay_vendor"])
    state = bind.fresh_state(desk(), plan, seed, random.Random(1))
    DESK.reset(state)

    def names(value: Any) -> set[str]:
        found: set[str] = set()
        for part, entries in (("contacts", ()), ("files", ()), ("ledger", ("accounts",))):
            branch = value.get(part, {})
            for key in entries:
                branch = branch.get(key, {})
            found |= set(branch)
        found |= {bill["vendor"] for bill in value.get("ledger", {}).get("bills", {}).values()}
        return found

    assert seed.state is not None
    assert names(state) and not names(state) & names(seed.state)


def test_fresh_state_of_an_unknown_recipe_is_func_sample_failed() -> None:
    plan = planned(["see_today"])
    unknown = type(plan)((type(plan.turns[0])(("juggle",), ("list_day",)),), {})
    with pytest.raises(ComposeError) as caught:
        bind.fresh_state(desk(), unknown, None, random.Random(0))
    assert caught.value.type == "func_sample_failed" and caught.value.function == "juggle"


def _failed(call: Call, state: dict[str, Any]) -> ComposeError:
    result = DESK.reset(state).call(call)
    assert result.error == "tool"
    return ComposeError(
        "vm_exec_failed", f"{call} gave {result.text}", function=call.name, turn=0, call=call
    )


@pytest.mark.parametrize(
    "call",
    [
        Call("transfer_money", {"amount": 380, "source": "cash", "target": "savings"}),
        Call("add_expense", {"account": "cash", "amount": 380}),
        Call("pay_bill", {"bill": "i15", "account": "cash"}),
        Call("create_event", {"title": "audit", "day": "friday", "hour": 14}),
        Call("move_event", {"event": "e13", "day": "friday", "hour": 14}),
        Call("write_file", {"file": "memo", "text": "stay calm"}),
        Call("lock_file", {"file": "memo"}),
        Call("unlock_file", {"file": "map"}),
        Call("flag_mail", {"mail": "m11"}),
    ],
)
def test_repaired_state_lets_the_failed_call_succeed(call: Call) -> None:
    state = copy.deepcopy(STATE)
    state["ledger"]["accounts"]["cash"] = 20
    state["mail"]["inbox"]["m11"]["flagged"] = True
    state["files"] = {
        "memo": {"folder": "drafts", "text": "call back", "locked": True, "shared": []},
        "map": {"folder": "drafts", "text": "call back", "locked": False, "shared": []},
    }
    mended = bind.repair(desk(), state, _failed(call, state), random.Random(0))
    assert mended is not None
    assert DESK.reset(mended).call(call).error is None


@pytest.mark.parametrize(
    ("domain", "recipe"),
    [
        ("contact", "look_up_person"),
        ("lone_team", "mail_lone_member"),
        ("subject", "find_mail"),
        ("spare_subject", "delete_found"),
        ("title", "look_up_event"),
        ("spare_title", "drop_event"),
        ("lone_day", "clear_day"),
        ("file", "show_file"),
        ("locked_file", "unlock_file"),
        ("lone_folder", "read_lone_file"),
        ("account", "see_balance"),
        ("vendor", "see_bill"),
    ],
)
def test_empty_domain_is_filled(domain: str, recipe: str) -> None:
    plan = planned([recipe], story={})
    state: dict[str, Any] = DESK.reset(None).snapshot()
    for _ in range(3):  # an empty folder first needs a file, then a lock
        try:
            bind.realise(DESK, desk(), plan, state, bind.random_chooser(random.Random(0)))
            break
        except ComposeError as error:
            assert error.domain == domain
            mended = bind.repair(desk(), state, error, random.Random(0))
            assert mended is not None
            state = mended
    bind.realise(DESK, desk(), plan, state, bind.random_chooser(random.Random(0)))


def test_what_no_state_can_help_is_not_repaired() -> None:
    assert bind.repair(desk(), STATE, ComposeError("no_pattern", "x"), random.Random(0)) is None
    assert bind.repair(desk(), STATE, ComposeError("vm_exec_failed", "x"), random.Random(0)) is None
    own_clash = ComposeError(
        "vm_exec_failed",
        "gave hour taken",
        call=Call("create_event", {"title": "audit", "day": "monday", "hour": 8}),
    )
    assert bind.repair(desk(), STATE, own_clash, random.Random(0)) is None
