"""Every label for what it says, in the order in which evidence is looked for
(docs/diagnosis.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson
import pytest

from bench.diagnosis import agreement, confusion, table
from rods.calls import Call
from rods.dialects.tags import Tags
from rods.environments.base import reference
from rods.episode.diagnosis import diagnose
from rods.episode.drivers import Job, run_lockstep
from rods.episode.engine import NeedText, Reply, Trace
from rods.episode.goals import GroundTruth
from rods.faults import LABELS, Label
from rods.tasks import Task
from tests.environments import load

DESK = load("desk")
TAGS = Tags()
LEDGER = {"accounts": {"cash": 100, "savings": 50, "taxes": 5}, "next": 20}
BILLS = {
    "i12": {"vendor": "falcon", "amount": 30, "paid": False},
    "i13": {"vendor": "titan", "amount": 9, "paid": True},
}


def move(**changes: Any) -> Call:
    return Call("transfer_money", {"amount": 20, "source": "cash", "target": "savings"} | changes)


LOOK = Call("get_balance", {"account": "cash"})
MOVE = move()
FIND = Call("find_bill", {"vendor": "falcon"})
PAY = Call("pay_bill", {"bill": "i12", "account": "cash"})
TASK = Task(
    reference(DESK),
    "base",
    (
        "Look up cash and move 20 from cash to savings.",
        "And what of taxes?",
        "Pay the bill of falcon from cash.",
    ),
    ((LOOK, MOVE), (), (FIND, PAY)),
    ("get_balance", "transfer_money", "find_bill", "pay_bill", "add_bill"),
    state={"ledger": LEDGER | {"bills": BILLS}},
)
MALFORMED = "<tool_call>[{"
UNKNOWN = Call("get_money", {"account": "cash"})
HIDDEN = Call("add_income", {"account": "cash", "amount": 5})
POOR = move(amount=900)  # refused: not enough money
NOWHERE = move(source="wallet")
Turn = Sequence[Call | str]
RIGHT: tuple[Turn, ...] = ((LOOK, MOVE), (), (FIND, PAY))


def played(
    *turns: Turn,
    task: Task = TASK,
    cut: Literal["", "length", "context", "infrastructure"] = "",
    max_steps: int = 20,
) -> Trace:
    """A scripted episode, a reply a call; a text stands for itself. The reply after the last of
    `turns` is `cut`."""
    replies = []
    for turn in turns:
        replies += [step if isinstance(step, str) else TAGS.write([step]) for step in turn] + [
            TAGS.answer("done")
        ]
    waiting = iter(replies)

    def complete(needs: Sequence[tuple[int, NeedText]]) -> list[Reply]:
        return [
            Reply(next(waiting, ""), "stop")
            if not cut or len(turns) > need.turn
            else Reply("", cut)
            for _, need in needs
        ]

    job = Job(task, DESK, TAGS, GroundTruth(DESK, task), max_steps=max_steps)
    (trace,) = run_lockstep([job], complete)
    return trace


def told(*turns: Turn, task: Task = TASK, **given: Any) -> tuple[Label, ...]:
    return diagnose(played(*turns, task=task, **given), task, DESK)


@pytest.mark.parametrize(
    ("turn", "label"),
    [
        ((LOOK, MOVE), "pass"),
        ((MALFORMED, UNKNOWN, POOR, LOOK, MOVE), "pass"),  # erred and recovered
        ((Call("get_balance", {}), LOOK, MOVE), "pass"),
        ((LOOK, MALFORMED), "invalid_tool_call"),
        ((LOOK, UNKNOWN), "invalid_tool_call"),
        ((LOOK, HIDDEN), "invalid_tool_call"),
        ((MALFORMED,), "invalid_tool_call"),  # rather than a turn without a call
        ((), "empty_turn_model_response"),
        ((Call("get_balance", {}), MOVE), "argument_mismatch"),
        ((LOOK, move(amount="twenty")), "argument_mismatch"),
        ((LOOK, move(fast=True)), "argument_mismatch"),
        ((UNKNOWN, Call("get_balance", {})), "invalid_tool_call"),  # before the argument
        ((Call("get_balance", {}), NOWHERE), "argument_mismatch"),  # before the refusal
        ((UNKNOWN, LOOK), "missing_tool_call"),  # what was meant was done then
        ((f'{MALFORMED}"get_balance"', LOOK), "missing_tool_call"),
        ((Call("get_balance", {}), LOOK), "missing_tool_call"),
        ((LOOK, NOWHERE), "recovery_failure"),
        # is there, and nobody named it
        ((Call("get_balance", {"account": "taxes"}), MOVE), "instance_mismatch"),
        ((LOOK, move(source="taxes", amount=5)), "instance_mismatch"),
        ((NOWHERE, LOOK, move(amount=30)), "state_mismatch"),  # before the refusal, in either order
        ((move(amount=30), LOOK, NOWHERE), "state_mismatch"),
        ((LOOK, move(amount=30)), "state_mismatch"),
        ((LOOK, MOVE, MOVE), "state_mismatch"),
        ((LOOK,), "missing_tool_call"),  # what ran did as it should
        ((LOOK, POOR), "recovery_failure"),  # it was refused, and nothing was done about it
        # it only looked again
        ((LOOK, Call("get_balance", {"account": "savings"}), POOR), "recovery_failure"),
        # a refusal that was in nothing's place
        ((LOOK, Call("find_bill", {"vendor": "nobody"})), "missing_tool_call"),
        ((MOVE,), "missing_tool_call"),
        # another stands for it
        ((Call("get_balance", {"account": "savings"}), MOVE), "response_mismatch"),
    ],
)
def test_a_turn_with_calls(turn: Turn, label: Label) -> None:
    assert told(turn, (), (FIND, PAY))[0] == label


@pytest.mark.parametrize(
    ("turn", "label"),
    [
        ((), "correct_abstention"),
        ((LOOK,), "spurious_tool_call"),
        ((NOWHERE,), "spurious_tool_call"),
        ((Call("get_balance", {}),), "argument_mismatch"),
        ((HIDDEN,), "invalid_tool_call"),
        ((LOOK, UNKNOWN), "invalid_tool_call"),
        ((MALFORMED,), "invalid_tool_call"),
    ],
)
def test_where_no_call_is_right(turn: Turn, label: Label) -> None:
    assert told((LOOK, MOVE), turn, (FIND, PAY)) == ("pass", label, "pass")


def test_a_refusal_that_is_made_good_in_a_later_turn_is_no_failure_to_recover() -> None:
    assert told((LOOK, NOWHERE), (), (FIND, PAY)) == (
        "recovery_failure",
        "correct_abstention",
        "pass",
    )
    assert told((LOOK, NOWHERE), (), (MOVE, FIND, PAY)) == (
        "missing_tool_call",
        "correct_abstention",
        "pass",
    )
    # 002 E.3
    assert (
        told((LOOK, NOWHERE), (), (move(source="taxes", amount=5), FIND, PAY))[0]
        == "recovery_failure"
    )
    assert told((LOOK, POOR), (), ())[2] == "empty_turn_model_response"


def test_a_turn_that_does_what_is_due_in_a_spoilt_state_passes() -> None:
    assert told((LOOK, MOVE, MOVE), (), (FIND, PAY)) == (
        "state_mismatch",
        "correct_abstention",
        "pass",
    )
    assert told((LOOK, MOVE, MOVE), (), (PAY,))[2] == "missing_tool_call"
    assert told((LOOK, MOVE, MOVE), (), (FIND, PAY, LOOK))[2] == "pass"
    assert told((LOOK, MOVE, MOVE), (), (FIND, PAY, MOVE))[2] == "state_mismatch"
    # what was due before is no change too many
    assert told((LOOK,), (), (MOVE, FIND))[2] == "missing_tool_call"


def test_a_target_is_known_from_whatever_was_shown() -> None:
    """i13 stands in no text; a bill of that id is there."""
    bills = {**BILLS, "i13": {"vendor": "titan", "amount": 9, "paid": False}}
    owing = replace(TASK, state={"ledger": LEDGER | {"bills": bills}}, id="")
    other = Call("pay_bill", {"bill": "i13", "account": "cash"})
    assert told((LOOK, MOVE), (), (FIND, other), task=owing)[2] == "instance_mismatch"
    said = replace(
        owing, script=(*TASK.script[:2], "Pay the bill of falcon from cash, and not i13."), id=""
    )
    assert told((LOOK, MOVE), (), (FIND, other), task=said)[2] == "state_mismatch"
    trace = played((LOOK, MOVE), (), (FIND, other), task=owing)
    # where nobody knows what was shown
    assert diagnose(replace(trace, messages=()), owing, DESK)[2] == "state_mismatch"


def test_a_text_of_one_word_is_no_target() -> None:
    """Targets are what the world looks up, or has named; what a mail says is neither."""
    task = Task(
        reference(DESK),
        "base",
        ("Write to box32 about the audit: good luck.",),
        ((Call("send_mail", {"address": "box32", "subject": "audit", "text": "good luck"}),),),
        ("send_mail",),
        state={"contacts": {"ines": {"address": "box32", "team": "design"}}},
    )
    for changed in ({"text": "hello"}, {"text": "hello there"}, {"subject": "inspection"}):
        call = Call(
            "send_mail", {"address": "box32", "subject": "audit", "text": "good luck"} | changed
        )
        assert told((call,), task=task) == ("state_mismatch",)


def test_a_target_made_up_while_it_is_being_looked_up_was_not_waited_for() -> None:
    """The address stands in a result of the same reply; a made-up one is taken as it comes."""
    find = Call("find_contact", {"name": "ines"})
    share = Call("share_file", {"file": "proposal", "address": "box32"})
    state = {
        "contacts": {"ines": {"address": "box32", "team": "design"}},
        "files": {
            "proposal": {"folder": "drafts", "text": "so be it", "locked": False, "shared": []}
        },
    }
    task = Task(
        reference(DESK),
        "base",
        ("Give ines the proposal.",),
        ((find, share),),
        ("find_contact", "share_file"),
        state=state,
    )
    made_up = TAGS.write([find, Call("share_file", {"file": "proposal", "address": "zibapupa"})])
    assert told((made_up,), task=task) == ("instance_mismatch",)
    assert told((TAGS.write([find, share]),), task=task) == ("pass",)


@pytest.mark.parametrize("end", ["length", "context", "infrastructure"])
def test_a_turn_that_was_cut_or_broken_has_no_label(end: Any) -> None:
    assert told((LOOK, MOVE), (), cut=end) == ("pass", "correct_abstention")
    assert told(cut=end) == ()


def test_a_turn_that_runs_into_the_limit_of_steps_is_the_policys() -> None:
    assert told((LOOK, LOOK, LOOK), max_steps=3) == ("missing_tool_call",)
    assert told((LOOK, MOVE, LOOK), max_steps=3) == ("response_mismatch",)  # it never answered
    assert told((LOOK, MALFORMED, LOOK), max_steps=3) == ("invalid_tool_call",)
    assert told((LOOK, MOVE), (LOOK, LOOK, LOOK), max_steps=3) == ("pass", "spurious_tool_call")
    assert told((LOOK, MOVE), (MALFORMED, MALFORMED, MALFORMED), max_steps=3) == (
        "pass",
        "invalid_tool_call",
    )


def test_an_error_that_the_ground_truth_meets_is_none_of_the_policys() -> None:
    refused = replace(TASK, calls=((LOOK, POOR, MOVE), (), (FIND, PAY)), id="")
    assert told((LOOK, POOR, MOVE), (), (FIND, PAY), task=refused)[0] == "pass"
    assert told((LOOK, POOR), (), (FIND, PAY), task=refused)[0] == "missing_tool_call"
    # not where the truth makes it
    assert told((POOR, LOOK), (), (FIND, PAY), task=refused)[0] == "recovery_failure"


def test_labels_survive_the_trace_file() -> None:
    for turns in [
        RIGHT,
        ((LOOK, NOWHERE), (LOOK,), (FIND,)),
        ((MALFORMED, '<tool_call>[{"a":]</tool_call>'), (), ()),
    ]:
        trace = played(*turns)
        again = Trace.from_json(orjson.loads(orjson.dumps(trace.as_json())))
        assert again.as_json() == trace.as_json()
        assert [step.in_call for turn in again.turns for step in turn.steps] == [
            step.in_call for turn in trace.turns for step in turn.steps
        ]
        assert diagnose(again, TASK, DESK) == diagnose(trace, TASK, DESK)


@pytest.mark.parametrize("broken", [None, [], {}, {"turns": 3}, {"turns": [{"steps": None}]}])
def test_what_is_no_trace_is_refused(broken: Any) -> None:
    with pytest.raises(ValueError, match="no trace: "):
        Trace.from_json(broken)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["bfcl", "desk"])
def test_a_scripted_policys_mistakes_are_always_found(world: str, wheel_file: object) -> None:
    """The full size is `python -m bench.diagnosis`."""
    found, _ = confusion(world, 20 * len(LABELS), random_seed=5)
    assert all(told == made for made, told in found), "\n".join(table(found))
    assert all(found[label, label] >= 12 for label in LABELS)
    assert found.total() > 22 * len(LABELS)  # several in one episode


def test_the_first_failing_turn_agrees_with_the_official_checker(wheel_file: object) -> None:
    """The full size is `python -m bench.diagnosis`."""
    agreed, failing, _ = agreement(60, random_seed=11)
    assert agreed == failing > 20
