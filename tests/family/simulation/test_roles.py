"""What the roles of a simulated environment are asked and told, and what is made of their
answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rods.analysis.schemas import Checker
from rods.asking import Question, Unreadable
from rods.calls import Call
from rods.conversations import RUBRIC_LEVELS
from rods.episode.engine import Outcome
from rods.family.simulation import roles
from rods.family.simulation.difficulty import RANGES, Levels
from rods.family.simulation.generating import CRITERIA, DrawnTask, brings, said
from rods.family.simulation.ledger import ToolAnswer
from rods.family.simulation.repository import shipped
from rods.family.simulation.roles import Assessment, verdict
from rods.prompts import load
from tests.family.questions import messages
from tests.family.simulation.conversations import again

TOOLS = [shipped().tools[name].tool for name in ("book_flight", "cancel_flight_booking")]
HARD = Levels(tools=2, calls=2, turns=2, system=3, persona=2, ambiguity=2, criteria=4)
BOOKED = {"flight_id": "FL-1234", "passenger": "Nora Lindqvist", "cabin": "economy"}
TASK = DrawnTask(
    levels=HARD,
    category="travel",
    tools=tuple(tool.name for tool in TOOLS),
    calls=(Call("book_flight", BOOKED),),
    intent="The zebra wants a seat.",
    first_query="Hello, a flight please.",
    further=(),
    knows={"passenger": "okapi"},
    hidden=("passenger",),
    manner="gruff as a walrus",
    criteria=CRITERIA,
)
TALK = roles.Past([("Hello, a flight please.", "")])
ROLES: dict[str, Callable[..., Question[Any]]] = {
    "simulated_tool": lambda **more: roles.ask_tool(
        TASK, TOOLS, TALK, Call("book_flight", BOOKED), **more
    ),
    "simulated_user": lambda **more: roles.ask_user(TASK, TOOLS, TALK, **more),
    "simulated_verifier": lambda **more: roles.ask_verifier(TASK, TOOLS, TALK, **more),
}
SENTINELS = {
    "intent": ("zebra",),
    "persona": ("walrus",),
    "expected": ('"arguments":{"flight_id"',),
}


def sent(question: Question[Any]) -> str:
    """All that goes out, in either way of answering, with what the answer is held to."""
    every = [
        one for constrained in (True, False) for one in messages(question, constrained=constrained)
    ]
    return "\n".join(one["content"] for one in every) + json.dumps(question.form.schema(300))


def answered(question: Question[Any], **fields: Any) -> Any:
    return question.read(
        question.form.read(json.dumps({"reason": "so", **fields}), constrained=True)
    )


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"status": "error", "message": "no seat is left"}, "refused"),
        ({"booking": "B-1", "result": {"error": "no seat is left"}}, "refused"),
        ({"error": "no seat is left"}, "refused"),
        ({"success": False}, "refused"),
        ({"booking": "B-1", "error": None}, "ok"),
        ({"title": "Error handling"}, "ok"),
        ({"status": "booked"}, "ok"),
    ],
)
def test_a_failure_that_a_player_tells_as_a_result_is_a_refusal(
    value: dict[str, Any], status: str
) -> None:
    tools = [replace(TOOLS[0], result=None), TOOLS[1]]
    question = roles.ask_tool(TASK, tools, TALK, Call("book_flight", BOOKED))
    answer = answered(question, status="ok", result=value)
    assert (answer.status, answer.result().error is None) == (status, status == "ok")
    fields = {"type": "object", "properties": {key: {} for key in value}}
    tools = [replace(TOOLS[0], result=fields), TOOLS[1]]
    question = roles.ask_tool(TASK, tools, TALK, Call("book_flight", BOOKED))
    assert answered(question, status="ok", result=value).status == "ok", "a field of its document"


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_its_part_and_nothing_that_is_hidden(role: Any) -> None:
    def without(hidden: str) -> Question[Any]:
        return ROLES[role](information=set(SENTINELS) - {hidden})

    for information, marks in SENTINELS.items():
        if role == "simulated_tool" and information == "expected":
            continue  # the call itself is of that form
        whole = sent(ROLES[role]())
        less = without(information)
        for mark in marks:
            assert (mark in whole) == (information in roles.INFORMATION[role])
            assert mark not in sent(less) and mark not in str(less.fields)
    # what a user knows is its wish in detail
    assert ("okapi" in sent(ROLES[role]())) == (role != "simulated_tool")
    assert "okapi" not in sent(without("intent")) + str(without("intent").fields)
    assert TALK.conversation() in sent(ROLES[role](information=())) and "book_flight" in sent(
        ROLES[role]()
    )


def test_every_level_has_its_words() -> None:
    sections = load("simulation_levels").sections
    for dimension in ("system", "turns", "persona", "ambiguity"):
        low, high = RANGES[dimension]
        assert {f"{dimension}_{level}" for level in range(low, high + 1)} == {
            name for name in sections if name.startswith(f"{dimension}_")
        }
    assert set(CRITERIA) <= sections.keys() and len(CRITERIA) == RANGES["criteria"][1] + 1
    lengths = [len(sections[f"system_{level}"]) for level in range(4)]
    assert (
        lengths == sorted(lengths, reverse=True)
        and lengths[0] > 1_000 > lengths[1] > 200 > lengths[2]
    )
    assert said("system_3").strip() == "You are a helpful assistant."


RESULT = {**BOOKED, "booking_id": "BKG-12345", "bags": 0, "status": "confirmed", "total": 99.0}


def test_a_tool_s_answer_is_a_result_or_a_refusal() -> None:
    ask = ROLES["simulated_tool"]()
    assert answered(ask, status="ok", result=RESULT) == ToolAnswer("ok", RESULT)
    assert answered(ask, status="not_found", message=" no ") == ToolAnswer("not_found", {}, "no")
    with pytest.raises(Unreadable, match='result is missing, which "ok" needs'):
        answered(ask, status="ok")
    with pytest.raises(Unreadable, match="result in total: must be of type number"):
        answered(ask, status="ok", result={**RESULT, "total": "much"})
    with pytest.raises(Unreadable, match="status must be one of"):
        answered(ask, status="perhaps")
    tagged = f"<reason>x</reason><status>ok</status><result>{json.dumps(RESULT)}</result>"
    assert ask.read(ask.form.read(tagged, constrained=False)) == ToolAnswer("ok", RESULT)


def test_a_tool_with_a_ledger_is_told_what_was_shown_and_what_was_wrong() -> None:
    plain = ROLES["simulated_tool"]()
    known = ROLES["simulated_tool"](known=[{"flight": "x1"}])
    assert known.sections == ("intent", "known") and plain.sections == ("intent",)
    assert '{"flight":"x1"}' in sent(known)
    assert "no such id" in sent(again(known, "no such id"))
    assert "nothing that you say may contradict" not in sent(plain)


def test_an_empty_message_of_the_user_ends_the_conversation() -> None:
    ask = ROLES["simulated_user"]()
    assert answered(ask, message="  ") == "" and answered(ask, message=" At 15. ") == "At 15."
    assert (
        ask.read(ask.form.read("<reason>done</reason><message></message>", constrained=False)) == ""
    )
    with pytest.raises(Unreadable, match="message has 2001 characters"):
        answered(ask, message="x" * 2_001)


def test_a_verdict_follows_from_the_criteria() -> None:
    ask = ROLES["simulated_verifier"]()
    all_met = dict.fromkeys(CRITERIA, "met")
    assert answered(ask, **all_met, severe="no") == Assessment(1, CRITERIA, (), "so")
    assert answered(ask, **{**all_met, "efficiency": "missed"}, severe="no").verdict == 0
    assert answered(ask, **all_met, severe="yes").verdict == -1
    with pytest.raises(Unreadable, match="severe is missing"):
        answered(ask, **all_met)
    tags = "".join(f"<{name}>met</{name}>" for name in CRITERIA) + "<severe>no</severe>"
    assert ask.read(ask.form.read(tags, constrained=False)).verdict == 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (("partly",), 0),
        (("missed",), -1),
        (("met", "partly"), 0),
        (("partly", "partly"), 0),
        (("partly", "missed"), -1),
        (("met", "met", "partly", "missed", "missed"), 0),
        (("met", "partly", "missed", "missed", "missed"), -1),
    ],
)
def test_what_is_met_in_part_makes_a_verdict_neutral_however_few_criteria_count(
    found: Any, expected: int
) -> None:
    criteria = CRITERIA[: len(found)]
    ask = roles.ask_verifier(replace(TASK, criteria=criteria), TOOLS, TALK)
    given = dict(zip(criteria, found, strict=True))
    judged = answered(ask, **given, severe="no")
    assert judged.verdict == expected
    assert judged.partly == tuple(name for name in criteria if given[name] == "partly")
    assert answered(ask, **given, severe="yes").verdict == -1 and '"partly"' in sent(ask)


@pytest.mark.parametrize(
    ("met", "of", "expected"),
    [(1, 1, 1), (0, 1, -1), (1, 2, -1), (2, 3, 0), (2, 4, -1), (3, 4, 0), (3, 5, 0), (2, 5, -1)],
)
def test_most_criteria_are_more_than_half(met: int, of: int, expected: int) -> None:
    assert verdict(met, of, severe=False) == expected


def test_criteria_come_one_by_one() -> None:
    asked = roles.ask_verifier(replace(TASK, criteria=CRITERIA[:2]), TOOLS, TALK)
    assert set(asked.form.fields) == {
        "intent",
        "expected_tools",
        "severe",
    } and "efficiency" not in sent(asked)


def test_without_a_call_nobody_is_asked() -> None:
    call = SimpleNamespace(calls=["any"], error=None)
    unread = SimpleNamespace(calls=[], error="no call")

    def verdict(*steps: Any) -> Any:
        trace: Any = SimpleNamespace(turns=[SimpleNamespace(steps=steps)])
        return roles.without_asking(trace)

    assert verdict(SimpleNamespace(calls=[], error=None)) == Outcome(
        0, RUBRIC_LEVELS, ("no tool was called",)
    )
    assert verdict(call, unread) == Outcome(0, RUBRIC_LEVELS, ("a reply could not be read",))
    assert verdict(call) is None


def errand(**other: Any) -> dict[str, Any]:
    return {
        "intent": "Nora wants a seat on FL-1234.",
        "first_query": "Please get me on flight FL-1234.",
        "manner": "brisk",
        "knows": [
            {"topic": "passenger", "words": "Nora Lindqvist"},
            {"topic": "cabin", "words": "economy"},
        ],
        "calls": [
            {"name": "book_flight", "arguments": BOOKED},
            {"name": "cancel_flight_booking", "arguments": {"booking_id": "BKG-00001"}},
        ],
        **other,
    }


def booking(**changes: Any) -> dict[str, Any]:
    return {"name": "book_flight", "arguments": {**BOOKED, **changes}}


def test_a_generator_s_task_is_read() -> None:
    ask = roles.ask_for_task(shipped(), TOOLS, HARD)
    task = answered(ask, **errand())
    assert task.calls[0] == Call("book_flight", BOOKED) and task.hidden == ("passenger", "cabin")
    assert task.levels == HARD and task.criteria == CRITERIA and task.category == "travel"
    assert "2 calls" in sent(ask) and "novice" in sent(ask) and "Flights, trains" in sent(ask)
    assert "too vague" in sent(again(ask, "too vague"))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"calls": []}, "calls must be a list of 2"),
        ({"calls": [booking()]}, "calls must be a list of 2"),
        ({"calls": [{"name": "fly"}, booking()]}, "there is no tool 'fly'"),
        (
            {"calls": [{"name": "book_flight", "arguments": {"cabin": "economy"}}] * 2},
            "of book_flight: lacks",
        ),
        ({"calls": [booking(cabin="roof"), booking()]}, "in cabin: must be one of"),
        ({"calls": ["book", "book"]}, "calls: a call needs"),
        ({"knows": []}, "call 1 needs 'Nora Lindqvist', which is neither said nor known"),
        (
            {"calls": [booking(), booking(passenger="Ada Brook")]},
            "call 2 needs 'Ada Brook', which is neither said nor known",
        ),
        (
            {
                "calls": [
                    {"name": "cancel_flight_booking", "arguments": {"booking_id": "BKG-00001"}},
                    booking(),
                ]
            },
            "call 1 needs 'BKG-00001', .* and no earlier call returns a booking_id",
        ),
        (
            {"first_query": "Please get me on flight FL-1234, economy, as Nora Lindqvist."},
            "the first message says 3 of 3 values, and should say 1",
        ),
        (
            {
                "first_query": "Please get me on flight FL-1234.",
                "knows": [{"topic": "passenger", "words": "Nora Lindqvist"}],
            },
            "call 1 needs 'economy', which is neither said nor known",
        ),
        ({"first_query": ""}, "first_query has 0 characters"),
    ],
)
def test_a_task_that_makes_no_sense_is_told_why(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(Unreadable, match=told):
        answered(roles.ask_for_task(shipped(), TOOLS, HARD), **errand(**wrong))


def test_a_value_may_be_said_in_words_that_are_quoted() -> None:
    ask = roles.ask_for_task(shipped(), TOOLS, replace(HARD, calls=1, ambiguity=1))
    query = "Get me on flight FL-1234, nothing fancy."
    knows = [
        {"topic": "name", "words": "Nora Lindqvist"},
        {"topic": "weight", "words": "not too much"},
    ]
    said = [{"value": "economy", "words": "nothing fancy"}, {"value": 2, "words": "not too much"}]
    given = errand(first_query=query, knows=knows, calls=[booking(bags=2)], said=said)
    task = answered(ask, **given)
    # what they mean is known, and no part of what the first message hides
    assert task.knows["nothing fancy"] == "economy" and task.knows["not too much"] == "2"
    assert task.hidden == ("name", "weight")
    with pytest.raises(Unreadable, match=r"call 1 needs 2, .*quoted in \"said\""):
        answered(ask, **{**given, "said": said[:1]})
    with pytest.raises(Unreadable, match="call 1 needs 2, "):  # nobody says that
        answered(ask, **{**given, "said": [said[0], {"value": 2, "words": "a pair"}]})
    with pytest.raises(Unreadable, match="says 4 of 4 values, and should say 3"):
        whole = f"{query} The name is Nora Lindqvist, and it is not too much."
        answered(ask, **{**given, "first_query": whole})


def test_one_phrase_may_stand_for_two_values() -> None:
    ask = roles.ask_for_task(shipped(), TOOLS, replace(HARD, calls=1, ambiguity=1))
    query = "Get me on flight FL-1234, the plain way for a couple."
    knows = [{"topic": "name", "words": "Nora Lindqvist"}]
    said = [{"value": value, "words": "the plain way for a couple"} for value in ("economy", 2)]
    given = errand(first_query=query, knows=knows, calls=[booking(bags=2)], said=said)
    assert answered(ask, **given).knows["the plain way for a couple"] == "economy, 2"


def test_nothing_is_expected_of_a_thing_that_an_earlier_call_removes() -> None:
    tools = [shipped().tools[name].tool for name in ("delete_task", "set_task_state")]
    ask = roles.ask_for_task(shipped(), tools, replace(HARD, ambiguity=0, turns=0))
    calls = [
        {"name": "set_task_state", "arguments": {"task_id": "TSK-05774", "state": "done"}},
        {"name": "delete_task", "arguments": {"task_id": "TSK-05774"}},
    ]
    query = "Say that TSK-05774 is done, and drop it."
    given = errand(first_query=query, knows=[], calls=calls)
    assert len(answered(ask, **given).calls) == 2
    with pytest.raises(Unreadable, match="call 2 is about the task that an earlier call removes"):
        answered(ask, **{**given, "calls": calls[::-1]})


def test_all_that_nobody_says_is_told_at_once() -> None:
    ask = roles.ask_for_task(shipped(), TOOLS, HARD)
    with pytest.raises(Unreadable, match=r"'Nora Lindqvist'.*; call 1 needs 'economy'"):
        answered(ask, **errand(knows=[]))


def test_whoever_invents_an_errand_knows_what_calls_return() -> None:
    asked = roles.ask_for_task(shipped(), TOOLS, HARD).fields
    booked = json.loads(asked["tools"].splitlines()[0])
    assert "booking_id" in booked["returns"] and booked["name"] == "book_flight"


@pytest.mark.parametrize(("calls", "ambiguity", "turns"), [(1, 0, 0), (1, 1, 2), (2, 0, 2)])
def test_one_call_with_all_that_it_needs_is_asked_for_without_back_and_forth(
    calls: int, ambiguity: int, turns: int
) -> None:
    levels = replace(HARD, calls=calls, ambiguity=ambiguity)
    asked = roles.ask_for_task(shipped(), TOOLS, levels).fields["turns"]
    assert asked == said(f"turns_{turns}")


def test_what_is_left_out_of_the_first_message_may_be_a_paraphrased_value() -> None:
    ask = roles.ask_for_task(shipped(), TOOLS, replace(HARD, ambiguity=1))
    whole = "Please get me on flight FL-1234 as Nora Lindqvist, in a good cabin."
    knows = [{"topic": "cabin", "words": "the cheap one"}]
    said = [{"value": "economy", "words": "the cheap one"}]
    assert answered(ask, **errand(first_query=whole, knows=knows, said=said)).first_query == whole
    with pytest.raises(Unreadable, match="says 3 of 3 values, and should say 2"):
        query = f"{whole} The cheap one will do."
        answered(ask, **errand(first_query=query, knows=knows, said=said))


def test_a_clear_first_message_says_all_that_the_calls_need() -> None:
    ask = roles.ask_for_task(shipped(), TOOLS, replace(HARD, ambiguity=0, turns=0))
    with pytest.raises(Unreadable, match="leaves something out that the calls need"):
        answered(ask, **errand())
    whole = "Please get me on flight FL-1234, economy, as Nora Lindqvist, and then drop it."
    assert answered(ask, **errand(first_query=whole)).first_query == whole


def test_a_result_brings_what_its_document_has_by_name_or_pattern() -> None:
    book, cancel = TOOLS
    booked = cancel.by_name["booking_id"]
    assert brings(book, booked) and brings(book, replace(booked, name="code"))
    assert not brings(book, replace(booked, name="code", schema={"type": "string"}))
    assert brings(replace(book, result=None), booked)
    listed = replace(booked, name="codes", schema={"type": "array", "items": booked.schema})
    assert brings(book, listed)


def test_what_tools_have_to_do_with_is_one_sentence() -> None:
    hotels = [shipped().of("lodging")[0].tool, TOOLS[0]]
    asked = roles.ask_for_task(shipped(), hotels, HARD).fields["area"]
    assert (
        asked
        == "Hotels, rooms, and reservations of stays; Flights, trains and the bookings of a trip"
    )


def test_tools_are_told_what_an_earlier_call_has_to_find() -> None:
    found = [Call("book_flight", {"flight_id": "FL-7777"})]
    assert "FL-7777" in sent(ROLES["simulated_tool"](found=found))
    assert "FL-7777" not in sent(ROLES["simulated_tool"](found=found, information=()))
    assert "whatever it is" in sent(ROLES["simulated_verifier"]())


def test_the_answer_of_every_role_is_held_to_a_valid_schema() -> None:
    questions: list[Question[Any]] = [
        roles.ask_for_task(shipped(), TOOLS, HARD),
        *(ask() for ask in ROLES.values()),
    ]
    for question in questions:
        schema = question.form.schema(300)
        assert Checker(schema).broken == ""
        assert all(each["required"][0] == "reason" for each in schema.get("anyOf", [schema]))
