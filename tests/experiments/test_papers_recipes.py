"""The recipes of 000's and 002's tables and figures differ from the run that they are compared with
in what their rows name, and in nothing else; tests/experiments/test_dry_runs.py reads the logs of
each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rods.config import Config, identity_diff, read_config

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
TUNING = EXPERIMENTS / "environment-tuning"
SEAL = EXPERIMENTS / "seal"
ALL = ("base", "long_context", "miss_func", "miss_param")
FORM = ("base",), "format", "plain", "plain"
BASE = ("base",), "progress", "plain", "hints"
HINTS = ALL, "progress", "resourceful", "hints"
EVALUATED = ALL, "progress", "resourceful", "plain"
# Of each recipe: the tasks, reward, prompt and feedback of its stages, and what else differs.
TUNINGS: dict[str, tuple[list[Any], list[str]]] = {
    "grpo": ([(ALL, "progress_format", "resourceful", "plain")], []),
    "toolrl": ([(ALL, "toolrl", "resourceful", "plain")], []),
    "one-stage": ([EVALUATED], []),
    "no-hints": ([FORM, (("base",), "progress", "plain", "plain"), EVALUATED, EVALUATED], []),
    "binary": (
        [
            FORM,
            (("base",), "binary", "plain", "hints"),
            (ALL, "binary", "resourceful", "hints"),
            EVALUATED,
        ],
        [],
    ),
    "agents": (
        [
            FORM,
            (("base",), "progress", "plain", "agents"),
            (ALL, "progress", "resourceful", "agents"),
            EVALUATED,
        ],
        ["feedback.form: 'beside' → 'in_place'"],
    ),
    "kl-0.001": ([FORM, BASE, HINTS, EVALUATED], ["training.kl: 0.1 → 0.001"]),
    "kl-0": ([FORM, BASE, HINTS, EVALUATED], ["training.kl: 0.1 → 0.0"]),
}
HOOK = "training.advantage_hook: 'rods.family.seal.weights:seal' → ''"
SEALS: dict[str, tuple[str, str, list[str]]] = {  # interface, evolve, what else differs
    "full": ("seal-full", "guidelines", []),
    "no-interface": ("", "guidelines", []),
    "no-reweighting": ("seal-full", "guidelines", [HOOK]),
    "no-update": ("seal-full", "none", []),
    "vanilla": ("", "guidelines", [HOOK]),
}


def beside_stages(base: Config, other: Config) -> list[str]:
    """In what the recipes differ but for the stages of the curriculum."""
    lines = identity_diff(base.identity(), other.identity())
    return [line for line in lines if not line.startswith("curriculum.stages.")]


@pytest.mark.parametrize(("folder", "named"), [(TUNING, TUNINGS), (SEAL, SEALS)])
def test_every_recipe_has_its_row(folder: Path, named: dict[str, Any]) -> None:
    rows = re.findall(r"^\| `([\w.-]+)\.toml` \|", (folder / "README.md").read_text(), re.M)
    assert sorted(rows) == sorted(named) == sorted(file.stem for file in folder.glob("*.toml"))


@pytest.mark.needs("feedback")
@pytest.mark.parametrize("name", TUNINGS)
def test_a_recipe_of_environment_tuning_differs_in_what_it_is_named_for(name: str) -> None:
    base = read_config(EXPERIMENTS / "training" / "environment-tuning.toml")
    other = read_config(TUNING / f"{name}.toml")
    stages, beside = TUNINGS[name]
    shown = [
        (stage.types, stage.reward, stage.prompt, stage.feedback)
        for stage in other.curriculum.stages
    ]
    assert shown == stages and beside_stages(base, other) == beside
    whole = [(stage.until, stage.epochs, stage.expand) for stage in base.curriculum.stages]
    assert [
        (stage.until, stage.epochs, stage.expand) for stage in other.curriculum.stages
    ] == whole[-len(stages) :]
    writers = other.operation.endpoints
    assert base.operation == other.operation.model_copy(update={"endpoints": ()})
    assert bool(writers) == (name == "agents")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.needs("seal")) if name == "no-update" else name
        for name in SEALS
    ],
)
def test_a_recipe_of_seal_differs_in_what_it_is_named_for(name: str) -> None:
    base = read_config(EXPERIMENTS / "training" / "seal.toml")
    other = read_config(SEAL / f"{name}.toml")
    interface, evolve, beside = SEALS[name]
    (stage,) = other.curriculum.stages
    (plain,) = base.curriculum.stages
    assert stage == plain.model_copy(update={"interface": interface, "evolve": evolve})
    assert beside_stages(base, other) == beside and base.operation == other.operation


def test_the_baselines_of_trustee_differ_in_their_reward() -> None:
    """001 D.5; all else as in its recipe."""
    folder = EXPERIMENTS / "trustee"
    toolrl, exact = (read_config(folder / f"{name}.toml") for name in ("toolrl", "tool-n1"))
    assert beside_stages(toolrl, exact) == [] and toolrl.operation == exact.operation
    (one,), (other,) = (config.curriculum.stages for config in (toolrl, exact))
    assert one.reward == "toolrl" and other == one.model_copy(update={"reward": "exact_calls"})
    assert (toolrl.training.batch_tasks, toolrl.training.steps) == (32, 500)
