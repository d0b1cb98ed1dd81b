"""Tasks of schema 2: played users, and goals judged at the end. Records are strict; ids of older
tasks stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from rods.calls import Call
from rods.conversations import Checks, Limits, Persona, Rubric, Script
from rods.errors import UserError
from rods.gates.similarity import SimilarityIndex
from rods.tasks import AnyTask, EnvironmentRef, OpenTask, Task, scripted

WHERE = EnvironmentRef("desk", "h")
BUYER = Persona("Pay falcon's bill.", "Please pay a bill.", {"vendor": "Falcon's."}, "curt", 4)
PAID = Checks(
    (
        Call("bill_is_paid", {"bill": "i13"}),
        Call("account_holds", {"account": "cash", "amount": 40}),
    )
)
ASKED = Rubric(("The bill is paid.",), (Call("pay_bill", {"bill": "i13"}),))
PERSONA = OpenTask(WHERE, "base", BUYER, PAID, ("find_bill", "pay_bill"), state={"today": "monday"})
JUDGED = OpenTask(
    WHERE, "base", Script(("Pay it.", "Thanks.")), Rubric(("The bill is paid.",)), ("pay_bill",)
)
DRAWN = replace(
    PERSONA,
    user=replace(BUYER, further=("And owl's?",)),
    goal=ASKED,
    limits=Limits(tool_turns=3, replies=6),
    id="",
)
CALLED = Task(WHERE, "base", ("Look.",), ((Call("ls"),),), ("ls",))


@pytest.mark.parametrize(
    "task", [PERSONA, JUDGED, DRAWN, replace(CALLED, system="Be brief.", id=""), CALLED]
)
def test_a_record_comes_back_as_it_was(task: AnyTask) -> None:
    line = orjson.dumps(task.as_json())
    again = AnyTask.from_json(orjson.loads(line))
    assert again == task and type(again) is type(task) and orjson.dumps(again.as_json()) == line


def test_the_schema_is_the_lowest_that_has_what_the_task_has() -> None:
    assert CALLED.as_json()["schema"] == 1 and "system" not in CALLED.as_json()
    assert CALLED.id == "3024a419f8c6911ee987"  # as before there was a second schema
    for task in (PERSONA, JUDGED, replace(CALLED, system="Be brief.", id="")):
        assert task.as_json()["schema"] == 2 and task.id != CALLED.id


def test_every_part_is_in_the_id() -> None:
    changed = [
        replace(PERSONA, user=replace(BUYER, intent="Pay owl's bill."), id=""),
        replace(PERSONA, user=replace(BUYER, knows={}), id=""),
        replace(PERSONA, user=replace(BUYER, manner=""), id=""),
        replace(PERSONA, user=replace(BUYER, turns=5), id=""),
        replace(PERSONA, goal=Rubric(("The bill is paid.",)), id=""),
        replace(PERSONA, goal=Checks(PAID.calls[:1]), id=""),
        replace(PERSONA, system="Be brief.", id=""),
        DRAWN,
        replace(DRAWN, user=BUYER, id=""),
        replace(DRAWN, goal=Rubric(ASKED.criteria), id=""),
        replace(DRAWN, limits=Limits(replies=6), id=""),
        replace(DRAWN, limits=None, id=""),
    ]
    assert len({task.id for task in (PERSONA, *changed)}) == 13
    assert (
        PERSONA.id == "9ce46fb01c98e28f65bb" and JUDGED.id == "28e6c60cc1bedece1d47"
    )  # as before there were requests, expected calls and limits
    assert replace(PERSONA, split="test", provenance={"by": "hand"}).id == PERSONA.id


def test_what_a_task_can_earn_and_what_its_user_is_known_to_say() -> None:
    assert [task.expected for task in (PERSONA, JUDGED, CALLED)] == [2, 2, 1]
    assert [task.texts for task in (PERSONA, JUDGED)] == [
        ("Please pay a bill.",),
        ("Pay it.", "Thanks."),
    ]
    assert (
        PERSONA.goal_calls == PAID.calls
        and JUDGED.goal_calls == ()
        and CALLED.goal_calls == (Call("ls"),)
    )
    assert PERSONA.tools_at(3) == PERSONA.tools and not PERSONA.later_tools


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda r: r.update(schema=1), "'schema' is 1; what the task has makes it 2"),
        (lambda r: r.update(schema=3), "schema: Input should be 1 or 2"),
        (lambda r: r["user"].update(script=["x"]), "'user' must have one of"),
        (lambda r: r.update(user={}), "'user' must have one of"),
        (lambda r: r["user"]["persona"].update(query=" "), "not blank"),
        (lambda r: r["user"]["persona"].pop("intent"), "user.persona.intent: "),
        (lambda r: r["user"]["persona"].update(knows=["x"]), "user.persona.knows: "),
        (
            lambda r: r["user"]["persona"].update(knows={"vendor": ""}),
            "user.persona.knows.vendor: ",
        ),
        (lambda r: r["user"]["persona"].update(manner=1), "user.persona.manner: "),
        (lambda r: r["user"]["persona"].update(turns=0), "'user.persona.turns' is 0"),
        (lambda r: r["user"]["persona"].update(turns=True), "user.persona.turns: "),
        (lambda r: r["user"]["persona"].update(mood="x"), "user.persona.mood: "),
        (lambda r: r.update(goal={"calls": [[]]}), "'goal.calls' go by turns"),
        (lambda r: r.update(goal={"checks": []}), "'goal.checks' is empty"),
        (lambda r: r.update(goal={"checks": [{"name": 1}]}), "a call needs a 'name'"),
        (lambda r: r.update(goal={"rubric": []}), "'goal.rubric' needs criteria"),
        (lambda r: r.update(goal={"rubric": [""]}), "'goal.rubric' needs criteria"),
        (lambda r: r.update(goal={"rubric": ["x"], "expected": 1}), "goal.expected: "),
        (
            lambda r: r.update(goal={"rubric": ["x"], "expected": [{"name": "ls"}]}),
            "['ls'], which are not among",
        ),
        (lambda r: r["goal"].update(expected=[]), "'goal' must have one of"),
        (lambda r: r["user"]["persona"].update(further=[" "]), "user.persona.further.0: "),
        (lambda r: r.update(limits={}), "'limits' needs 'tool_turns', 'replies' or both"),
        (lambda r: r.update(limits={"replies": 0}), "each at least 1"),
        (lambda r: r.update(limits={"replies": 2.0}), "limits.replies: "),
        (lambda r: r.update(limits={"users": 2}), "limits.users: "),
        (lambda r: r.update(goal={"praise": 1}), "goal.praise: "),
        (lambda r: r.update(type="miss_func"), "'type' is 'miss_func'"),
        (
            lambda r: r["tools"].update(held_out={"1": ["pay_bill"]}),
            "'tools.held_out' goes by turns",
        ),
        (lambda r: r.update(system=" "), "system: "),
    ],
)
def test_a_bad_record_names_its_field(
    edit: Callable[[dict[str, Any]], object], complaint: str
) -> None:
    record = orjson.loads(orjson.dumps(PERSONA.as_json()))
    del record["id"]
    edit(record)
    with pytest.raises(ValueError) as error:
        AnyTask.from_json(record)
    assert complaint in str(error.value)


def test_whoever_takes_scripted_tasks_refuses_others_by_name() -> None:
    assert scripted(CALLED, "a demonstration") is CALLED
    with pytest.raises(
        UserError,
        match=f"task {PERSONA.id}.*a demonstration takes a script with ground-truth calls",
    ):
        scripted(PERSONA, "a demonstration")
    with pytest.raises(ValueError, match="must be a script and calls"):
        Task.from_json(PERSONA.as_json())


def test_open_tasks_are_near_duplicates_by_goal_state_and_first_query() -> None:
    index = SimilarityIndex()
    index.add(PERSONA)
    same_goal = replace(
        PERSONA, user=replace(BUYER, query="Somebody wants money."), state=None, id=""
    )
    same_state = replace(
        PERSONA, user=replace(BUYER, query="Somebody wants money."), goal=JUDGED.goal, id=""
    )
    apart = replace(same_goal, goal=JUDGED.goal, id="")
    found = [getattr(index.find(task), "rule", None) for task in (same_goal, same_state, apart)]
    assert found == ["ground_truth", "state", None]
