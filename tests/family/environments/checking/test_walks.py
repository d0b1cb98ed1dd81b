"""Walks break the rules that a tool forgets, and say which tool it was; a sound world keeps all."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.fixtures.planted_rules import planted, written
from rods.calls import Call
from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.base import Environment, Parameter, Tool
from rods.environments.loading import Environments
from rods.family.environments.checking.walks import Drawing, Walk, walks
from rods.family.environments.checking.worlds import _elsewhere, _lasting, program_faults
from rods.family.environments.procedural.skeletons import draw_skeleton, draw_state
from rods.family.environments.programs import WorldProgram, placed
from rods.functions import made_by
from rods.worlds.checking import Fault
from rods.worlds.checking.environments import Probe
from tests.family.environments.checking.small_world import IMPORTS, STATE, spoilt
from tests.family.environments.checking.test_worlds import CLASS, FILL, LIST

SKELETON = draw_skeleton(5, 1)  # a library with limits, stock and charges
STATES = [draw_state(SKELETON, 5, "walked", number) for number in range(2)]


def found(program: WorldProgram, folder: Path) -> tuple[list[Walk], list[Fault]]:
    """What walks find of a world that runs in this process: its code is this project's own."""
    probe = Probe(made_by(placed(program.source(), folder), Environment, where="planted"))
    probe.patience = math.inf
    walked = [walk for state in STATES for walk in walks(probe, state, 0)]
    return walked, probe.faults


def test_a_sound_world_keeps_its_rules_and_is_walked_alike_again(tmp_path: Path) -> None:
    first, faults = found(written(SKELETON), tmp_path)
    assert (faults, first) == ([], found(written(SKELETON), tmp_path)[0])
    succeeded = {
        call.name
        for walk in first
        for call, reply in zip(walk.calls, walk.replies, strict=True)
        if reply[1] is None
    }
    assert succeeded == set(written(SKELETON).tools)


PLANTED = {name: (tool, program) for _, name, tool, program in planted(SKELETON)}


@pytest.mark.few(
    "one beyond the limit", "a label twice", "from any stage", "takes two", others="slow"
)
@pytest.mark.parametrize("name", PLANTED)
def test_a_rule_that_a_tool_forgets_is_told_with_the_tool_and_the_call(
    name: str, tmp_path: Path
) -> None:
    tool, program = PLANTED[name]
    _, faults = found(program, tmp_path)
    assert {(fault.control, fault.where) for fault in faults} == {("rules", tool)}
    assert all(
        fault.what.startswith("breaks rule ") and f"({tool}(" in fault.what for fault in faults
    )


def loaded(changes: Sequence[tuple[str, str]], folder: Path, environments: Environments) -> Any:
    source = spoilt(*changes)
    name = f"{folder}/{addressed.keep(source, folder)}"
    return name, Probe(environments.load(name))


# What is remembered or read elsewhere than in the state, as it would look past the syntax tree.
ELSEWHERE = {
    "a counter on an imported function": [
        (FILL, f"{FILL}    field.count = getattr(field, 'count', 0) + 1\n"),
        (LIST, "return sorted(db.jars)[: 1 + getattr(field, 'count', 0) // 40]"),
    ],
    "an environment variable": [
        (IMPORTS, f"{IMPORTS}import os\n"),
        (LIST, "return sorted(db.jars) if 'LANG' in os.environ else []"),
    ],
    "a clock that is read by day": [
        (IMPORTS, f"{IMPORTS}import datetime\n"),
        (LIST, "return sorted(db.jars)[: datetime.date.today().toordinal() // 400 % 2]"),
    ],
    "chance, seldom": [
        (IMPORTS, f"{IMPORTS}import os\n"),
        (LIST, "return sorted(db.jars)[: os.urandom(1)[0] % 20]"),
    ],
}


@pytest.mark.needs("sandbox")
@pytest.mark.few(1, others="slow")
@pytest.mark.parametrize("what", ELSEWHERE)
def test_what_is_remembered_or_read_elsewhere_shows_in_another_process_on_another_day(
    what: str, tmp_path: Path
) -> None:
    with Environments(Sandbox(workers=1)) as environments:
        name, probe = loaded(ELSEWHERE[what], tmp_path, environments)
        _elsewhere(probe, name, environments, walks(probe, STATE, 0))
    (fault, *_) = probe.faults
    assert fault.control == "elsewhere" and fault.where in ("jars", "fill")


@pytest.mark.needs("sandbox")
@pytest.mark.slow
def test_nothing_shows_of_a_sound_world_elsewhere(tmp_path: Path) -> None:
    with Environments(Sandbox(workers=1)) as environments:
        name, probe = loaded([], tmp_path, environments)
        _elsewhere(probe, name, environments, walks(probe, STATE, 0))
    assert probe.faults == []


@pytest.mark.needs("sandbox")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "control", "where"),
    [
        ([(FILL, f"{FILL}    db.log.append(jar)\n")], "runaway", "log"),
        (
            [(CLASS, f"{CLASS}    filled: Count = 1\n"), (FILL, f"{FILL}    db.filled += 1\n")],
            "bounds",
            "reset",
        ),
    ],
)
def test_after_a_thousand_calls_a_state_is_still_within_its_bounds(
    changes: list[tuple[str, str]], control: str, where: str, tmp_path: Path
) -> None:
    with Environments(Sandbox(workers=1)) as environments:
        _, probe = loaded(changes, tmp_path, environments)
        _lasting(probe, STATE, 0)
    assert [(fault.control, fault.where) for fault in probe.faults] == [(control, where)]


@pytest.mark.parametrize(
    ("control", "line"),
    [
        ("class_state", "field.count = 1"),
        ("class_state", "ToolError.seen = jar"),
        ("builtins", "seen = (each for each in [1]).gi_frame"),
        ("builtins", "seen = db.tb.tb_frame.f_globals"),
    ],
)
def test_an_imported_function_is_not_changed_and_no_running_one_is_left(
    control: str, line: str
) -> None:
    (fault, *_) = program_faults(spoilt((FILL, f"{FILL}    {line}\n")), "world.py")
    assert fault.control == control


def test_later_walks_give_new_keys_where_known_ones_are_refused() -> None:
    key = Parameter("jar", {"type": "string", "pattern": "^j[0-9]{3}$"}, "A jar.", True, None)
    tool = Tool("add", "Jars", "Adds a jar.", (key,))

    def new(adapts: bool) -> int:
        """Of 200 calls, after twenty with known keys were refused."""
        drawing = Drawing(random.Random(3))
        drawing.see({"jars": {"j001": {}, "j002": {}}})
        for _ in range(10):
            drawing.heard(Call("add", {"jar": "j001"}), succeeded=False)
            drawing.heard(Call("add", {"jar": "j002"}), succeeded=False)
        drawing.adapts = adapts
        jars = [drawing.call(tool).arguments["jar"] for _ in range(200)]
        return sum(jar not in ("j001", "j002") for jar in jars)

    assert new(adapts=False) < 40 < 80 < new(adapts=True)
