"""Seeded defects of a world, each by name, are found whatever the random seed, by a control that
they belong to; sound worlds of many constructs pass with every one. `WHOLE=1`: all of them with ten
random seeds, else some with one."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from rods.family.environments.checking.worlds import program_faults
from tests.conftest import WHOLE
from tests.family.environments.checking.small_world import checked, spoilt
from tests.family.environments.checking.test_worlds import HIDDEN, RUNNING, STATIC, STATIC_TOO

SEEDS = range(10)
SHARE = 8  # one in so many is tried where not all are
CORPUS = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text(encoding="utf-8"))
# By name, what is to find it, and the changes of the source.
DEFECTS = {
    name: (set(world["controls"].split()), world["changes"])
    for name, world in CORPUS["defects"].items()
}
DEFECTS |= {f"running: {name}": ({name, "errors"}, change) for name, change in RUNNING.items()}
DEFECTS |= {f"hidden: {name}": ({"snapshots"}, changes) for name, changes in HIDDEN.items()}
DEFECTS = {
    name: (told, [given] if isinstance(given[0], str) else given)
    for name, (told, given) in DEFECTS.items()
}
# once, by sampled calls alone
MISSED = [("a refusal after the change", 6), ("a refusal after a note", 7)]
SOUND = {name: world["changes"] for name, world in CORPUS["sound"].items()}


def some(names: Iterable[str]) -> list[tuple[str, int]]:
    """(name, random seed): all with ten seeds, or some with one."""
    if os.environ.get(WHOLE):
        return [(name, seed) for name in names for seed in SEEDS]
    return [(name, at % len(SEEDS)) for at, name in enumerate(names) if at % SHARE == 0]


def test_sixty_defects_are_seen_as_the_world_runs_and_forty_worlds_are_sound() -> None:
    assert len(DEFECTS) >= 60 and len(STATIC) + len(STATIC_TOO) >= 19 and len(SOUND) >= 40


def test_the_source_of_a_sound_world_shows_nothing() -> None:
    shown = {
        name: [fault.what for fault in program_faults(spoilt(*world), "w.py")]
        for name, world in SOUND.items()
    }
    assert not {name: faults for name, faults in shown.items() if faults}


@pytest.mark.few(5)
@pytest.mark.slow
@pytest.mark.needs("sandbox")
@pytest.mark.parametrize(("name", "random_seed"), dict.fromkeys([*some(DEFECTS), *MISSED]))
def test_a_defect_is_found(name: str, random_seed: int, tmp_path: Path) -> None:
    controls, changes = DEFECTS[name]
    seconds = 1.0 if "runaway" in controls else 10.0
    report = checked(spoilt(*changes), tmp_path, seconds, random_seed=random_seed)
    assert controls.intersection(fault.control for fault in report.faults), report.lines()


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.needs("sandbox")
@pytest.mark.parametrize(("name", "random_seed"), some(SOUND))
def test_a_sound_world_passes(name: str, random_seed: int, tmp_path: Path) -> None:
    report = checked(spoilt(*SOUND[name]), tmp_path, random_seed=random_seed)
    assert report.ok, report.lines()
