"""Worlds that were written by hand keep their rules, and each fault of a tool is told with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.fixtures import rule_worlds
from rods.config import Sandbox
from rods.environments.loading import Environments
from rods.family.environments.checking.worlds import check_world
from rods.family.environments.programs import placed
from rods.worlds.checking import Fault


def test_there_are_faults_and_sound_worlds_enough() -> None:
    planted = [fault for name in rule_worlds.NAMES for fault in rule_worlds.planted(name)]
    assert len(planted) == 73 and len({kind for kind, *_ in planted}) == 10
    assert sum(len(list(rule_worlds.sound(name))) for name in rule_worlds.NAMES) == 43


def checked(name: str, source: str, folder: Path) -> list[Fault]:
    with Environments(Sandbox(workers=1)) as environments:
        world = placed(source, folder)
        plan = rule_worlds.plan(source)
        return list(check_world(world, plan, rule_worlds.states(name), environments).faults)


@pytest.mark.needs("sandbox")
@pytest.mark.slow
@pytest.mark.parametrize("name", rule_worlds.NAMES)
def test_a_sound_world_passes_and_one_with_a_fault_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a busy machine makes no tool slow
    monkeypatch.setattr("rods.worlds.checking.environments.ALL_CALLS", 600.0)
    assert not checked(name, rule_worlds.source(name), tmp_path)
    _, tool, _, source = next(rule_worlds.planted(name))
    assert ("rules", tool) in {
        (fault.control, fault.where) for fault in checked(name, source, tmp_path)
    }
