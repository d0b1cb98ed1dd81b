"""Initial states: fresh, patched without damage, and nothing where nothing helps."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rods.calls import Call
from rods.composing import bind, states
from rods.composing.records import ComposeError
from rods.worlds import desk as desk_environment
from tests.rods.composing.drafts import DESK, STATE, desk, planned

JSON = some.recursive(
    some.integers() | some.text(max_size=3) | some.none(),
    lambda inner: some.dictionaries(some.sampled_from("abcd"), inner, max_size=3) | some.lists(inner, max_size=2),
    max_leaves=12,
)
OBJECT = some.dictionaries(some.sampled_from("abcd"), JSON, max_size=4)


@given(OBJECT, OBJECT)
def test_merge_never_replaces_an_object_by_something_else(base: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((base, patch))

    def check(old: Any, new: Any) -> None:
        if isinstance(old, dict):
            assert isinstance(new, dict) and set(old) <= set(new)
            for key in old:
                check(old[key], new[key])

    merged = states.deep_merge(base, patch)
    check(base, merged)
    assert (base, patch) == before
    assert states.deep_merge(merged, patch) == merged


def test_later_patches_override_fields_and_coexist() -> None:
    once = states.deep_merge({"a": {"x": 1, "y": {"z": 2}}}, {"a": {"x": 5, "y": "summary", "w": 6}})
    assert states.deep_merge(once, {"a": {"x": 7}}) == {"a": {"x": 7, "y": {"z": 2}, "w": 6}}


def test_fresh_state_holds_other_names_than_the_seeds() -> None:
    seed = desk_environment.generate(3, 4, 0)[0]
    plan = planned(["mail_person"], ["look_up_event"], ["show_file"], ["pay_vendor"])
    state = states.fresh_state(desk(), plan, seed, random.Random(1))
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
        states.fresh_state(desk(), unknown, None, random.Random(0))
    assert caught.value.type == "func_sample_failed" and caught.value.function == "juggle"


def _failed(call: Call, state: dict[str, Any]) -> ComposeError:
    result = DESK.reset(state).call(call)
    assert result.error == "tool"
    return ComposeError("vm_exec_failed", f"{call} gave {result.text}", function=call.name, turn=0, call=call)


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
    mended = states.repair(desk(), state, _failed(call, state), random.Random(0))
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
            mended = states.repair(desk(), state, error, random.Random(0))
            assert mended is not None
            state = mended
    bind.realise(DESK, desk(), plan, state, bind.random_chooser(random.Random(0)))


def test_what_no_state_can_help_is_not_repaired() -> None:
    assert states.repair(desk(), STATE, ComposeError("no_pattern", "x"), random.Random(0)) is None
    assert states.repair(desk(), STATE, ComposeError("vm_exec_failed", "x"), random.Random(0)) is None
    own_clash = ComposeError(
        "vm_exec_failed",
        "gave hour taken",
        call=Call("create_event", {"title": "audit", "day": "monday", "hour": 8}),
    )
    assert states.repair(desk(), STATE, own_clash, random.Random(0)) is None
