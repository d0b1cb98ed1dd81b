"""Stage III: one answer words all turns, and no text is taken that drops a value or names a
function."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.fixtures.llm_stub import Stub
from rods.analysis.containment import Text
from rods.analysis.flows import Flow
from rods.calls import Call
from rods.composing.bind import spoken
from rods.composing.catalogue import Slot
from rods.composing.records import BoundCall, Draft, Plan, PlannedTurn
from rods.daemon.authors.llm.questions import Context
from rods.daemon.authors.llm.wording import form_faults, references, user_values, with_values
from rods.environments.base import Parameter, Result, Tool
from rods.tasks import Task
from tests.daemon.authors.llm.later import later
from tests.daemon.pipelines import seed, settings
from tests.environments import load

FORMS = [("batched", True), ("batched", False), ("per_turn", True), ("per_turn", False)]


@pytest.mark.parametrize(("calls", "structured"), FORMS)
async def test_one_call_words_all_turns_with_every_value_that_only_the_user_knows(
    stub: Stub, calls: str, structured: bool
) -> None:
    async with later(stub, structured=structured, calls=calls) as it:
        variant = await it.bench.variant(seed(), it.author)
    assert it.stages() == ["rewrite", "judge"]
    assert {call.constrained for call in it.calls} == {structured}
    assert all(text.startswith("Please see to this matter") for text in variant.script)
    for turn, flows in enumerate(variant.provenance["flows"]):
        for call, of in zip(variant.calls[turn], flows, strict=True):
            said = [call.arguments[name] for name, flow in of.items() if flow["source"] == "user"]
            assert all(Text.of(variant.script[turn]).contains_exact(value) for value in said)


async def test_a_dropped_value_is_told_to_the_model_and_the_rewrite_repeated(stub: Stub) -> None:
    async with later(stub, "forgetful") as it:
        variant = await it.bench.variant(seed(), it.author)
    assert (
        it.stages() == ["rewrite", "rewrite", "judge"]
        and "Please do what is due." not in variant.script
    )


async def test_what_a_call_finds_out_is_not_given_away(stub: Stub) -> None:
    root = seed("miss_func", 3)
    async with later(stub, "telltale", of=root) as it:
        variant = await it.bench.variant(root, it.author)
    assert it.stages()[:3] == ["rewrite", "rewrite", "judge"] and "by which I mean" not in " ".join(
        variant.script
    )


async def test_names_of_functions_are_worded_anew_whatever_the_gate_asks(stub: Stub) -> None:
    async with later(stub, "leaking") as it:
        it.bench.pipeline.config = settings(pipeline={"attempts": 1}, gates={"leaks": False})
        assert await it.bench.write(seed(), it.author) == "query_gen_failed"
    assert it.stages() == ["rewrite"] * 3


@pytest.mark.parametrize(
    ("habit", "error", "told"),
    [
        ("stubbornly_forgetful", "query_verify_failed", "must say"),
        ("leaking", "query_gen_failed", "names"),
        ("few", "query_gen_failed", "elements"),
    ],
)
async def test_a_rewrite_that_stays_wrong_is_a_typed_error_with_what_was_said(
    stub: Stub, habit: str, error: str, told: str
) -> None:
    async with later(stub, habit) as it:
        assert await it.bench.write(seed(), it.author) == error
    assert it.stages() == ["rewrite"] * 3
    rejection = it.bench.rejections[-1]
    assert (rejection.stage, rejection.error) == ("rewrite", error) and told in rejection.evidence[
        "detail"
    ]
    assert "queries" in json.loads(rejection.raw)["said"]


async def test_in_the_paper_s_form_the_rewrite_starts_from_turns_worded_one_by_one(
    stub: Stub,
) -> None:
    for calls, accepted in (("per_turn", True), ("batched", False)):
        async with later(stub, "comparing", calls=calls) as it:
            outcome = await it.bench.write(seed(), it.author)
        assert isinstance(outcome, Task) is accepted


@pytest.mark.parametrize("listed", [True, False])
def test_what_a_listing_of_this_turn_shows_among_others_is_said_once_more(listed: bool) -> None:
    """After the listing "that file" is not clear, and the name would count as taken from there."""
    look = BoundCall(
        Call("look", {}), Result("a.txt b.txt", {"files": ["a.txt", "b.txt"]}), {}, "look"
    )
    fill = BoundCall(
        Call("fill", {"file": "a.txt", "text": "well done"}),
        Result("ok", "ok"),
        recipe="fill",
        flows={"file": Flow("earlier"), "text": Flow("user")},
        slots={
            "file": Slot("file", "a.txt", thing=True, repeats=True),
            "text": Slot("text", "well done", value="well done"),
        },
    )
    parameters = [Parameter(name, {"type": "string"}) for name in ("file", "text")]
    tools = {
        "look": Tool("look", "Desk", "Looks.", ()),
        "fill": Tool("fill", "Desk", "Fills.", tuple(parameters)),
    }
    said = {value.value for value in user_values(tools, [look, fill] if listed else [fill])}
    assert said == {"well done", *(["a.txt"] if listed else [])}


def test_a_thing_with_a_rival_is_referred_to_by_what_the_user_called_it() -> None:
    """Two events of equal standing: "that event" means either, and only the title tells."""
    event = {"day": "tuesday", "room": "", "guests": []}
    events = {
        "e22": {"title": "workshop", "hour": 10, **event},
        "e23": {"title": "seminar", "hour": 15, **event},
    }
    state = {"today": "monday", "calendar": {"events": events, "next": 24}}
    told = {"workshop": "e22", "seminar": "e23"}
    calls = [
        [("find_event", {"title": title}, {"title": Flow("user")}) for title in told],
        [("book_room", {"event": "e23", "room": "maple"}, {"event": Flow("result", (0, 1))})],
    ]
    world = load("desk").reset(state)
    turns = tuple(
        tuple(
            BoundCall(
                Call(name, arguments),
                world.call(Call(name, arguments)),
                flows,
                name,
                {key: Slot(key, value, value=value) for key, value in arguments.items()},
            )
            for name, arguments, flows in turn
        )
        for turn in calls
    )
    plan = Plan((PlannedTurn((), ()), PlannedTurn((), ())))
    hints = references(load("desk").tools(), Draft(plan, state, turns), 1)
    assert hints == ([], ["seminar (event)"], []), "nobody says it so"


def test_who_is_met_as_a_sender_is_no_mail_box_and_an_event_beside_others_no_that_event() -> None:
    inbox = {"m1": {"sender": "box7", "subject": "audit", "text": "soon", "flagged": False}}
    events = {"e1": {"title": "fair", "day": "monday", "hour": 9, "room": "", "guests": []}}
    state = {
        "today": "monday",
        "mail": {"inbox": inbox, "sent": {}, "next": 4},
        "calendar": {"events": events, "next": 4},
    }
    world = load("desk").reset(state)
    user = Flow("user")

    def bound(name: str, arguments: dict[str, Any], flows: dict[str, Flow]) -> BoundCall:
        call = Call(name, arguments)
        slots = {key: Slot(key, str(value), value=value) for key, value in arguments.items()}
        flows = {**dict.fromkeys(arguments, user), **flows}
        return BoundCall(call, world.call(call), flows, name, slots)

    plan = Plan((PlannedTurn((), ()), PlannedTurn((), ())))
    turns = (
        (
            bound("search_mail", {"subject": "audit"}, {}),
            bound("read_mail", {"mail": "m1"}, {"mail": Flow("result", (0, 0))}),
            bound("create_event", {"title": "picnic", "day": "monday", "hour": 12}, {}),
            bound("list_day", {"day": "monday"}, {}),
        ),
        (
            bound(
                "send_mail",
                {"address": "box7", "subject": "fees", "text": "please pay"},
                {"address": Flow("result", (0, 1))},
            ),
            bound("book_room", {"event": "e4", "room": "maple"}, {"event": Flow("result", (0, 2))}),
        ),
    )
    hints, free, _ = references(load("desk").tools(), Draft(plan, state, turns), 1)
    assert hints == [] and free == ["box7 (sender)", "picnic (event)"]


def test_a_name_that_people_say_is_no_riddle_and_nothing_is_told_by_a_credential() -> None:
    """A copy beside its original; a card that was met with a pass."""
    tools = {
        name: Tool(name, "Any", "Does.", tuple(Parameter(each, {"type": "string"}) for each in own))
        for name, own in (
            ("copy", ("file", "new")),
            ("open", ("file",)),
            ("add", ("holder", "token")),
        )
    }
    user = Flow("user")

    def bound(name: str, result: Any, flow: Flow, **arguments: str) -> BoundCall:
        slots = {key: Slot(key, value, value=value) for key, value in arguments.items()}
        flows = dict.fromkeys(arguments, flow)
        return BoundCall(Call(name, arguments), Result("", result), flows, name, slots)

    first = (
        bound("copy", None, user, file="risks_2021.md", new="risks_checked.md"),
        bound("copy", None, user, file="risks_2021.md", new="risks_final.md"),
        bound("add", {"card": "card_9772"}, user, holder="Ines Sandoval", token="pass6145"),
        bound("add", {"card": "card_1234"}, user, holder="Hugo Ibarra", token="pass6145"),
    )
    earlier = Flow("earlier")
    held = {"card_1234": "Hugo Ibarra", "card_0365": "Ines Sandoval"}
    for value, state, hints in (
        ("risks_checked.md", {}, ([], [], ["risks_checked.md"])),
        ("card_9772", {}, ([], ["Ines Sandoval (card)"], [])),
        ("card_9772", held, (["the new card"], [], [])),  # her name is that of two
    ):
        again = replace(bound("open", None, earlier, file=value), slots={})
        plan = Plan((PlannedTurn((), ()), PlannedTurn((), ())))
        assert references(tools, Draft(plan, state, (first, (again,))), 1) == hints


def test_what_an_earlier_turn_said_may_be_referred_to_and_no_number_is_what_a_thing_goes_by() -> (
    None
):
    tools = {
        name: Tool(name, "Travel", "Books.", (Parameter("goal", {"type": "string"}),))
        for name in ("price", "book")
    }
    slot = Slot("goal", "CRH", value="CRH")
    turns = tuple(
        (
            BoundCall(
                Call(name, {"goal": "CRH"}),
                Result("ok", 1),
                {"goal": Flow("user")},
                name,
                {"goal": slot},
            ),
        )
        for name in tools
    )
    draft = Draft(Plan((PlannedTurn((), ()), PlannedTurn((), ()))), {}, turns)
    environment = SimpleNamespace(tools=lambda: tools)
    context = cast(
        Context, SimpleNamespace(environment=environment, catalogue=SimpleNamespace(named={}))
    )
    first, then = (with_values(context, draft, draft, turn).splitlines() for turn in (0, 1))
    assert 'must say: "CRH"' in first
    assert 'say again, or refer to: "CRH"' in then and 'must say: "CRH"' not in then


def test_a_line_break_may_stand_in_a_value_that_must_be_said_and_nowhere_else() -> None:
    text = "ten eggs\nsome flour"
    call = Call("write_file", {"file": "list", "text": text})
    calls = [BoundCall(call, Result("ok", "ok"), {}, "write_file")]
    assert form_faults(load("desk"), calls, f"Write '{text}' into the list.") == []
    assert form_faults(load("desk"), calls, f"Write '{text}'\ninto the list.") != []


def test_an_option_that_a_description_lists_is_said_in_a_user_s_own_words() -> None:
    mode = Parameter("mode", {"type": "string"}, description="One of w, l.", options=("w", "l"))
    tools = {"count": Tool("count", "Desk", "Counts.", (mode,))}
    slots = {"mode": Slot("mode", "w", value="w")}
    bound = BoundCall(
        Call("count", {"mode": "w"}), Result("3", 3), {"mode": Flow("user")}, "count", slots
    )
    (value,) = user_values(tools, [bound])
    assert value.free and value.coded
    plain = replace(value, slot=Slot("mode", "words", value="w"))
    assert not plain.coded, "a word of its list is said as it is"


def test_what_a_list_of_objects_holds_is_to_be_said_and_what_tells_a_tool_from_others() -> None:
    tool = Tool("plan", "Plans", "Plans.", (Parameter("tasks", {"type": "array"}),))
    tasks = [{"title": "Pack books", "days": 2}, {"title": "Book a van", "days": 1}]
    slot = Slot("plan.tasks", spoken(tasks), value=tasks)
    call = BoundCall(
        Call("plan", {"tasks": tasks}),
        Result("done", None),
        {"tasks": Flow("user")},
        "plan",
        {"tasks": slot},
    )
    draft = Draft(Plan((PlannedTurn(("plan",), ("plan",)),)), {}, ((call,),))
    named = {"plan": ("planner", "to do")}
    for words, more in (({}, ""), (named, ', "planner"')):
        environment = SimpleNamespace(tools=lambda: {"plan": tool})
        context = SimpleNamespace(environment=environment, catalogue=SimpleNamespace(named=words))
        told = with_values(cast(Context, context), draft, draft, 0)
        assert f'must say: "Pack books", "2", "Book a van", "1"{more}' in told.splitlines()
