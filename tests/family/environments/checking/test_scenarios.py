"""Scenarios are dropped by the control that their defect belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.calls import Call
from rods.config import Sandbox
from rods.environments import addressed
from rods.environments.base import Environment
from rods.environments.loading import Environments
from rods.family.environments.checking.scenarios import (
    Scenario,
    WitnessCall,
    played,
    reasons,
    validate,
)
from tests.family.environments.checking.small_world import STATE, spoilt

pytestmark = pytest.mark.needs("sandbox")
EXTRA = '''

@WORLD.check
def always(db: World, jar: Name) -> bool:
    """True."""
    return True


@WORLD.check
def never(db: World, jar: Name) -> bool:
    """False."""
    return False


@WORLD.check
def touches(db: World, jar: Name) -> bool:
    """Looks, and leaves a trace."""
    db.log.append(jar)
    return jar in db.jars


@WORLD.check
def breaks(db: World, jar: Name) -> bool:
    """Reads what need not be there."""
    return db.jars[jar] > 0
'''
FILL = WitnessCall(Call("fill", {"jar": "figs", "more": 5}))
FILL_AGAIN = WitnessCall(Call("fill", {"jar": "figs", "more": 4}))
EMPTY = WitnessCall(Call("empty", {"jar": "plums"}))
SOUND = Scenario(
    state=STATE,
    requests=("Put 5 and then 4 into the jar figs.", "Take the jar plums away."),
    witness=(FILL, WitnessCall(Call("count", {"jar": "figs"})), FILL_AGAIN, EMPTY),
    checks=(
        Call("holds", {"jar": "figs", "amount": 9}),
        Call("holds", {"jar": "plums", "amount": 0}),
    ),
    guards=(Call("is_there", {"jar": "pears"}),),
)
SOUND = replace(
    SOUND, witness=(FILL, SOUND.witness[1], replace(FILL_AGAIN, takes={"jar": 1}), EMPTY)
)


def checking(name: str, **arguments: Any) -> tuple[Call, ...]:
    return (*SOUND.checks, Call(name, arguments))


# What is wrong with a scenario, by the control that finds it.
DEFECTS: dict[str, Scenario] = {
    "always_true": replace(SOUND, checks=checking("always", jar="figs")),
    "always_false": replace(SOUND, checks=checking("never", jar="figs")),
    "true_at_start": replace(SOUND, checks=checking("holds", jar="pears", amount=3)),
    "false_on_witness": replace(SOUND, checks=checking("holds", jar="figs", amount=5)),
    "guard_broken": replace(SOUND, guards=(Call("is_there", {"jar": "plums"}),)),
    "guard_without_mutant": replace(SOUND, guards=(Call("always", {"jar": "pears"}),)),
    "needless": replace(
        SOUND, witness=(*SOUND.witness, WitnessCall(Call("fill", {"jar": "pears", "more": 1})))
    ),
    "witness": replace(SOUND, witness=(*SOUND.witness, EMPTY)),
    "pure_checks": replace(SOUND, checks=checking("touches", jar="figs")),
    "errors": replace(SOUND, checks=checking("breaks", jar="figs")),
    "state": replace(SOUND, state={"jars": {"plums": "many"}}),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    folder: Path = tmp_path_factory.mktemp("world")
    name = addressed.keep(spoilt() + EXTRA, folder)
    with Environments(Sandbox(workers=1, seconds=10.0)) as environments:
        yield environments.load(f"{folder}/{name}")


def test_a_sound_scenario_passes_and_every_guard_has_a_mutant(world):
    found = validate(world, SOUND)
    assert found.faults == ()
    (mutant,) = found.mutants
    instance = world.reset(dict(STATE))
    played(instance, SOUND.witness)
    assert instance.call(mutant).error is None
    assert instance.call(SOUND.guards[0]).value is False


@pytest.mark.few(4, others="slow")
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_by_its_own_control(world, name):
    assert list(reasons(validate(world, DEFECTS[name]))) == [name]


def test_what_takes_from_a_call_that_is_left_out_is_not_made(world):
    found = played(world.reset(dict(STATE)), SOUND.witness, without=1)
    assert [each is None for each in found] == [False, True, True, False]
    scenario = replace(SOUND, witness=(*SOUND.witness[:3], replace(EMPTY, takes={"jar": 2})))
    assert "needless" not in reasons(validate(world, scenario))
