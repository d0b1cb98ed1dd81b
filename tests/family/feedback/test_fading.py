"""Hints that fade: fewer with every step, the same ones for the same records, and verify derives
them."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from rods import interfaces
from rods.buffers.audit.verify import verify
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.calls import Call
from rods.config import Stage, parse_config
from rods.errors import EXIT_OK, UserError
from rods.interfaces import Shown
from rods.trainer.main import run as train
from rods.worlds import desk

FADING = {"feedback": "hints", "feedback_fade_steps": 4}


def share(faded: int) -> float:
    """The share of 200 failed calls that are answered with a hint after so many steps."""
    world = desk.environment()
    shown = interfaces.load(Stage.model_validate(FADING), "compact", {"feedback": faded})
    told = 0
    for number in range(200):
        call = Call("read_file", {"fil": f"memo{number}"})
        result = world.reset(None).call(call)
        seen = shown.observation(Shown(world, world.tools()), call, result)
        assert seen == shown.observation(Shown(world, world.tools()), call, result)
        told += "hint" in seen.value
    return told / 200


def test_the_share_of_failures_with_a_hint_falls_to_none() -> None:
    assert share(0) == 1.0 and share(4) == share(9) == 0.0
    assert 0.4 < share(2) < 0.6


def test_a_run_shows_fewer_from_step_to_step_and_verify_derives_which(tmp_path: Path) -> None:
    values = {
        "data": {"tasks": "desk-small", "train": 8, "held_out": 4},
        "policy": {"kind": "simulated"},
        "rollouts": {"rollouts_per_task": 4},
        "training": {"batch_tasks": 4, "steps": 8, "checkpoint_steps": 4},
        "curriculum": {"stages": [{"epochs": 1}, FADING]},
        "selection": {"seeds_per_step": 0},
    }
    config = tmp_path / "c.toml"
    config.write_text(tomli_w.dumps(values))
    assert train([str(tmp_path / "run"), "--config", str(config)]) == EXIT_OK
    versions = [
        {group.interface for group in step.groups}
        for step in RunState(Run.open(tmp_path / "run")).steps()
    ]
    faded = [f"hints-2-terse-fading@{left}" for left in ("1", "0.75", "0.5", "0.25", "0", "0")]
    assert versions == [{"identity"}, {"identity"}, *({version} for version in faded)]
    found = verify(tmp_path / "run")
    assert found.ok and found.counts["interface versions"] == 6


def test_what_cannot_fade_is_refused() -> None:
    with pytest.raises(UserError, match="fades hints by rule"):
        parse_config({"curriculum": {"stages": [{"feedback_fade_steps": 3}]}}, where="test")
    with pytest.raises(UserError, match="has no stage with"):
        stages = [{**FADING, "epochs": 1}, {"feedback": "agents"}]
        parse_config({"curriculum": {"stages": stages}}, where="test")
