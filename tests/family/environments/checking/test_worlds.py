"""Generated worlds are refused by the control that their defect belongs to; sound ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.loading import Environments
from rods.errors import InfrastructureError, UserError
from rods.family.environments.checking.worlds import program_faults
from rods.worlds.sandbox.environment import ConfinedWorld
from tests.family.environments.checking.small_world import IMPORTS, SOURCE, checked, spoilt

SUM = 'return db.jars[jar]\n\n\n@WORLD.tool("Jars", reads=True)\ndef jars'
LIST = "return sorted(db.jars)"
CLASS = "class World:\n"
FILL = "    db.jars[jar] = db.jars.get(jar, 0) + more\n"
STATIC = {
    "clock": (IMPORTS, f"{IMPORTS}from time import time\n"),
    "uuid": (IMPORTS, f"{IMPORTS}import uuid\n"),
    "randomness": (IMPORTS, f"{IMPORTS}import random\n"),
    "imports": (IMPORTS, f"{IMPORTS}import os\n"),
    "class_state": ("class World:\n", "class World:\n    made = []\n"),
    "builtins": (LIST, "return eval('sorted')(db.jars)"),
    "syntax": (LIST, "return sorted(db.jars"),
}
STATIC_TOO = [
    ("clock", IMPORTS, f"{IMPORTS}import datetime as day\n"),
    ("imports", IMPORTS, f"{IMPORTS}from typing import sys\n"),
    ("class_state", FILL, f"{FILL}    World.total = more\n"),
    ("class_state", FILL, f"{FILL}    SEEN.append(jar)\n"),
    ("class_state", "more: Count)", "more: Count, seen: list[str] = [])"),
    ("class_state", FILL, f"{FILL}    fill.last = jar\n"),
    ("class_state", FILL, f"    global SEEN\n{FILL}"),
    ("builtins", LIST, "return sorted(db.__dict__['jars'])"),
    ("builtins", LIST, "return sorted('{0.jars}'.format(db))"),
    ("randomness", LIST, "return sorted(db.jars, key=id) if hash('a') else []"),
    ("builtins", LIST, "type = 'plums'\n    return [str(type(db))]"),
    ("builtins", LIST, "shown = '{0.jars}'.format\n    return [shown(db)]"),
]
# The control, and the change of the source that it is to find.
RUNNING = {
    "getters": (SUM, f"db.log.append(jar)\n    {SUM}"),
    "effects": (FILL, ""),
    "runaway": (LIST, f"while db.jars:\n        pass\n    {LIST}"),
    "signature": ("more: Count)", "amount: Count)"),
    "errors": ("    if jar not in db.jars:\n        raise ToolError(\"no such jar\")\n    "
               "del", "    del"),
    "atomic": ('    """Takes a jar away."""\n', '    """Takes a jar away."""\n    '
                                                'db.log.append(jar)\n'),
    "reach": ("    del db.jars[jar]\n    return True", "    raise ToolError('not today')"),
    "pure_checks": ("    return jar in db.jars", "    db.log.append(jar)\n    return jar in "
                                                 "db.jars"),
    "documents": ("jar: Name, amount: Amount) -> bool", "jar: str, amount: Amount) -> bool"),
    "loads": ("environments/{address}", "environments/0000000000000000000a"),
}  # fmt: skip


@pytest.mark.parametrize("control", STATIC)
def test_the_syntax_tree_shows_a_defect_before_anything_runs(control):
    assert {fault.control for fault in program_faults(spoilt(STATIC[control]), "world.py")} == {
        control
    }


@pytest.mark.parametrize(("control", "old", "new"), STATIC_TOO)
def test_other_ways_to_the_same_defect_are_found(control, old, new):
    (fault, *others) = program_faults(spoilt((old, new.replace("SEEN", "WORLD"))), "world.py")
    assert (
        fault.control == control
        and fault.remedy
        and not {each.control for each in others} - {control}
    )


@pytest.mark.parametrize(
    "line",
    [
        "return sorted(set(db.jars))",
        "return sorted(each for each in {*db.jars})",
        "return ['plums'] if 'plums' in set(db.jars) and len(set(db.jars)) == max({1, 2}) else []",
        "seen: list[str] = []\n    seen.append('a')\n    return seen",
        "found = list(set(db.jars))\n    found.sort()\n    return found",
        "found = [jar for jar in set(db.jars) if jar]\n    found.sort()\n    return found",
        "many = 0\n    for jar in set(db.jars):\n        if jar:\n            many += 1\n    "
        "return ['x'] * many",
        "id = 'plums'\n    return [id]",
        "return [id for id in db.jars]",
        "fill = []\n    fill.append('a')\n    return fill",
        "type = 'plums'\n    return ['a']",
    ],
)
def test_sets_and_lists_that_no_order_and_no_world_shows_are_left_alone(line):
    assert program_faults(spoilt((LIST, line)), "world.py") == []


def test_a_field_may_have_any_name() -> None:
    fields = (
        "class World:\n",
        "class World:\n    format: str = ''\n    id: int = 0\n    type: str = ''\n",
    )
    assert (
        program_faults(
            spoilt(fields, (LIST, "return [db.format, db.type, str(db.id)]")), "world.py"
        )
        == []
    )
    (fault,) = program_faults(spoilt(fields, (LIST, "return [db.format.format(db)]")), "world.py")
    assert fault.control == "builtins"


# A look that answers an error in place of refusing.
ANSWERS = [
    ("def count(db: World, jar: Name) -> int", "def count(db: World, jar: Name) -> dict[str, str]"),
    ('raise ToolError("no such jar")\n    return db.jars[jar]',
     'return {"error": "no such jar"}\n    return {"holds": str(db.jars[jar])}'),
]  # fmt: skip
LOG = "    log: list[str] = field(default_factory=list)\n"
REFUSED = '        raise ToolError("no such jar")\n    del'
# What is remembered elsewhere than in the fields of the state: where, and what changes in the
# source.
HIDDEN = {
    "an attribute that is no field": [
        (CLASS, f"{CLASS}    last = 0\n"),
        (FILL, f"{FILL}    db.last = more\n"),
        (LIST, "return sorted(db.jars)[: 1 + db.last % 2]"),
    ],
    "an attribute that counts refusals": [
        (CLASS, f"{CLASS}    refused = 0\n"),
        (REFUSED, REFUSED.replace("raise ToolError(", "db.refused += 1\n        raise "
                                                      "ToolError(f'{db.refused}' ")),
    ],
    "two fields that share a list": [
        (LOG, f"{LOG}{LOG.replace('log', 'old')}"),
        (FILL, f"{FILL}    if not db.old:\n        db.old = db.log\n    db.log.append(jar[:1])\n"),
    ],
    "a result that the next call changes": [
        (CLASS, f"{CLASS}    shown = None\n"),
        (LIST, "db.shown = sorted(db.jars) if db.shown is None else db.shown\n    return db.shown"),
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("where", HIDDEN)
def test_what_is_remembered_outside_of_the_state_is_found_by_restoring_before_every_call(
    where: str, tmp_path: Path
):
    source = spoilt(*HIDDEN[where])
    report = checked(source, tmp_path)
    told = [fault.what for fault in report.faults if fault.control == "snapshots"]
    assert any("restored right before it" in what for what in told), report.lines()


@pytest.mark.few("errors", others="slow")
@pytest.mark.parametrize("control", RUNNING)
def test_a_confined_run_shows_a_defect(control, tmp_path: Path):
    report = checked(spoilt(RUNNING[control]), tmp_path, 1.0 if control == "runaway" else 10.0)
    assert {control, "errors"} & {fault.control for fault in report.faults}, report.lines()
    assert all(fault.remedy for fault in report.faults)


@pytest.mark.slow
def test_an_answer_in_place_of_a_refusal_is_an_error(tmp_path: Path):
    report = checked(spoilt(*ANSWERS), tmp_path)
    (what,) = {fault.what for fault in report.faults if fault.control == "errors"}
    assert what.startswith("tells failures as ordinary results: count("), report.lines()


@pytest.mark.slow
def test_a_slow_tool_has_a_verdict_and_no_other_is_blamed_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rods.worlds.checking.environments.ALL_CALLS", 1.0)
    report = checked(
        spoilt((LIST, f"for _ in range(2_000_000):\n        pass\n    {LIST}")), tmp_path
    )
    slow = {fault.where: fault for fault in report.faults if "for its calls together" in fault.what}
    assert slow["jars"].control == "runaway"
    # on a busy machine others take long, too, but none is said to have ended what serves it
    assert len(slow) == len(report.faults), report.lines()


def test_a_world_that_raises_when_it_is_loaded_is_at_fault(tmp_path: Path):
    (fault,) = checked(spoilt((IMPORTS, f"{IMPORTS}LIMIT = 1 // 0\n")), tmp_path).faults
    assert fault.control == "loads" and "ZeroDivisionError" in fault.what


@pytest.mark.few("load", others="slow")
@pytest.mark.parametrize("breaks", ["load", "call"])
def test_machinery_that_breaks_is_no_fault_of_the_world(
    breaks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = ConfinedWorld.call

    def broken(world, called):
        if breaks == "load" or called.name in ("holds", "is_there"):
            raise InfrastructureError("a worker process was killed")
        return made(world, called)

    monkeypatch.setattr(Environments if breaks == "load" else ConfinedWorld, breaks, broken)
    with pytest.raises(InfrastructureError, match="was killed"):
        checked(SOURCE, tmp_path)


def test_the_small_world_is_sound(tmp_path: Path):
    report = checked(SOURCE, tmp_path)
    assert report.ok and report.facts["tools"] == 4, report.lines()


def test_a_world_that_is_not_what_its_address_says_is_refused_and_another_runs_confined(
    tmp_path: Path,
):
    name = f"{tmp_path}/{addressed.keep(SOURCE, tmp_path)}"
    file = Path(name.rpartition(":")[0])
    assert addressed.source_of(name) == SOURCE and addressed.address_of(name) == file.parent.name
    assert addressed.address_of("world.py:environment") is None
    with Environments() as environments:
        # though no configuration names it
        assert type(environments.load(name)).__name__ == "Sandboxed"
    file.write_text(file.read_text().replace("it is full", "it is fuller"))
    with (
        Environments(Sandbox(workers=1)) as environments,
        pytest.raises(UserError, match="not the world"),
    ):
        environments.load(name)
    file.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        addressed.source_of(name)
