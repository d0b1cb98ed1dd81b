"""The study of nano under TRUSTEE's curriculum: its tools, tasks and teacher, and that it runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench import nano_trustee
from bench.nano_loop import ROOT
from bench.nano_trustee import (
    OTHERS,
    STUDY,
    TOOLS,
    TRAINED,
    WORDS,
    careless,
    drawn,
    held_out,
    tools_with_words,
)
from rods.config import parse_config
from rods.dialects import load
from rods.environments.loading import Environments
from rods.players import Players
from tests import tables
from tests.family.simulation.conversations import played

COMPACT = load("compact")
CONDITIONS = ("no curriculum", "curriculum", "behind HTTP")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for category in (TRAINED, OTHERS):
        tools_with_words(category, tmp_path / category)
    return tmp_path


def test_its_conditions_differ_in_what_they_say() -> None:
    configs = {name: parse_config(STUDY.configuration(name, 3), where=name) for name in CONDITIONS}
    assert tuple(STUDY.conditions) == CONDITIONS
    assert [one.difficulty.adaptive for one in configs.values()] == [False, True, True]
    assert [one.simulation.by_model for one in configs.values()] == [
        (),
        (),
        ("tools", "user", "verifier"),
    ]
    assert {one.random_seeds.drawn for one in configs.values()} == {3}
    assert {one.source.drawn for one in configs.values()} == {1.0}


def test_its_tools_are_eight_of_a_category_and_their_ids_are_words(folder: Path) -> None:
    with Environments() as environments:
        for category in (TRAINED, OTHERS):
            world = environments.load(f"{category}/")
            assert len(world.tools()) == TOOLS
            for number in range(40):
                for call in drawn(environments, category, 1, number).goal_calls:
                    ids = [value for name, value in call.arguments.items() if name.endswith("_id")]
                    assert set(ids) <= set(WORDS)


def test_a_careful_teacher_earns_everything_and_a_careless_one_seldom_does(folder: Path) -> None:
    with Environments() as environments:
        players = Players(environments)
        tasks = [drawn(environments, TRAINED, 5, number) for number in range(40)]
        jobs = [players.job(task, COMPACT, max_steps=8) for task in tasks]
        for carelessness, least, most in ((0.0, 1.0, 1.0), (1.0, 0.0, 0.2)):
            rng = random.Random(1)
            traces = played(
                jobs, [list(careless(task, COMPACT, carelessness, rng)) for task in tasks]
            )
            assert least <= sum(trace.resolved == 2 for trace in traces) / len(traces) <= most


def test_held_out_tasks_are_of_both_kinds_of_tools(folder: Path) -> None:
    regions = [task.provenance["region"] for task in held_out(2)]
    assert regions.count("trained tools") == regions.count("other tools") == nano_trustee.HELD_OUT


def test_recorded_runs_spent_the_same_and_began_alike_and_the_page_has_their_table() -> None:
    lines = STUDY.recorded()
    seeds = {
        name: sorted(line["seed"] for line in lines if line["condition"] == name)
        for name in CONDITIONS
    }
    assert (
        seeds["no curriculum"] == seeds["curriculum"] == list(range(1, 11)) and seeds["behind HTTP"]
    )
    training, rollouts = (
        STUDY.configuration("curriculum", 1)[section] for section in ("training", "rollouts")
    )
    spent = training["steps"] * training["batch_tasks"] * rollouts["rollouts_per_task"]
    assert {(line["rollouts"], line["updates"]) for line in lines} == {(spent, training["steps"])}
    # behind HTTP the users of held-out tasks are others, too
    starts = {
        (line["seed"], str(line["start"])) for line in lines if line["condition"] != "behind HTTP"
    }
    assert len(starts) == len({seed for seed, _ in starts}), (
        "one policy, one set of held-out tasks a random seed"
    )
    assert all(line["difficulty"]["highest"] > 50 for line in lines)
    page = (ROOT / "docs" / "trustee.md").read_text(encoding="utf-8")
    assert tables.rows(page, "gained more than without").keys() == set(CONDITIONS)
    assert not tables.differences(
        page, "\n".join(nano_trustee.table(lines, STUDY)), "gained more than without"
    )


@pytest.mark.sweep
def test_it_trains_scores_and_says_how_difficult_it_became(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nano_trustee, "HELD_OUT", 3)
    small = {
        "training": {"steps": 2, "batch_tasks": 2, "checkpoint_steps": 2},
        "policy": {"warm_start_steps": 3},
        "rollouts": {"rollouts_per_task": 2, "max_steps": 3, "max_reply_tokens": 16},
    }
    lines = [
        nano_trustee.measured_with_drawn_tasks(folder / name.replace(" ", "_"), name, 1, values)
        for name in ("no curriculum", "curriculum")
        for values in [STUDY.configuration(name, 1, small)]
    ]
    assert [line["rollouts"] for line in lines] == [8, 8] and lines[0]["held_out"] == 6
    assert all({"all", "trained tools", "other tools"} == set(line["end"]) for line in lines)
    assert lines[1]["difficulty"]["highest"] >= 1
    assert len(list(nano_trustee.table(lines, STUDY))) == 4
