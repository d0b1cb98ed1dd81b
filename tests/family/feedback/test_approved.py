"""Texts that agents wrote, as they are shown: beside a refusal or in its place, and hints by rule
for all else."""

from __future__ import annotations

import pickle

import orjson

from rods import interfaces
from rods.calls import Call
from rods.config import Stage
from rods.environments.base import Result
from rods.family.feedback.hints import Approved, ApprovedText, Hints
from rods.interfaces import Identity, Shown, beside
from tests.environments import load

TEXT = "The event may have to be looked up before, as find_event does."
WRITTEN = ApprovedText("desk", "move_event", "no such event", TEXT)
STAGE = Stage(feedback="agents")
MOVE = Call("move_event", {"event": "e99", "day": "monday", "hour": 9})


def shown(*hidden: str) -> Shown:
    world = load("desk")
    return Shown(world, {name: tool for name, tool in world.tools().items() if name not in hidden})


def answered(approved: Approved, call: Call = MOVE, *hidden: str) -> Result:
    result = load("desk").reset(None).call(call)
    return interfaces.load(STAGE, "tags", {"feedback": approved}).observation(
        shown(*hidden), call, result
    )


def test_a_text_stands_beside_the_refusal_or_in_its_place() -> None:
    beside = answered(Approved((WRITTEN,)))
    assert (
        orjson.loads(beside.text) == {"error": "no such event", "hint": TEXT}
        and beside.error == "tool"
    )
    instead = answered(Approved((WRITTEN,), in_place=True))
    assert (
        orjson.loads(instead.text) == {"error": TEXT} == instead.value and instead.error == "tool"
    )


def test_whatever_has_no_text_is_answered_by_rule() -> None:
    for approved in (Approved(), Approved((WRITTEN,)), Approved((WRITTEN,), in_place=True)):
        for call in (
            Call("move_event", {}),
            Call("open_window", {}),
            Call("read_file", {"file": "x"}),
        ):
            result = load("desk").reset(None).call(call)
            assert answered(approved, call) == Hints().observation(shown(), call, result)
    elsewhere = Approved((ApprovedText("bfcl", "move_event", "no such event", TEXT),))
    assert answered(elsewhere) == answered(Approved())


def test_a_text_that_names_a_tool_which_is_held_out_is_not_shown() -> None:
    assert TEXT not in answered(Approved((WRITTEN,)), MOVE, "find_event").text


def test_a_text_that_was_tried_for_a_refusal_comes_before_any_other_hint() -> None:
    """An interface of one's own that hints, too, gives way; what no agent wrote about is left to
    it."""
    stage = Stage(feedback="agents", interface=f"{__name__}:Hinting")
    result = load("desk").reset(None).call(MOVE)
    for texts, said in ((Approved((WRITTEN,)), TEXT), (Approved(), "my own")):
        shown_now = interfaces.load(stage, "tags", {"feedback": texts}).observation(
            shown(), MOVE, result
        )
        assert orjson.loads(shown_now.text) == {"error": "no such event", "hint": said}


class Hinting(Identity):
    version = "hinting"

    def observation(self, shown: Shown, call: Call, result: Result) -> Result:
        return beside(result, "my own")


def test_a_version_names_texts_and_form_and_all_versions_have_one_lineage() -> None:
    other = ApprovedText(
        "desk", "pay_bill", "no such bill", "Bills may have to be looked up before."
    )
    one = Approved((WRITTEN,))
    both = Approved((WRITTEN, other))
    turned = Approved((other, WRITTEN))
    placed = Approved((WRITTEN,), in_place=True)
    assert (
        both.version == turned.version
        and len({one.version, both.version, placed.version, Approved().version}) == 4
    )
    first, second = (interfaces.load(STAGE, "tags", {"feedback": texts}) for texts in (one, both))
    assert first.version != second.version and first.lineage == second.lineage != first.version
    assert interfaces.load(STAGE, "tags", {"feedback": placed}).lineage != first.lineage


def test_approved_texts_travel_between_processes() -> None:
    one = Approved((WRITTEN,))
    assert pickle.loads(pickle.dumps(one)) == one
    assert pickle.loads(pickle.dumps(one)).find("desk", "move_event", "no such event") == TEXT
