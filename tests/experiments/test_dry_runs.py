"""Every recipe is trained for two steps, or for an epoch of each of its stages, with a small model
of random weights in its model's place: the rewards, feedback, interfaces, losses and penalties that
it names are played, scored and trained on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import tomli_w

from rods.buffers.audit.verify import verify
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.config import read_config, read_values
from rods.errors import EXIT_OK
from rods.observations import FORMAT_REWARDS, Rollout
from rods.trainer.main import run
from tests.trainer.nano_parts import saved

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FOLDERS = ("ablations", "backbones", "environment-tuning", "native", "seal", "training")
FILES = {
    f"{file.parent.name}/{file.stem}": file
    for folder in (*FOLDERS, "trustee")
    for file in sorted((EXPERIMENTS / folder).glob("*.toml"))
    # tests/experiments/test_trustee.py plays the others, in simulated environments
    if folder != "trustee" or file.stem in ("tool-n1", "toolrl")
    if file.stem != "cpu-warm-up"  # supervised
}
# what stands in the place of the tasks, of their lengths, and of the servers
SMALL: dict[str, dict[str, Any]] = {
    "data": {"tasks": "desk", "train": 8, "held_out": 4},
    "rollouts": {
        "rollouts_per_task": 2,
        "max_steps": 2,
        "max_reply_tokens": 32,
        "max_context_tokens": 4096,
    },
    "operation": {"threads": 1},
}

EARNED: dict[str, Callable[[Rollout], float]] = {  # by the kind of reward, of what is on record
    "progress": lambda one: one.resolved / one.expected,
    "binary": lambda one: float(one.binary),
    "progress_format": lambda one: 0.9 * one.resolved / one.expected + 0.1 * one.format,
    "format": lambda one: one.format,
    "format_codes": lambda one: one.format,
}


def shrunk(file: Path, model: Path) -> dict[str, Any]:
    """Its values with `model`, a few tasks of desk and stages of one epoch each."""
    values: dict[str, Any] = read_values(file) | SMALL
    values["sync"] = "free"
    values["policy"] = {
        "kind": "transformers",
        "model": str(model),
        "dialect": "compact",
        "lora_rank": values["policy"].get("lora_rank", 0),
    }
    stages = read_config(file).curriculum.model_dump(mode="json")["stages"]
    for stage in stages[:-1]:
        stage |= {"until": "epochs", "epochs": 1}
    values["curriculum"] = values.get("curriculum", {}) | {"stages": stages}
    # the tasks are as many of each type, so that two at a time are an epoch of one type's
    steps = 1 + sum(len(stage["types"]) for stage in stages[:-1])
    small = {"batch_tasks": 2, "steps": max(2, steps), "checkpoint_steps": 8}
    values["training"] = values.get("training", {}) | small
    values["pipeline"] = values.get("pipeline", {}) | {"author": "procedural"}
    return values


def brief(folder: Path) -> Path:
    """A model of random weights, every other token of which ends a reply: most replies are words
    that are no calls, and none is cut."""
    config = saved(folder) / "generation_config.json"
    config.write_text(orjson.dumps({"eos_token_id": list(range(0, 400, 2))}).decode())
    return folder


def needing(name: str) -> Any:
    """`name`, for a test of the recipe, which may show feedback or need SEAL."""
    text = str(read_values(FILES[name]))
    parts = {"feedback": "'feedback': '", "seal": "rods.family.seal"}
    needed = [part for part, word in parts.items() if word in text]
    return pytest.param(name, marks=pytest.mark.needs(*needed) if needed else ())


@pytest.mark.slow
@pytest.mark.few("environment-tuning/binary", "seal/full")
@pytest.mark.parametrize("name", [needing(name) for name in FILES])
def test_a_recipe_trains_with_a_small_model_in_the_place_of_its_own(
    name: str, tmp_path: Path
) -> None:
    values = shrunk(FILES[name], brief(tmp_path / "policy"))
    (tmp_path / "c.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    assert run([str(tmp_path / "run"), "--config", str(tmp_path / "c.toml")]) == EXIT_OK
    opened = Run.open(tmp_path / "run")
    steps = list(RunState(opened).steps())
    stages = values["curriculum"]["stages"]
    assert len(steps) == values["training"]["steps"]
    assert {step.stage for step in steps} == set(range(1, len(stages) + 1))
    for step in steps:
        stage = stages[step.stage - 1]
        shown = stage["interface"] or stage["feedback"] != "plain"
        for group in step.groups:
            assert group.reward == stage["reward"]
            assert (group.interface != "identity") == bool(shown)
            for rollout in group.rollouts:
                assert rollout.valid and rollout.reward is not None
                of_form = group.reward in FORMAT_REWARDS
                assert (rollout.call_format is not None) == of_form
                if group.reward in EARNED:
                    assert rollout.reward == pytest.approx(EARNED[group.reward](rollout))
    assert not verify(opened.path).problems
