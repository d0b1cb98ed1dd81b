"""What prompts allow is written, assembled, checked and run in every part of a world; a part that
fails is named and asked for again, alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rods.asking import Question, Unreadable
from rods.config import Sandbox
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.checking.worlds import OFFERED, OFFERED_TEXT, program_faults
from rods.family.environments.programs import PlannedTool, WorldPlan, WorldProgram, placed
from rods.family.environments.written.building import BuiltWorld, _tools, build, functions_in
from rods.family.environments.written.record import CachedQuestioner
from rods.family.environments.written.scenarios import (
    _read_checks,
    _try_checks,
    find_witness,
    write_scenario,
)
from rods.family.environments.written.writing import with_checks
from rods.prompts import load
from tests.family.environments.written.answering import CHECK, FILL, LOOK, START, STATE, Answering

SANDBOX = Sandbox(workers=2, seconds=10.0)


def uses(whole: bool) -> tuple[str, str]:
    """Imports of everything that is offered, and lines that use it: `whole`: by module."""
    if whole:
        return "".join(f"import {module}\n" for module in OFFERED), "".join(
            f"    used = {module}.{name}\n" for module, names in OFFERED.items() for name in names
        )
    return "".join(
        f"from {module} import {', '.join(names)}\n" for module, names in OFFERED.items()
    ), "".join(f"    used = {name}\n" for names in OFFERED.values() for name in names)


def first_in(code: str, imports: str, lines: str) -> str:
    """The function, which uses something in its first lines."""
    head, mark, body = code.partition('."""\n') if '"""' in code else code.partition("bool:\n")
    return f"{imports}\n\n{head}{mark}{lines}{body}"


def everything(whole: bool) -> dict[str, str]:
    imports, lines = uses(whole)
    optional = "typing.Optional" if whole else "Optional"
    return {
        "world_state": f"{imports}\n\n{STATE}\n\ndef _uses() -> int:\n{lines}    return 1\n",
        "look": first_in(LOOK, imports, lines).replace("-> int", f"-> {optional}[int]"),
        "fill": first_in(FILL, imports, lines),
        "scenario_checklist": first_in(CHECK, imports, lines),
    }


async def world(authors: Answering) -> BuiltWorld:
    return await build(cast(CachedQuestioner, authors), "Jars.", SANDBOX)


@pytest.mark.parametrize("template", ["world_state", "world_tool", "scenario_checklist"])
def test_prompts_tell_the_names_that_the_syntax_tree_is_held_to(template: str) -> None:
    assert "imports" in load(template).fields
    assert all(
        name in OFFERED_TEXT for module, names in OFFERED.items() for name in (module, *names)
    )


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.sweep)])
@pytest.mark.needs("sandbox")
async def test_whatever_is_offered_is_assembled_checked_and_run_in_every_part(
    whole: bool, tmp_path: Path
) -> None:
    authors: Any = Answering(**everything(whole))
    built = await world(authors)
    templates = [question.template for question in authors.asked]
    assert templates.count("world_tool") == 1 and not authors.records
    with Environments(SANDBOX) as environments:

        def load(program: WorldProgram) -> Environment:
            return environments.load(placed(program.source(), tmp_path))

        scenario = await write_scenario(authors, built.program, load, 0, built.states[0])
        done = await find_witness(authors, built.program, load, scenario)
        program = with_checks(built.program, [done.written])
    assert len(done.scenario.witness) == 1 and program_faults(program.source(), "world.py") == []


def offered() -> Iterator[str]:
    for module, names in OFFERED.items():
        for name in names:
            yield f"from {module} import {name}\nused = {name}\n"
            yield f"from {module} import {name} as other\nused = other\n"
            yield f"import {module}\nused = {module}.{name}\n"
            yield f"import {module} as other\nused = other.{name}\n"


def test_every_name_that_is_offered_is_used_in_every_way_of_importing_it() -> None:
    assert {
        code: program_faults(code, "world.py")
        for code in offered()
        if program_faults(code, "world.py")
    } == {}


@pytest.mark.parametrize(
    "code",
    [
        "import collections\nused = collections._sys.modules\n",
        "import typing as t\nused = t.sys\n",
        "import math\nused = math\n",
        "import collections.abc\nused = collections.abc.sys\n",
        "import collections.abc as abc\nused = abc\n",
        "import pydantic\nused = pydantic.BaseModel\n",
    ],
)
def test_a_module_gives_nothing_but_what_is_offered(code: str) -> None:
    assert {fault.control for fault in program_faults(code, "world.py")} == {"imports"}


LOST = FILL.replace("more: Annotated[int", "more: Annotated[Lost")
TYPELESS = FILL.replace(
    "more: Annotated[int, Field(ge=1, le=30)]", "more: Annotated[int | str, Field()]"
)
RAISES = FILL.replace(
    "    world.jars[jar] =",
    "    if jar not in world.jars:\n        raise KeyError(jar)\n    world.jars[jar] =",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "control"),
    [(LOST, "loads"), pytest.param(TYPELESS, "loads", marks=pytest.mark.sweep), (RAISES, "errors")],
)
@pytest.mark.needs("sandbox")
async def test_a_tool_that_fails_is_named_and_asked_for_again_alone(
    wrong: str, control: str
) -> None:
    authors = Answering(fill=lambda question: FILL if question.fields["problem"] else wrong)
    built = await world(authors)
    asked = [authors.named(question) for question in authors.asked]
    assert [name for name in asked if "l" in name and "_" not in name] == ["look fill", "fill"]
    assert asked.count("world_state") == 1
    (refused,) = authors.records
    faults = [fault for fault in refused["faults"] if fault["control"] == control]
    told = built.program.lines()["fill"]
    if control == "loads":
        assert [fault["field"] for fault in faults] == ["(fill, line 1)"]
        assert faults[0]["where"].endswith(f"/world.py:{told[0]}")
    else:
        assert {fault["where"] for fault in faults} == {"fill"}


def test_a_program_that_does_not_parse_is_refused_with_its_line() -> None:
    (fault,) = program_faults("x = 1\ny = (\n", "world.py")
    assert fault.where == "world.py:2" and fault.control == "syntax"


@pytest.mark.slow
@pytest.mark.needs("sandbox")
async def test_imports_before_a_tool_stay_before_what_registers_it() -> None:
    authors = Answering()
    before = "from math import floor\nfrom collections import Counter\n"

    def read(question: Question[Any]) -> str:
        return f"# What it needs.\n{before}\n\n{FILL}"

    authors.codes = {**authors.codes, "fill": read}
    built = await world(authors)
    assert f'\n\n{before}@WORLD.tool("Jars", reads=False)\ndef fill(' in built.program.source()


@pytest.mark.parametrize(
    "code", ["from os import path\n", "import os\n", "from collections import abc\n"]
)
def test_a_check_that_imports_something_else_is_refused_by_its_line(code: str) -> None:
    with pytest.raises(Unreadable, match="imports: line 1 imports"):
        _read_checks([code + CHECK], "wants", STATE)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("world.jars", "true_at_start: There are nine plums"),
        ("world.jars['no']", "errors: There are nine plums"),
    ],
)
@pytest.mark.needs("sandbox")
def test_checks_are_asked_of_the_first_state_before_anybody_does_the_task(
    condition: str, why: str, tmp_path: Path
) -> None:
    program = WorldProgram(WorldPlan("Jars.", {}, (), ()), STATE)
    code = CHECK.replace('world.jars.get("plums") == 9', f"bool({condition})")
    checks = _read_checks([code], "wants", STATE)
    with Environments(SANDBOX) as environments:

        def load(program: WorldProgram) -> Environment:
            return environments.load(placed(program.source(), tmp_path))

        with pytest.raises(Unreadable, match=why):
            _try_checks(load, program, START, checks)


def test_a_check_says_its_condition() -> None:
    bare = CHECK.replace('    """There are nine plums."""\n', "")
    with pytest.raises(Unreadable, match="signature: say in its docstring"):
        _read_checks([bare], "wants", STATE)


async def test_several_tools_are_asked_for_at_once_and_one_that_cannot_be_used_is_named() -> None:
    tools = (
        PlannedTool("look", "Jars", True, "Looks.", {"jar": "it"}),
        PlannedTool("fill", "Jars", False, "Fills.", {"jar": "it", "more": "much"}),
    )
    program = WorldProgram(WorldPlan("Jars.", {}, (), tools), STATE)
    authors: Any = Answering()
    assert await _tools(authors, program, tools, {}, 0) == {"fill": FILL, "look": LOOK}
    (asked,) = authors.asked
    assert authors.named(asked) == "look fill" and asked.parts == 512 and not asked.sections
    authors = Answering(fill=FILL.replace("jar: Name, ", ""))
    with pytest.raises(Unreadable, match=r"signature: it was to be fill\("):
        await _tools(authors, program, tools, {}, 0)
    authors = Answering(fill=LOOK)
    with pytest.raises(Unreadable, match="signature: write the one function fill"):
        await _tools(authors, program, tools, {}, 0)


def test_functions_of_one_text_are_read_one_by_one() -> None:
    assert functions_in(f"import math\n{LOOK}\n\n{FILL}") == {
        "look": f"import math\n{LOOK}",
        "fill": f"import math\n{FILL}",
    }
    assert functions_in(f"@staticmethod\n{FILL}") == {"fill": FILL}
    with pytest.raises(Unreadable, match="signature: write functions alone"):
        functions_in("print(1)\n" + LOOK)
