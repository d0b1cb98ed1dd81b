"""What a model answers is taken apart, refused by the name of a control, and sent back to the part
that is at fault."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.asking import Unanswered, Unreadable
from rods.calls import Call
from rods.environments.base import Parameter, Result, Tool
from rods.environments.loading import Environments
from rods.family.environments.checking.scenarios import WitnessCall
from rods.family.environments.procedural.scenarios import CONFINED
from rods.family.environments.programs import (
    FOOT,
    HEAD,
    STATE_PART,
    PlannedTool,
    WorldPlan,
    WorldProgram,
    check,
)
from rods.family.environments.written.building import (
    _planned_tool,
    build,
    code_of,
    control_of,
    parts_at_fault,
    the_function,
    unsaid,
)
from rods.family.environments.written.scenarios import WrittenScenario, linked, shortest
from rods.worlds.checking import Fault
from tests.family.environments.checking.small_world import SOURCE
from tests.family.environments.written import answering

STATE = """\
Name = Annotated[str, Field(max_length=9)]


@dataclass
class World:
    jars: dict[Name, int] = field(default_factory=dict)
"""
FILL = (
    'def fill(world: World, jar: Name) -> int:\n    """Fills a jar."""\n    world.jars[jar] = 1\n  '
    "  return 1\n"
)
PLAN = WorldPlan(
    'A "cellar"\\ of jars.',
    {"jars": "how full"},
    ("None is empty.",),
    (PlannedTool("fill", "Jars", False, "Fills a jar.", {"jar": "its name"}),
     PlannedTool("look", "Jars", True, "Looks at a jar.", {"jar": "its name"})),
)  # fmt: skip
LOOK = FILL.replace("fill", "look").replace("world.jars[jar] = 1", "known = Names")
NINE = (
    'def nine_plums(db: World) -> bool:\n    """There are nine plums."""\n    return '
    'db.jars.get("plums") == 9\n'
)
PROGRAM = WorldProgram(PLAN, STATE, {"fill": FILL, "look": LOOK})


def test_a_program_is_found_in_its_fence_and_without_an_import_from_the_future() -> None:
    fenced = f"Here it is:\n```python\nfrom __future__ import annotations\n{FILL}```\nDone."
    assert code_of(fenced) == code_of(FILL) == FILL
    assert code_of("\n" + "".join(f"    {line}\n" for line in FILL.splitlines())) == FILL


@pytest.mark.few(4, others="slow")
@pytest.mark.parametrize(
    ("control", "code"),
    [
        ("syntax", "def fill(world"),
        ("syntax", "Sure! I will write it."),
        ("signature", FILL.replace("fill", "full")),
        ("signature", FILL.replace("jar: Name", "jar: Name, more: int")),
        ("signature", FILL.replace("jar: Name", "*jar: Name")),
        ("signature", FILL.replace("jar: Name", "jar")),
        ("signature", FILL.replace(" -> int", "")),
        ("signature", f"{FILL}\nfill(World(), 'a')\n"),
        ("signature", f"class Jar:\n    pass\n\n{FILL}"),
        ("imports", f"import os\n{FILL}"),
        ("clock", f"from time import time\n{FILL}"),
        ("builtins", FILL.replace("= 1", "= eval('1')")),
        ("class_state", FILL.replace("world.jars[jar]", "World.jars[jar]")),
    ],
)
def test_an_answer_is_refused_by_the_control_that_it_fails(control: str, code: str) -> None:
    with pytest.raises(Unreadable) as refused:
        the_function(code_of(code), "fill", ["jar"], STATE)
    assert str(refused.value).startswith(f"{control}: ")
    assert control_of(Unanswered(str(refused.value), code, None)) == control


def test_lines_are_told_as_the_model_has_written_them() -> None:
    with pytest.raises(Unreadable, match=r"builtins: line 3 uses open"):
        the_function(code_of(FILL.replace("= 1", "= open('a')", 1)), "fill", ["jar"], STATE)


def test_an_answer_without_a_control_is_none_s() -> None:
    assert control_of(Unanswered("the answer was cut short", "", None)) == "unanswered"
    assert (
        control_of(Unanswered("no JSON object could be read: it is empty", "", None))
        == "unanswered"
    )


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        (Fault("fill", "", "changed nothing", "", "effects"), "fill"),
        (Fault("environments/x/world.py", "name", "raised NameError: name "
                                                  "'Nowhere'", "", "loads"), STATE_PART),
        (Fault("environments/x/world.py", "reset", "differs", "", "isolation"), STATE_PART),
    ],
)  # fmt: skip
def test_a_fault_goes_back_to_the_part_that_it_is_about(fault: Fault, part: str) -> None:
    assert parts_at_fault(PROGRAM, [fault, fault]) == {part: f"- {fault.control}: {fault}"}


def test_a_line_of_the_file_belongs_to_the_function_around_it() -> None:
    lines = PROGRAM.source().splitlines()
    inside = next(number for number, line in enumerate(lines, 1) if "Names" in line)
    assert list(
        parts_at_fault(PROGRAM, [Fault(f"world.py:{inside}", "", "uses it", "", "builtins")])
    ) == ["look"]
    assert list(parts_at_fault(PROGRAM, [Fault("world.py:16", "", "uses it", "", "builtins")])) == [
        STATE_PART
    ]


def test_what_a_topic_says_cannot_leave_the_first_line_of_a_file() -> None:
    source = PROGRAM.source()
    assert source.startswith(HEAD.format(about="A 'cellar'' of jars")) and FOOT in source


@pytest.mark.parametrize(
    ("about", "docstring", "left_out"),
    [
        ("Lends an item; refused to a member who owes any fee.", "Lends an item.",
         "refused to a member who owes any fee"),
        ("Lends an item. Only if nobody else has reserved the item.", "Lends an item. Not in May.",
         "Only if nobody else has reserved the item"),
        ("Lends an item; refused to a member who owes any fee.",
         "Lends an item. A member owing a fee gets nothing.", ""),
        ("Lends an item to a member.", "Lends.", ""),
    ],
)  # fmt: skip
def test_a_refusal_that_the_plan_names_stands_in_the_docstring(
    about: str, docstring: str, left_out: str
) -> None:
    fill = FILL.replace("Fills a jar.", docstring)
    plan = replace(PLAN, tools=(replace(PLAN.tools[0], about=about),))
    faults = list(unsaid(replace(PROGRAM, plan=plan, tools={"fill": fill})))
    assert [(fault.where, fault.control) for fault in faults] == [
        ("fill", "documents") for _ in range(bool(left_out))
    ]
    assert all(fault.what.endswith(left_out) for fault in faults)


@pytest.mark.needs("sandbox")
async def test_a_refusal_that_is_left_out_goes_back_once(tmp_path: Path) -> None:
    plan = deepcopy(answering.PLAN)
    plan["tools"][1]["about"] = "Fills; refused to whoever has no spoon."
    authors: Any = answering.Answering(world_plan=plan)
    built = await build(authors, "Jars.", CONFINED)
    (refused,) = authors.records
    assert [fault["where"] for fault in refused["faults"]] == ["fill"]
    again = [question for question in authors.asked if question.template == "world_tool"][1:]
    assert ["no spoon" in question.fields["problem"] for question in again] == [True]
    assert set(built.program.tools) == {"look", "fill"}


@pytest.mark.needs("sandbox")
async def test_whoever_writes_a_state_is_shown_a_line_of_each_other_one() -> None:
    state = {"jars": {"sour green plums": 7, "pears": 3}}
    authors: Any = answering.Answering(scenario_state={"state": state})
    await build(authors, "Jars.", CONFINED)
    asked = [each.fields for each in authors.asked if each.template == "scenario_state"]
    assert [each["number"] for each in asked] == ["1", "2"]
    assert [each["others"] for each in asked] == ["(none yet)", "- sour green plums"]


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: Any) -> Any:
    """The small world in this process."""
    source = SOURCE.replace("environments/{address}/world.py", "jars.py") + check(NINE)
    (tmp_path / "jars.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    with Environments() as environments:
        yield environments.load("jars.py:environment")


def called(name: str, takes: dict[str, int] | None = None, **arguments: Any) -> WitnessCall:
    return WitnessCall(Call(name, arguments), takes or {})


def test_a_witness_keeps_only_what_it_needs(jars: Any) -> None:
    scenario = WrittenScenario(
        0, {"jars": {"plums": 7}}, "Add 2.", "Add.", "", {}, {"nine_plums": NINE}
    )
    looked = called("jars")
    fill = called("fill", {"jar": 0}, jar="plums", more=2)
    way = [
        looked,
        called("count", jar="plums"),
        called("fill", jar="figs", more=1),
        fill,
        called("empty", jar="figs"),
    ]
    assert shortest(jars, scenario, way) == (looked, fill)
    assert shortest(jars, scenario, way[:3]) is None


def tools_of(calls: Sequence[Call], changes: Sequence[str] = ("lend",), **schemas: Any) -> Any:
    """Tools as the calls use them; a parameter is a text, unless there is a schema for it."""
    return {
        call.name: Tool(
            call.name,
            "library",
            "It.",
            tuple(
                Parameter(name, schemas.get(name, {"type": "string"})) for name in call.arguments
            ),
            reads=call.name not in changes,
        )
        for call in calls
    }


def links(task: str, *played: tuple[Call, Any], **schemas: Any) -> list[dict[str, int]]:
    calls = [call for call, _ in played]
    results = [Result("", value) for _, value in played]
    changes = ("lend", "give_back", "pay", "decide")
    state = {"members": ["M1", "M4", "M7"], "books": ["B2", "B3"]}
    scenario = WrittenScenario(0, state, task, "", "", {}, {})
    witness = linked(tools_of(calls, changes, **schemas), scenario, calls, results)
    return [dict(step.takes) for step in witness]


def test_an_argument_that_the_task_does_not_tell_was_taken_from_what_showed_it() -> None:
    assert links(
        "Lend Clouds to Ada for 7 days.",
        (Call("find", {"name": "Ada"}), "M4"),
        (Call("list", {}), {"B2": {"title": "Clouds"}, "B3": {"days": 7}}),
        (Call("lend", {"member": "M4", "book": "B2", "days": 7}), True),
    ) == [{}, {}, {"member": 0, "book": 1}]


def test_a_value_is_of_the_look_up_for_it_and_not_of_what_shows_it_by_chance() -> None:
    *_, looked, lend = links(
        "Lend Clouds to Ada.",
        (Call("count_copies", {"title": "Clouds"}), {"count": 3}),
        (Call("list_members", {}), {"M1": "Bo", "M4": "Ada", "M7": "Cy"}),
        (Call("find_copy", {"title": "Clouds"}), {"copy": 3, "shelf": 9}),
        (Call("find_member", {"name": "Ada"}), "M4"),
        (Call("get_member", {"member": "M4"}), {"name": "Ada", "loans": []}),
        (Call("lend", {"copy": 3, "member": "M4"}), True),
    )
    assert (looked, lend) == ({"member": 3}, {"copy": 2, "member": 3})


FIND = (Call("find_member", {"name": "Ada"}), [{"key": "M4", "name": "Ada"}])


@pytest.mark.parametrize(
    "between",
    [
        (Call("give_back", {"book": "B2"}), {"member": "M4", "fee": 11}),
        (Call("show_shelf", {"shelf": "S9"}), {"member": "M4"}),
        (Call("list_loans", {}), {"L1": {"member": "M4"}}),
        (Call("list_members", {}), {"M4": "Ada"}),
        (Call("last_reader", {}), "M4"),
    ],
)
def test_what_shows_a_key_in_passing_is_not_what_it_was_looked_up_by(between: Any) -> None:
    pay = (Call("pay", {"member": "M4", "note": "-"}), True)
    assert links("Ada pays.", FIND, between, pay)[2] == {"member": 0}
    assert links("Ada pays.", between, FIND, pay)[2] == {"member": 1}


def test_what_a_call_has_made_is_taken_from_it_and_not_looked_up_again() -> None:
    made = (Call("lend", {"book": "B2"}), {"key": "L7", "book": "B2"})
    listed = (Call("list_loans", {"title": "Clouds"}), [{"key": "L7"}])
    back = (Call("give_back", {"loan": "L7"}), True)
    assert links("Lend B2, Clouds, and take it back.", made, listed, back)[2] == {"loan": 0}


@pytest.mark.parametrize(
    ("call", "schemas", "shown"),
    [
        (Call("decide", {"how": "accepted"}), {"how": {"type": "string", "enum": ["accepted"]}},
         {"status": "accepted"}),
        (Call("pay", {"amount": 4}), {"amount": {"type": "integer"}}, {"day": 4}),
        (Call("decide", {"fine": True}), {"fine": {"type": "boolean"}}, {"open": True}),
        (Call("pay", {"times": 1}), {"times": {"type": "integer"}}, {"open": True, "times": True}),
        (Call("pay", {"member": "Ada"}), {}, {"name": "Ada"}),
    ],
)  # fmt: skip
def test_a_link_by_chance_is_none(call: Call, schemas: Any, shown: Any) -> None:
    seen = (Call("list_claims", {"item": "i3"}), shown)
    assert links("Ada's claim.", seen, (call, True), **schemas)[1] == {}


def test_a_small_number_is_shown_under_its_name_or_about_what_the_call_is_about() -> None:
    amount = {"amount": {"type": "integer"}}
    pay = (Call("pay", {"member": "M4", "amount": 6}), True)
    account = (Call("account", {"member": "M4"}), {"fee": 6})
    other = (Call("account", {"member": "M5"}), {"fee": 6})
    assert links("Ada pays all.", FIND, account, pay, **amount)[2] == {"member": 0, "amount": 1}
    assert links("Ada pays all.", FIND, other, pay, **amount)[2] == {"member": 0}
    named = (Call("till", {}), {"amount": 6})
    assert links("Ada pays all.", FIND, named, pay, **amount)[2] == {"member": 0, "amount": 1}


@pytest.mark.parametrize(
    ("tool", "takes", "name", "taken"),
    [
        ("cancel_order", ["id"], "cancel_order", ["order_id"]),
        ("add_room", ["type", "max"], "add_room", ["room_type", "room_max"]),
        ("list_rooms", ["world", "floor"], "list_rooms", ["room_world", "floor"]),
        ("open", ["door"], "open_door", ["door"]),
        ("cancel_order", ["order_id", "id"], "cancel_order", ["order_id", "order_id_"]),
    ],
)
def test_a_name_that_python_means_something_else_by_becomes_another(
    tool: str, takes: list[str], name: str, taken: list[str]
) -> None:
    answer = {"name": tool, "group": "doors", "reads": True, "about": "It."}
    planned = _planned_tool({**answer, "takes": [{"name": each, "about": "it"} for each in takes]})
    assert (planned.name, list(planned.takes)) == (name, taken)
