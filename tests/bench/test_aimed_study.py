"""The registered study of aimed synthesis: conditions differ in what their names say, spend the
same rollouts, and a run that is killed gives the same line."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from bench import aimed_study, nano_loop
from bench.aimed_study import STUDY, AimedStudy, verdicts
from bench.nano_loop import Line, Values
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import EXPANDED, SEEDS
from rods.buffers.state import RunState, read_state
from rods.config import identity_diff, parse_config
from rods.family.probe.settings import PROBES
from rods.rules.zones import zone_of

pytestmark = [pytest.mark.needs("aiming", "skills", "probe", "environments")]
SKILLS = "skills.enabled: False → True"
ON = "aiming.enabled: False → True"
RANDOM = "selection.order: 'proxy' → 'random'"
REFILL = "rollouts.refill: 0 → 1"
PROBE = {"probe.enabled: False → True", "pipeline.variants_per_seed: 1 → 3"}
NONE = "selection.seeds_per_step: {} → 0"
SCHEDULE = "aiming.schedule_steps: 0 → {}"
SETTINGS = [
    ["training.checkpoint_steps: 16 → 40", "training.steps: 48 → 240"],
    ["training.learning_rate: 0.01 → 0.001", "training.optimizer: 'muon' → 'adamw'"],
]
CHANGES = {  # what each condition changes, and nothing else, beside RODS in its setting
    "static data": {NONE},
    "random seeds": {RANDOM},
    "RODS": set(),
    "skills": {SKILLS},
    "directions": {ON},
    "directions and skills": {SKILLS, ON},
    "directions, skills and probe": {SKILLS, ON, *PROBE},
    "blind ladder": {RANDOM, ON, SCHEDULE},
    "static data, refilled": {NONE, REFILL},
    "random seeds, refilled": {RANDOM, REFILL},
    "the best, refilled": {ON, REFILL},  # where directions are the best
}
SMALL: Values = {  # a run of a simulated policy, in seconds
    "data": {"tasks": "desk-small", "train": 8, "held_out": 8},
    "policy": {"kind": "simulated", "skill": 0.1, "growth": 0.05},
    "rollouts": {"rollouts_per_task": 4},
    "training": {"batch_tasks": 4, "steps": 12, "checkpoint_steps": 2},
    "selection": {
        "groups": [["base", "long_context", "miss_func", "miss_param"]],
        "exclusion_steps": 0,
        "seeds_per_step": 3,
    },
    "pool": {"inject_fraction": 0.4, "max_generated": 8},
    "operation": {"threads": 1, "trace_bytes": 0},
}


def small_study(folder: Path, **cells: list[int]) -> AimedStudy:
    """A study with the registered conditions, whose runs take seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "desk.toml").write_text(tomli_w.dumps(SMALL))
    setting = {
        "base": "desk",
        "cells": {name.replace("_", " "): seeds for name, seeds in cells.items()},
    }
    best = {**STUDY.plan["best"], "setting": "small", "seeds": [1, 2]}
    plan = {**STUDY.plan, "best": best, "settings": {"small": setting}, "hypotheses": {}}
    (folder / "conditions.toml").write_text(tomli_w.dumps(plan))
    study = AimedStudy(folder, "unused")
    study.runs = folder / "runs"
    return study


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> AimedStudy:
    """The registered study, where directions are the best."""
    monkeypatch.setattr(STUDY, "best", lambda: "directions")
    return STUDY


def test_a_condition_differs_from_rods_in_what_its_name_says(
    decided: AimedStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decided.known() == list(decided.conditions)
    for name, cell in [*decided.conditions.items()]:
        rods = f"{cell['setting']}: RODS"
        monkeypatch.setitem(decided.conditions, rods, {**cell, "condition": "RODS"})
        base, found = (
            parse_config(decided.configuration(one, 3), where="test") for one in (rods, name)
        )
        numbers = {NONE: base.selection.seeds_per_step, SCHEDULE: found.training.steps}
        wanted = {change.format(numbers.get(change)) for change in CHANGES[cell["condition"]]}
        assert set(identity_diff(base.identity(), found.identity())) == wanted, name
        assert found.sync == "lockstep" and found.training.deterministic
        assert (
            len({found.random_seeds.order, found.random_seeds.rollouts, found.random_seeds.daemon})
            == 1
        )


def test_a_setting_differs_from_its_base_in_what_its_name_says(decided: AimedStudy) -> None:
    found = {}
    for setting in decided.plan["settings"]:
        name = f"{setting}: random seeds"
        found[setting] = parse_config(decided.configuration(name, 3), where="test").identity()
    first, *others = found.values()
    assert next(iter(found)) == "desk, 48 steps, Muon" and first["training"]["steps"] == 48
    assert [identity_diff(first, other) for other in others[:-1]] == SETTINGS
    assert (
        list(found)[-1].startswith("generated worlds")
        and found[list(found)[-1]]["policy"]["warm_start"] == "generated"
    )


def test_the_best_condition_is_decided_by_the_registered_rule_and_run_last(tmp_path: Path) -> None:
    cells = {"skills": [1, 2], "directions": [1, 3], "directions_and_skills": [1, 2]}
    cells |= {"directions,_skills_and_probe": [1, 2], "the_best,_refilled": [2, 2]}
    study = small_study(tmp_path, **cells)
    asked = list[tuple[str, int]]()
    gains = {
        "skills": (0.1, 0.2),
        "directions": (0.0, 0.4, -1.0),
        "directions and skills": (0.3, 0.0),
    }

    def trained(path: Path, name: str, seed: int, values: Values) -> Line:
        asked.append((name, seed))
        gained = gains.get(study.conditions[name]["condition"], (0.0,) * 3)[seed - 1]
        identity = nano_loop.identity(values)
        return {
            "condition": name,
            "seed": seed,
            "identity": identity,
            "start": {"all": 0.5},
            "end": {"all": 0.5 + gained},
        }

    with pytest.raises(LookupError):
        study.best()
    assert "small: the best, refilled" not in study.known()
    study.run_missing(20, (), trained)
    assert study.best() == "directions", "random seed 3 has no say"
    assert asked[-1] == ("small: the best, refilled", 2) and len(asked) == len(set(asked)) == 10
    best = study.configuration("small: the best, refilled", 2)
    assert (
        best["aiming"] == {"enabled": True}
        and best["rollouts"]["refill"] == 1
        and "skills" not in best
    )
    assert len(study.recorded()) == 10


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[AimedStudy, dict[str, Line]]:
    """A small run of each condition that a policy without weights can tell apart."""
    names = [
        "static data",
        "random seeds",
        "RODS",
        "directions",
        "blind ladder",
        "random seeds, refilled",
    ]
    names.append("directions, skills and probe")
    study = small_study(
        tmp_path_factory.mktemp("aimed"), **{name.replace(" ", "_"): [1, 1] for name in names}
    )
    study.run_missing(1, (), aimed_study.measured)
    return study, {
        study.conditions[line["condition"]]["condition"]: line for line in study.recorded()
    }


def picks(study: AimedStudy, name: str) -> list[dict[str, Any]]:
    path = study.runs / f"1-small:_{name.replace(' ', '_')}"
    return [record for record in read(path / SEEDS) if record["kind"] == "picked"]


@pytest.mark.slow
def test_the_logs_of_runs_differ_in_what_their_names_say(
    played: tuple[AimedStudy, dict[str, Line]],
) -> None:
    study, _ = played
    zones = parse_config(SMALL, where="test").zones
    found = {
        name: picks(study, name)
        for name in ("static data", "random seeds", "RODS", "directions", "blind ladder")
    }
    assert not found["static data"]
    for name in ("random seeds", "blind ladder"):
        assert {pick["why"]["order"] for pick in found[name]} == {"random"}
    assert {zone_of(pick["why"]["mean"], zones) for pick in found["RODS"]} == {"boundary"}
    assert {zone_of(pick["why"]["mean"], zones) for pick in found["directions"]} == {
        "boundary",
        "too_hard",
    }
    assert not any(
        "aim" in pick["why"] for name in ("random seeds", "RODS") for pick in found[name]
    )
    ways = {pick["step"]: pick["why"]["aim"]["direction"] for pick in found["blind ladder"]}
    assert all(way in ("sideways", expected(step / 12)) for step, way in ways.items())
    assert {"easier", "harder"} <= {*ways.values()}
    for pick in found["directions"]:
        assert pick["why"]["aim"]["direction"] in ("sideways", expected(pick["why"]["mean"]))


def expected(level: float) -> str:
    return "easier" if level < 0.3 else "harder" if level > 0.7 else "sideways"


@pytest.mark.slow
def test_all_conditions_spend_the_rollouts_of_the_registered_steps(
    played: tuple[AimedStudy, dict[str, Line]],
) -> None:
    study, lines = played
    budget = 12 * 4 * 4
    step = 4 * 4
    for name, line in lines.items():
        path = study.runs / f"1-small:_{name.replace(' ', '_')}"
        counted = sum(
            len(group.rollouts)
            for closed in RunState(Run.open(path)).steps()
            for group in closed.groups
        )
        probes = (
            [one for record in read(path / PROBES) for one in record["variants"]]
            if "probe" in name
            else []
        )
        counted += sum(len(one["rollouts"]) for one in probes)
        assert line["rollouts"] == line["curve"][-1]["rollouts"] == counted <= budget
        if name.endswith("refilled"):
            assert budget - counted < 2 * step and line["updates"] < 12, (
                "a further step could cost too much"
            )
            groups = [
                group for closed in RunState(Run.open(path)).steps() for group in closed.groups
            ]
            assert any(group.replaced for group in groups)
        elif probes:
            assert counted > line["updates"] * step and line["updates"] < 12
            staged = len(read_state(Run.open(path)).staging)
            assert budget - counted < step + 3 * 3 * 2 + 2 * staged, (
                "no further step was sure to fit"
            )
            assert max(Counter(one["pick"] for one in probes).values()) == 3
        else:
            assert counted == budget and [point["step"] for point in line["curve"]] == list(
                range(0, 13, 2)
            )
        written = sum(1 for _ in read(path / EXPANDED)) if name != "static data" else 0
        assert (
            line["variants"]["injected"]
            == line["curve"][-1]["injected"]
            <= line["curve"][-1]["written"]
            <= written
        )
    assert sum(one["variants"] for one in lines["directions"]["landed"].values()) > 0
    assert list(aimed_study.table(list(study.recorded()), study))


PROGRAM = """
import sys
from pathlib import Path
from bench.aimed_study import AimedStudy, measured
study = AimedStudy(Path(sys.argv[1]), "unused")
study.runs = Path(sys.argv[1]) / "runs"
study.run_missing(1, (), measured)
"""


def killed(folder: Path, moments: list[float]) -> Line:
    """The line of a small study of one run that is killed after each of these many seconds: in turn
    all of its processes, or the study alone."""
    study = small_study(folder, **{"random_seeds,_refilled": [1, 1]})
    for number, seconds in enumerate([*moments, None]):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder)],
            cwd=Path(__file__).parent.parent.parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            (os.kill if number % 2 else os.killpg)(process.pid, signal.SIGKILL)
        process.wait()
    (line,) = study.recorded()
    return {name: value for name, value in line.items() if name != "seconds"}


@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_a_study_that_is_killed_at_random_moments_gives_the_same_line(
    tmp_path: Path, kills: int
) -> None:
    began = time.monotonic()
    wanted = killed(tmp_path / "whole", [])
    seconds = time.monotonic() - began
    rng = random.Random(kills)
    moments = [rng.uniform(1, max(2.0, seconds / 2)) for _ in range(kills)]
    assert killed(tmp_path / "killed", moments) == wanted


def made_up(
    setting: str, name: str, seed: int, ends: tuple[float, float], written: tuple[int, int]
) -> Line:
    scores = [dict.fromkeys(aimed_study.PARTS, value) for value in (0.1, *ends)]
    curve = [
        {"step": step, "rollouts": step * 10, "written": count, "injected": count, "scores": score}
        for step, count, score in zip((0, 10, 20), (0, *written), scores, strict=True)
    ]
    return {
        "condition": f"{setting}: {name}",
        "seed": seed,
        "start": scores[0],
        "end": scores[-1],
        "curve": curve,
        "rollouts": 200,
        "updates": 20,
        "varied": 0.5,
        "landed": {"easier": {"variants": 2, "seed": 0.1, "first": 0.6}} if written[1] else {},
    }


def test_figures_are_read_from_the_curve_as_registered() -> None:
    mine = made_up("s", "a", 1, (0.3, 0.5), (10, 20))
    other = made_up("s", "b", 1, (0.2, 0.6), (20, 40))
    assert aimed_study.area(mine) == pytest.approx((0.1 + 0.3) / 2)
    assert (
        aimed_study.reached(mine, 0.4) == pytest.approx(150)
        and aimed_study.reached(mine, 0.6) is None
    )
    assert aimed_study.reached(mine, 0.1) == 0
    assert aimed_study.gain_at(other, "written", 30) == pytest.approx(0.3)
    assert aimed_study.at_equal(mine, other, "written") == pytest.approx(0.4 - 0.1)
    flat = made_up("s", "b", 1, (0.2, 0.6), (20, 20))
    assert aimed_study.gain_at(flat, "written", 20) == pytest.approx(0.5), (
        "the last point with no more"
    )


def test_p_values_are_those_of_student_and_adjusted_by_holm() -> None:
    values = [0.1, 0.2, 0.3]
    assert aimed_study.above_zero(values) == pytest.approx(0.0371, abs=1e-4)
    assert aimed_study.above_zero([-value for value in values]) == pytest.approx(
        1 - 0.0371, abs=1e-4
    )
    assert aimed_study.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )


def test_the_table_has_every_registered_test_and_every_condition_that_was_run() -> None:
    lines = []
    rng = random.Random(0)
    for name, cell in STUDY.conditions.items():
        setting = cell["setting"]
        condition = cell["condition"]
        aimed = condition in STUDY.plan["best"]["of"]
        for seed in range(cell["seeds"][0], cell["seeds"][1] + 1):
            end = 0.3 + 0.2 * aimed + rng.uniform(0, 0.02)
            count = 0 if condition.startswith("static") else 40 - 10 * aimed
            lines.append(made_up(setting, condition, seed, (end / 2, end), (count // 2, count)))
            assert lines[-1]["condition"] == name
    rows = list(aimed_study.table(lines, STUDY))
    for name, known in STUDY.plan["hypotheses"].items():
        for condition in known["conditions"]:
            row = next(
                row
                for row in rows
                if row.startswith(f"| {name}: {condition} | {known['family']} | ")
            )
            assert row.endswith((" yes |", " no |"))
            if known["family"] == "primary":
                assert row.endswith(" yes |")
    for cell in STUDY.conditions.values():
        assert sum(row.startswith(f"| {cell['condition']} | ") for row in rows) >= 3
    head = next(
        at
        for at, row in enumerate(rows)
        if row == f"**{STUDY.conditions[STUDY.anchor]['setting']}**"
    )
    assert "easier" in "".join(rows[head:]) and "0.10 → 0.60" in "".join(rows[head:])


def test_every_cell_is_registered_on_the_page() -> None:
    page = (nano_loop.ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    for cell in STUDY.conditions.values():
        assert cell["setting"] in page and f"| {cell['condition']} |" in page
    for name in STUDY.plan["hypotheses"]:
        assert f"| {name} |" in page
    assert f"{len(STUDY.runs_of(STUDY.seeds)) + left_out(STUDY)} runs" in page


def left_out(study: AimedStudy) -> int:
    """The runs of the best condition, where it is not known yet."""
    later = [cell for name, cell in study.conditions.items() if name not in study.known()]
    return sum(cell["seeds"][1] - cell["seeds"][0] + 1 for cell in later)


def test_a_line_is_kept_as_it_was_measured() -> None:
    """Recorded lines are of the registered configuration, spent what was registered, and none is
    there twice."""
    lines = STUDY.recorded()
    assert len({(line["condition"], line["seed"]) for line in lines}) == len(lines)
    for line in lines:
        values = STUDY.configuration(line["condition"], line["seed"])
        step = values["training"]["batch_tasks"] * values["rollouts"]["rollouts_per_task"]
        budget = values["training"]["steps"] * step
        dearest = step * (1 + values["rollouts"].get("refill", 0))
        # what waits in staging may still be played, and is kept free for that
        probes = "probe" in values
        assert (0.85 * budget if probes else budget - dearest) < line["rollouts"] <= budget
        assert json.dumps(line)


def test_no_hypothesis_holds_before_all_of_its_runs_are_there() -> None:
    (line, *_) = STUDY.recorded()
    setting = "desk, 48 steps, Muon"

    def better(seed: int) -> Line:
        by = 0.1 + seed / 1000
        last = {
            **line["curve"][-1],
            "scores": {part: score + by for part, score in line["end"].items()},
        }
        return {**line, "curve": [*line["curve"][:-1], last], "end": last["scores"]}

    def said(count: int) -> str:
        seeds = range(1, count + 1)
        plain = dict.fromkeys(seeds, line)
        grown = {seed: better(seed) for seed in seeds}
        cells = {f"{setting}: random seeds": plain, f"{setting}: skills": grown}
        (row,) = (row for row in verdicts(cells, STUDY) if "aimed over random seeds: skills" in row)
        return row

    assert "| 19 of 20 |" in said(19) and said(19).endswith("| 0.0000 | 0.0000 | not yet known |")
    assert "| 20 of 20 |" in said(20) and said(20).endswith("| 0.0000 | 0.0000 | yes |")
