"""What a model answers is taken apart, refused by the name of a control, and sent back to the part
that is at fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rods.asking import Unanswered, Unreadable
from rods.calls import Call
from rods.environments.base import Result
from rods.environments.loading import Environments
from rods.family.environments.checking.scenarios import WitnessCall
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
    code_of,
    control_of,
    parts_at_fault,
    the_function,
)
from rods.family.environments.written.scenarios import WrittenScenario, linked, shortest
from rods.worlds.checking import Fault
from tests.family.environments.checking.small_world import SOURCE

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
        0, {"jars": {"plums": 7}}, "Add 2.", "Add.", "", {}, {"nine_plums": NINE}, {}
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


def test_an_argument_that_the_task_does_not_tell_was_taken_from_what_showed_it() -> None:
    calls = [
        Call("find", {"name": "Ada"}),
        Call("list", {}),
        Call("lend", {"member": "M4", "book": "B2", "days": 7}),
    ]
    results = [
        Result("", "M4"),
        Result("", {"B2": {"title": "Clouds"}, "B3": {"days": 7}}),
        Result("", True),
    ]
    (find, listed, lend) = linked("Lend Clouds to Ada for 7 days.", calls, results)
    assert (find.takes, listed.takes, lend.takes) == ({}, {}, {"member": 0, "book": 1})


def test_a_value_is_of_the_look_up_for_it_and_not_of_what_shows_it_by_chance() -> None:
    calls = [
        Call("count_copies", {"title": "Clouds"}),
        Call("list_members", {}),
        Call("find_copy", {"title": "Clouds"}),
        Call("find_member", {"name": "Ada"}),
        Call("get_member", {"member": "M4"}),
        Call("lend", {"copy": 3, "member": "M4"}),
    ]
    results = [
        Result("", {"count": 3}),
        Result("", {"M1": "Bo", "M4": "Ada", "M7": "Cy"}),
        Result("", {"copy": 3, "shelf": 9}),
        Result("", "M4"),
        Result("", {"name": "Ada", "loans": []}),
        Result("", True),
    ]
    *_, looked, lend = linked("Lend Clouds to Ada.", calls, results)
    assert (looked.takes, lend.takes) == ({"member": 3}, {"copy": 2, "member": 3})


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
