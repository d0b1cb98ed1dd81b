"""Worlds that are drawn by chance are sound, and so are the scenarios in them."""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rods.conversations import Checks, Persona, Script
from rods.environments import addressed
from rods.environments.loading import Environments
from rods.episode.goals import holds
from rods.errors import UserError
from rods.family.environments.checking.scenarios import WitnessCall, played
from rods.family.environments.kind import skeleton_of
from rods.family.environments.procedural.operations import (
    assembled,
    documentation,
    operations,
    plan,
)
from rods.family.environments.procedural.skeletons import draw_skeleton, draw_state, topics
from rods.family.environments.verbs import generate_worlds
from rods.tasks import OpenTask, read_tasks
from tests.conftest import WHOLE

pytestmark = pytest.mark.slow


def test_skeletons_are_drawn_again_alike_and_differ_from_each_other():
    sources = [assembled(draw_skeleton(3, number)) for number in range(60)]
    assert sources == [assembled(draw_skeleton(3, number)) for number in range(60)]
    assert (
        len(set(sources)) == 60
        and len({draw_skeleton(3, number).topic for number in range(12)}) == 12
    )
    for number, source in enumerate(sources):
        skeleton = draw_skeleton(3, number)
        ast.parse(source)
        told = {each.name: [slot.name for slot in each.slots] for each in operations(skeleton)}
        assert plan(skeleton) == told and len(told) >= 20
        assert all(
            words in documentation(skeleton) for words in (skeleton.about, "Things have keys")
        )


def test_every_topic_has_twelve_labels_of_each_kind_and_keys_that_tell_kinds_apart():
    for number in range(len(topics()) - 2):
        skeleton = draw_skeleton(0, number)
        assert all(len(set(kind.labels)) >= 9 for kind in skeleton.kinds)
        nouns = [*(kind.noun for kind in skeleton.kinds), skeleton.link.noun]
        assert len({noun[:2] for noun in nouns}) == len(nouns)
        state = draw_state(skeleton, 0, 1)
        assert state == draw_state(skeleton, 0, 1) != draw_state(skeleton, 0, 2)


SCENARIOS = 2  # in each world, one told and one asked
WORLDS, LAST, AMONG = (20, 5, ()) if os.environ.get(WHOLE) else (4, 1, ("clinic", "garage"))
# whichever of these tests comes first waits for the worlds and their checks
GROWING = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of worlds of `AMONG` (none: all topics) and their tasks; the `LAST` are held out,
    and those of world 2's topic."""
    folder: Path = tmp_path_factory.mktemp("grown")
    apart: dict[str, Any] = {
        "held_out": LAST,
        "topics": AMONG,
        "held_out_topics": (draw_skeleton(11, 2, AMONG).topic,),
    }
    assert (
        generate_worlds(
            folder, worlds=WORLDS, scenarios=SCENARIOS, mode="both", random_seed=11, **apart
        )
        == 0
    )
    return folder


@GROWING
def test_drawn_worlds_are_sound(grown):
    worlds = list((grown / "environments").iterdir())
    assert len(worlds) == WORLDS
    tasks = open_tasks(grown)
    # none was refused, each has tasks
    assert len({task.environment.name for task in tasks}) == WORLDS
    assert len(tasks) >= 0.7 * WORLDS * SCENARIOS


@GROWING
def test_worlds_of_a_held_out_topic_are_held_out_wherever_they_stand(grown, tmp_path):
    skeletons = [draw_skeleton(11, number, AMONG) for number in range(WORLDS)]
    alike = {
        number for number, skeleton in enumerate(skeletons) if skeleton.topic == skeletons[2].topic
    }
    # besides those that are the last
    assert 2 in alike and len(alike) == 2 and max(alike) < WORLDS - LAST
    names = [addressed.keep(assembled(skeleton), tmp_path) for skeleton in skeletons]
    splits = {task.environment.name: task.split for task in open_tasks(grown)}
    assert splits == {
        name: "test" if number in alike or number >= WORLDS - LAST else "train"
        for number, name in enumerate(names)
    }
    with pytest.raises(UserError, match="no topic is called zoo") as refused:
        generate_worlds(tmp_path / "none", worlds=1, held_out_topics=("clinic", "zoo"))
    assert "clinic" in refused.value.remedy and not (tmp_path / "none").exists()


@pytest.mark.sweep
def test_worlds_of_some_topics_are_sound_and_drawn_again_from_their_tasks(tmp_path):
    both = ("library", "garage")
    assert generate_worlds(tmp_path, worlds=4, scenarios=4, topics=both, random_seed=11) == 0
    tasks = open_tasks(tmp_path)
    assert {task.provenance["topic"] for task in tasks} == {"library", "garage"}
    for task in tasks:
        skeleton = skeleton_of(task)
        assert skeleton is not None and set(task.tools) <= plan(skeleton).keys()
    garage = next(task for task in tasks if task.provenance["topic"] == "garage")
    other = replace(garage, provenance={**garage.provenance, "topics": ["library"]})
    assert skeleton_of(other) is None  # it would be another world


def open_tasks(folder: Path) -> list[OpenTask]:
    return [task for task in read_tasks(folder / "tasks.jsonl") if isinstance(task, OpenTask)]


@GROWING
def test_a_task_is_done_by_its_witness_and_hides_no_key_that_it_asks_for(grown, monkeypatch):
    monkeypatch.chdir(grown)
    tasks = open_tasks(grown)
    assert {type(task.user) for task in tasks} == {Script, Persona}
    with Environments() as environments:
        for task in tasks[:2]:
            environment = environments.load(task.environment.name)
            instance = environment.reset(task.state)
            witness = [WitnessCall.from_json(each) for each in task.provenance["witness"]]
            assert all(
                result is not None and result.error is None for result in played(instance, witness)
            )
            assert isinstance(task.goal, Checks) and all(
                holds(instance, check) for check in task.goal.calls
            )
            assert environment.hash == task.environment.hash
    for task in tasks:
        keys = {
            key for table in (task.state or {}).values() if isinstance(table, dict) for key in table
        }
        assert not any(key in text for key in keys for text in task.texts)
        if isinstance(task.user, Persona):
            told = " ".join((task.user.query, *task.user.further, *task.user.knows.values()))
            for call in task.goal.calls[: len(task.goal.calls) - task.provenance["guards"]]:
                labels = [
                    value
                    for value in call.arguments.values()
                    if isinstance(value, str) and " " in value
                ]
                assert all(label in task.user.intent for label in labels) and told
