"""The stand-in for a model plays the roles of a simulated environment: what it says can be read and
makes sense."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import pytest

from bench.fixtures.llm_stub import faulty_players as faulty, players
from rods.asking import Question, Unreadable
from rods.calls import Call
from rods.environments.base import Result
from rods.family.simulation import roles
from rods.family.simulation.difficulty import levels
from rods.family.simulation.generating import DrawnTask, draw_task
from rods.family.simulation.ledger import Ledger, ToolAnswer
from rods.family.simulation.repository import shipped
from rods.family.simulation.roles import Past
from rods.family.simulation.settings import DifficultyRules
from tests.family.questions import messages
from tests.family.simulation.conversations import again

T = TypeVar("T")
REPOSITORY = shipped()
WAYS = pytest.mark.parametrize("constrained", [True, False])
HARDEST = levels(DifficultyRules(adaptive=False), 1, 0, 0, 0)
TRIES = 4
SENSIBLE = players.answer


def ask(question: Question[T], *, constrained: bool = True, answer: Any = SENSIBLE) -> T:
    """The answer to a question as it goes over the wire. Raises Unreadable."""
    request: dict[str, Any] = {"messages": messages(question, constrained=constrained)}
    if constrained:
        schema = question.form.schema(300)
        request["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    return question.read(question.form.read(answer(request), constrained=constrained))


def drawn(number: int, difficulty: int = 100) -> DrawnTask:
    return draw_task(
        REPOSITORY, levels(DifficultyRules(soft=0.0), difficulty, 3, number, 0), 3, number, 0
    )


def tools(task: DrawnTask) -> list[Any]:
    return [REPOSITORY.tools[name].tool for name in task.tools]


@WAYS
def test_its_errands_are_tasks_over_the_tools_in_question(constrained: bool) -> None:
    failed = 0
    for number in range(30):
        like = drawn(number, 1 + 3 * number)
        problem = ""
        for _ in range(TRIES):
            try:
                task = ask(
                    again(roles.ask_for_task(REPOSITORY, tools(like), like.levels), problem),
                    constrained=constrained,
                )
                break
            except Unreadable as error:
                problem = str(error)
                failed = failed + 1
        assert 1 <= len(task.calls) <= like.levels.calls and task.intent and task.first_query
    assert failed <= 3


@WAYS
def test_its_tools_answer_in_their_form_and_agree_with_what_was_shown(constrained: bool) -> None:
    """With a ledger's sentences every call gets an answer that can be shown, nearly always at
    once."""
    asked = mended = 0
    for number in range(20):
        task = drawn(number)
        ledger = Ledger(REPOSITORY.tools)
        for call in [*task.calls, *task.calls]:
            if (known := ledger.known(call)) is not None:
                ledger.record(call, known)
                continue
            problem = ""
            for _ in range(TRIES):
                question = roles.ask_tool(task, tools(task), Past(), call, known=ledger.things())
                answer = ask(again(question, problem), constrained=constrained)
                if not (found := ledger.contradictions(call, answer)):
                    break
                problem = "; ".join(found)
                mended = mended + 1
            asked += 1
            ledger.record(call, answer)
    assert asked > 40 and mended <= asked / 2


def test_a_call_comes_back_as_it_was_given_and_what_was_removed_is_gone() -> None:
    task = drawn(0)
    call = Call(
        "book_flight", {"flight_id": "FL-1234", "passenger": "Nora Lindqvist", "cabin": "economy"}
    )
    offered = [REPOSITORY.tools[name].tool for name in ("book_flight", "cancel_flight_booking")]
    booked = ask(roles.ask_tool(task, offered, Past(), call))
    assert booked.status == "ok" and call.arguments.items() <= booked.value.items()
    cancel = Call("cancel_flight_booking", {"booking_id": booked.value["booking_id"]})
    known = [{"booking": booked.value}]
    assert (
        ask(roles.ask_tool(task, offered, Past(), cancel, known=known)).value["passenger"]
        == "Nora Lindqvist"
    )
    gone = [{"booking": booked.value["booking_id"], "there": False}]
    assert ask(roles.ask_tool(task, offered, Past(), cancel, known=gone)).status == "not_found"


@WAYS
def test_its_user_tells_what_it_is_asked_for_and_ends_when_it_is_asked_nothing(
    constrained: bool,
) -> None:
    task = draw_task(REPOSITORY, replace(HARDEST, calls=1, turns=0), 3, 1, 0)
    topic, words = next((name, each) for name, each in task.knows.items() if name in task.hidden)
    talk = Past([(task.first_query, f"What about the {topic}?")])
    assert words in ask(roles.ask_user(task, tools(task), talk), constrained=constrained)
    assert words not in ask(
        roles.ask_user(task, tools(task), talk, information=["persona"]), constrained=constrained
    )
    answered = replace(talk, talk=[*talk.talk, (words, "Done.")])
    assert ask(roles.ask_user(task, tools(task), answered), constrained=constrained) == ""
    assert ask(
        roles.ask_user(task, tools(task), Past([("Please.", "Done.")])), answer=faulty.endless
    )


def test_its_user_makes_one_request_after_the_other() -> None:
    several = [task for task in map(drawn, range(20)) if task.further]
    assert len(several) > 5
    for task in several:
        said = [(task.first_query, "That is done.")]
        for wanted in task.further:
            text = ask(roles.ask_user(task, tools(task), Past(said)))
            told = [
                value
                for call in task.calls
                for value in call.arguments.values()
                if str(value) in wanted
            ]
            assert all(str(value) in text for value in told), (wanted, text)
            said.append((text, "That is done."))
        assert ask(roles.ask_user(task, tools(task), Past(said))) == ""


@WAYS
@pytest.mark.parametrize("information", [["intent", "persona", "expected"], ["intent", "persona"]])
def test_its_verifier_holds_what_was_done_against_what_was_wished_for(
    constrained: bool, information: Any
) -> None:
    for number in range(12):
        task = drawn(number)

        def judged(calls: tuple[Call, ...], task: DrawnTask = task) -> roles.Assessment:
            said = [
                *((words, "") for words in [task.first_query, *task.knows.values()]),
                ("", "Done."),
            ]
            past = Past(said, [(1, call, Result("{}")) for call in calls])
            question = roles.ask_verifier(task, tools(task), past, information)
            return ask(question, constrained=constrained)

        assert judged(task.calls).verdict == 1
        invented = tuple(
            Call(call.name, dict.fromkeys(call.arguments, "zebra 77")) for call in task.calls
        )
        assert judged(invented).verdict == -1 and "no_hallucination" not in judged(invented).met
        if "expected" in information:
            assert judged(task.calls[1:]).verdict == -1
            assert "no_redundancy" not in judged((*task.calls, task.calls[0])).met


def test_contradictions_are_caught_and_a_megabyte_is_refused() -> None:
    caught = 0
    for number in range(20):
        task = drawn(number)
        ledger = Ledger(REPOSITORY.tools)
        for call in task.calls:
            question = roles.ask_tool(task, tools(task), Past(), call, known=ledger.things())
            caught += bool(ledger.contradictions(call, ask(question, answer=faulty.contradicting)))
            answer = ask(question)
            if ledger.contradictions(call, answer):
                answer = ToolAnswer("refused")
            ledger.record(call, answer)
    assert caught >= 3
    with pytest.raises(Unreadable, match="characters"):
        ask(question, answer=faulty.huge)
