"""The four forms of a task, and what its provenance says about it."""

from __future__ import annotations

import random
import re

import pytest

from rods.analysis.containment import Text
from rods.composing import task_types, wording
from rods.composing.records import ComposeError
from rods.gates.texts import style
from rods.tasks import RETURN_SENTENCE, TaskType
from tests.rods.composing.drafts import DESK, STATE, desk, drafted, made, planned


def test_base_is_the_draft_as_it_is() -> None:
    task, draft = made(planned(["plan_event"], ["room_for_it", "see_balance"]))
    assert task.type == "base" and task.state == STATE and not task.later_tools
    assert task.calls == tuple(tuple(bound.call for bound in turn) for turn in draft.turns)
    assert task.environment.hash == DESK.hash


def test_long_context_pads_the_world_and_keeps_the_calls_right() -> None:
    plan = planned(["see_team"], ["mail_person", "see_day"], ["pay_vendor"])
    for seed in range(15):
        base, draft = made(plan, seed=seed)
        task, _ = made(plan, "long_context", seed)
        assert task.calls == base.calls and task.script == base.script
        assert task.state is not None and len(task.state["contacts"]) > 2 * len(STATE["contacts"])
        world = DESK.reset(task.state)
        for turn, results in zip(draft.turns, task.provenance["results"], strict=True):
            for bound, text in zip(turn, results, strict=True):
                assert world.call(bound.call).text == text
        assert len(task.provenance["results"][0][0]) >= len(draft.turns[0][0].result.text)


def test_padding_leaves_the_only_one_of_its_kind_alone() -> None:
    for seed in range(15):
        task, draft = made(planned(["mail_lone_member"], ["clear_day"]), "long_context", seed)
        assert task.provenance["results"][0][0] == draft.turns[0][0].result.text


def test_miss_func_withholds_a_needed_tool_until_the_fixed_sentence() -> None:
    for seed in range(15):
        task, _ = made(planned(["see_day"], [], ["pay_vendor"], ["see_team"]), "miss_func", seed)
        assert task.script[2] == RETURN_SENTENCE and task.calls[1] == ()
        looking = (
            ("find_bill",)
            if re.search(r"\b(find|look|check)\b", task.script[1], re.IGNORECASE)
            else ()
        )
        # what acts, and what reads where it is asked for by itself
        assert task.later_tools == {2: ("pay_bill", *looking)}
        assert "pay_bill" not in task.tools_at(1) and "pay_bill" in task.tools_at(2)
        assert Text.of(task.script[1]).contains_exact(task.calls[2][0].arguments["vendor"])
        assert task.provenance["missing"] == [
            {"turn": 1, "tool": tool} for tool in ("pay_bill", *looking)
        ]


def test_miss_param_blurs_one_value_and_supplies_it_in_the_next_turn() -> None:
    blurred = set()
    for seed in range(25):
        task, _ = made(planned(["see_day"], [], ["move_money"]), "miss_param", seed)
        gap = task.provenance["missing"][0]
        value = task.calls[2][0].arguments[gap["argument"]]
        assert task.calls[1] == () and value == gap["value"]
        assert not any(Text.of(text).contains_exact(value) for text in task.script[:2]) and Text.of(
            task.script[2]
        ).contains_exact(value)
        assert any(vague in task.script[1] for vague in desk().book.vague[gap["domain"]])
        for name, other in task.calls[2][0].arguments.items():
            if name != gap["argument"]:
                assert Text.of(task.script[1]).contains_exact(other)
                assert task.provenance["flows"][2][0][name] == {"source": "earlier"}
        assert task.provenance["flows"][2][0][gap["argument"]] == {"source": "user"}
        blurred.add(gap["argument"])
    assert blurred == {"amount", "source", "target"}


def test_miss_func_holds_out_a_tool_for_each_request_that_could_be_served_without_the_others() -> (
    None
):
    for seed in range(8):
        task, draft = made(planned(["see_day"], [], ["pay_vendor", "see_team"]), "miss_func", seed)
        assert task_types.removable(desk(), draft, 2) == [["pay_bill"], ["list_team"]]
        held = (
            "pay_bill",
            *(tool for tool in task.later_tools[2] if tool == "find_bill"),
            "list_team",
        )
        assert task.later_tools == {2: held}
        assert task.provenance["missing"] == [{"turn": 1, "tool": tool} for tool in held]
    task, draft = made(planned(["see_day"], [], ["plan_event", "invite_to_it"]), "miss_func")
    # nobody can be invited to what is not there
    assert task_types.removable(desk(), draft, 2) == [["create_event"]]
    texts = wording.rewrite(desk(), draft, narrative=True, rng=random.Random(0))
    whole = task_types.apply(desk(), DESK, draft, texts, "miss_func", random.Random(0), fair=False)
    assert len(whole.later_tools[2]) == 1


def test_miss_param_asks_for_the_rest_once_the_value_is_supplied() -> None:
    for seed in range(8):
        task, _ = made(planned(["see_day"], [], ["move_money", "see_team"]), "miss_param", seed)
        team = task.calls[2][1].arguments["team"]
        gap = task.provenance["missing"][0]
        assert any(vague in task.script[1] for vague in desk().book.vague[gap["domain"]])
        assert (
            not Text.of(task.script[1]).contains_exact(team)
            and Text.of(task.script[2]).contains_exact(team)
            and Text.of(task.script[2]).contains_exact(gap["value"])
        )
        assert style(task, desk().book.longest + wording.SLACK) == []


def test_a_text_that_is_supplied_stands_in_quotation_marks() -> None:
    supplied = 0
    for seed in range(20):
        task, _ = made(planned(["see_day"], [], ["mail_address"]), "miss_param", seed)
        gap = task.provenance["missing"][0]
        if gap["domain"] == "text":
            supplied += 1
            assert f"'{gap['value']}'" in task.script[2]
    assert supplied


def test_value_that_was_said_before_is_never_the_missing_one() -> None:
    for seed in range(40):
        draft = drafted(planned(["see_balance"], [], ["take_in"]), seed)
        texts = wording.rewrite(desk(), draft, narrative=True, rng=random.Random(seed))
        try:
            task = task_types.apply(desk(), DESK, draft, texts, "miss_param", random.Random(seed))
        except ComposeError:
            continue
        if (
            draft.turns[0][0].call.arguments["account"]
            == draft.turns[2][0].call.arguments["account"]
        ):
            assert task.provenance["missing"][0]["argument"] == "amount"


@pytest.mark.parametrize(
    ("turns", "type"),
    [
        ([["see_day"], [], ["see_team"]], "base"),
        ([["see_day"], ["see_team"]], "miss_func"),
        ([["see_day"], ["see_team"]], "miss_param"),
        ([["see_day"], []], "miss_func"),
        ([["see_day"], [], ["see_day"]], "miss_func"),  # the tool was needed before
        ([["see_day"], [], ["find_mail"]], "miss_param"),  # subjects are never blurred
    ],
)
def test_plan_without_the_turns_of_its_type_is_no_pattern(
    turns: list[list[str]], type: TaskType
) -> None:
    with pytest.raises(ComposeError) as caught:
        made(planned(*turns), type)
    assert caught.value.type == "no_pattern"


def test_texts_must_be_one_a_turn() -> None:
    with pytest.raises(ComposeError) as caught:
        task_types.apply(
            desk(), DESK, drafted(planned(["see_day"])), ["a", "b"], "base", random.Random(0)
        )
    assert caught.value.type == "conversation_construct_failed"


def test_shown_tools_hold_the_needed_ones_and_their_siblings_and_are_few() -> None:
    for seed in range(10):
        task, _ = made(planned(["take_in"], ["shift_event"], ["mail_person"]), seed=seed)
        assert {
            "add_income",
            "add_expense",
            "find_event",
            "move_event",
            "find_contact",
            "send_mail",
        } <= set(task.tools)
        assert len(task.tools) == desk().shown
        groups = {DESK.tools()[name].group for name in task.tools}
        assert groups == {"ledger", "calendar", "contacts", "mail"}


def test_provenance_tells_flows_recipes_and_traits() -> None:
    task, _ = made(planned(["plan_event"], [], ["invite_to_it"], ["move_money"]), "miss_func")
    facts = task.provenance
    assert facts["recipes"] == [
        ["plan_event"],
        [],
        ["invite_to_it", "invite_to_it"],
        ["move_money"],
    ]
    assert facts["traits"] == [[], ["answer"], ["multi", "lookup"], ["swap"]]
    assert facts["flows"][2][1] == {
        "event": {"source": "result", "origin": [0, 0]},
        "address": {"source": "result", "origin": [2, 0]},
    }
    # said when it was asked for in vain
    assert facts["flows"][2][0] == {"name": {"source": "earlier"}}
    assert facts["plan"]["narrative"]["topic"] == "picnic"


def test_saying_a_value_is_word_for_word_whatever_the_case() -> None:
    assert Text.of("Reply ALL approved, please.").contains_exact("all approved")
    assert (
        Text.of("Move 40 to cash.").contains_exact(40)
        and not Text.of("Move 400 to cash.").contains_exact(40)
        and not Text.of("Move 0.45 or 140.").contains_exact(4)
    )
    assert Text.of("the notes 101 and 102").contains_exact([101, 102]) and not Text.of(
        "the notes 101 and 102"
    ).contains_exact([101, 103])
    assert Text.of("All *.txt files").contains_exact("*.txt") and not Text.of(
        "box12"
    ).contains_exact("box1")
