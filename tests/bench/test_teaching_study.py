"""The registered study of feedback and interface: each condition is what its name says, and the
page registers them."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from bench import nano_loop
from bench.teaching_study import STUDY, asking, looked_at, verdicts
from rods.config import identity_diff, parse_config

pytestmark = pytest.mark.needs("house_rules", "feedback", "seal")
BASE = ("base",)
ALL = ("base", "long_context", "miss_func", "miss_param")
HOOK = {"training.advantage_hook: '' → 'rods.family.seal.weights:seal'"}
RODS = {"selection.seeds_per_step: 0 → 6"}
KL = {"training.kl: 0.0 → 0.1"}
PLAIN: dict[str, Any] = {"types": ALL, "reward": "progress", "feedback": "plain", "interface": ""}
PLAIN |= {"feedback_fade_steps": 0, "until": "epochs", "epochs": 0}
BINARY = {"reward": "binary"}
HINTS = {"feedback": "hints"}
FULL = {**BINARY, "interface": "seal-full"}
FADED = {**HINTS, "feedback_fade_steps": 16}


def stages(*feedback: dict[str, Any]) -> list[dict[str, Any]]:
    """The four stages, the second and third with this feedback."""
    second, third = feedback or ({}, {})
    first = {"types": BASE, "reward": "format", "until": "plateau", "epochs": 1}
    second = {"types": BASE, **second, "until": "plateau", "epochs": 3}
    return [first, second, {**third, "until": "plateau", "epochs": 1}, {}]


# stages, other changes, compared with
CONDITIONS: dict[str, tuple[list[dict[str, Any]], set[str], str]] = {
    "static data": ([{}], set(), "static data"),
    "stages alone": (stages(), set(), "static data"),
    "hints": ([{**HINTS, "epochs": 2}, {}], set(), "static data"),
    "agents' texts": ([{"feedback": "agents", "epochs": 2}, {}], set(), "static data"),
    "faded hints": ([FADED], set(), "static data"),
    "Environment Tuning": (stages(HINTS, HINTS), set(), "static data"),
    "Environment Tuning, faded": (
        stages(*[{**HINTS, "feedback_fade_steps": 14}] * 2),
        set(),
        "static data",
    ),
    "rules told": ([{}], {"data.tasks: 'house-3.jsonl' → 'told-3.jsonl'"}, "static data"),
    "static data, binary": ([BINARY], set(), "static data"),
    "SEAL's weights": ([BINARY], HOOK, "static data, binary"),
    "SEAL's interface": ([FULL], set(), "static data, binary"),
    "SEAL active": ([{**BINARY, "interface": "seal-active"}], HOOK, "static data, binary"),
    "SEAL full": ([FULL], HOOK, "static data, binary"),
    "SEAL full, withdrawn": ([{**FULL, "epochs": 2}, BINARY], HOOK, "static data, binary"),
    "RODS": ([{}], RODS, "static data"),
    "faded hints and RODS": ([FADED], RODS, "RODS"),
    "static data, KL 0.1": ([{}], KL, "static data"),
    "faded hints, KL 0.1": ([FADED], KL, "static data, KL 0.1"),
    "Environment Tuning, KL 0.1": (stages(HINTS, HINTS), KL, "static data, KL 0.1"),
    "SEAL full, KL 0.1": ([FULL], HOOK | KL, "static data, binary, KL 0.1"),
    "static data, binary, KL 0.1": ([BINARY], KL, "static data"),
}


def test_a_condition_is_what_its_name_says() -> None:
    found = {
        name: parse_config(STUDY.configuration(name, 3), where="test").identity()
        for name in STUDY.conditions
    }
    static = found["static data"]
    known = {}
    for name, identity in found.items():
        changed = {
            one
            for one in identity_diff(static, identity)
            if not one.startswith("curriculum.stages")
        }
        shown = [{key: stage[key] for key in PLAIN} for stage in identity["curriculum"]["stages"]]
        known[name] = (
            [{**stage, "types": tuple(stage["types"])} for stage in shown],
            changed,
            STUDY.against(name),
        )
    assert known == {
        name: ([PLAIN | one for one in of], *rest) for name, (of, *rest) in CONDITIONS.items()
    }
    assert (
        static["training"]["steps"],
        static["training"]["kl"],
        static["rollouts"]["max_steps"],
    ) == (24, 0.0, 20)
    assert (
        static["training"]["deterministic"] and static["sync"] == "lockstep" and STUDY.seeds == 10
    )
    begun = [STUDY.configuration("hints", seed)["random_seeds"]["policy"] for seed in range(1, 11)]
    assert (
        begun
        == [values["random_seeds"]["policy"] for values in STUDY.warm_starts()][::-1] * 5
        == [1, 0] * 5
    )
    tasks = static["data"]["train"]
    batch = static["training"]["batch_tasks"]
    assert tasks // batch * 2 == 2 + 6 + 8 == 16, "8 steps of 24 are left without what is withdrawn"


def test_a_stub_plays_the_agents_where_a_stage_shows_their_texts() -> None:
    with asking(STUDY.configuration("hints", 3)) as values:
        assert "endpoints" not in values["operation"]
    configured = STUDY.configuration("agents' texts", 3)
    with asking(configured) as values:
        (endpoint,) = parse_config(values, where="test").operation.endpoints
        with urllib.request.urlopen(f"{endpoint.urls[0]}/models") as answer:
            assert json.load(answer)["data"][0]["id"] == endpoint.model
    assert nano_loop.identity(values) == nano_loop.identity(configured)


def test_the_page_registers_every_condition_and_hypothesis() -> None:
    page = (Path(__file__).parents[2] / "docs" / "teaching.md").read_text(encoding="utf-8")
    rows = {
        line.split(" | ")[0].removeprefix("| ")
        for line in page.splitlines()
        if line.startswith("| ")
    }
    assert STUDY.conditions.keys() <= rows
    for family, members in STUDY.hypotheses.items():
        for name in members:
            assert (
                name in STUDY.conditions
                and f"| {name} | {family} | {STUDY.against(name)} |" in page
            )


def test_no_hypothesis_holds_before_all_of_its_runs_are_there() -> None:
    """And what was told the rules is compared at its end: it begins with more than it gains."""

    def line(seed: int, end: float, start: float = 0.2) -> dict[str, Any]:
        gained = {"start": {"all": start}, "end": {"all": end}}
        return {**gained, "greedy": gained, "seed": seed}

    for seeds, said in ((10, "yes"), (9, "not yet known")):
        mine = {seed: line(seed, 0.6 + seed / 100, start=0.55) for seed in range(1, seeds + 1)}
        other = {seed: line(seed, 0.3 + seed / 200) for seed in range(1, seeds + 1)}
        rows = [*verdicts({"rules told": mine, "static data": other}, STUDY)]
        cells = next(row for row in rows if row.startswith("| rules told | primary")).split(" | ")
        assert cells[6] == said and cells[8].count("+0.3") == 2, "each warm start has its mean"


def test_the_worlds_that_are_looked_at_are_none_of_the_study() -> None:
    worlds = {task.environment.name for task, _ in looked_at(told=False)[:20]}
    assert worlds and not worlds & {f"{seed}.house" for seed in range(1, STUDY.seeds + 1)}
