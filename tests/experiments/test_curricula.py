"""Both papers' curricula as configuration: the plan of a start accepts them, and a run passes
through their stages."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import orjson
import pytest
import tomli_w

from rods.buffers.audit.verify import verify
from rods.buffers.run.run import Run
from rods.buffers.state import RunState
from rods.config import read_config
from rods.console.main import run as rods
from rods.errors import EXIT_OK
from rods.family.feedback.hints import VERSION
from rods.trainer.main import run
from tests.trainer.nano_parts import saved

FOLDER = Path(__file__).parents[2] / "experiments" / "training"
ENVIRONMENT_TUNING = "environment-tuning"
RODS = "qwen3-4b"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a model, which a plan reads."""
    return saved(tmp_path_factory.mktemp("models") / "policy")


@pytest.mark.needs("bfcl")
@pytest.mark.parametrize(
    ("name", "stages"),
    [
        (
            ENVIRONMENT_TUNING,
            [
                "format on base until a plateau",
                "progress on base with hints until a plateau",
                "progress on base, long_context, miss_func, miss_param with hints until a plateau",
                "progress on base, long_context, miss_func, miss_param until the end of the run",
            ],
        ),
        (
            RODS,
            [
                "format_codes on base until a plateau, at the latest 20 epochs",
                "progress on base until a plateau, at the latest 20 epochs",
                "progress on base, long_context, miss_func, miss_param with variants until the end "
                "of the run",
            ],
        ),
    ],
)
def test_a_plan_accepts_a_curriculum_on_the_papers_tasks(
    name: str, stages: list[str], model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    config = tmp_path / "c.toml"
    config.write_text(
        re.sub(r'^model = "/shared/models.*"$', f'model = "{model}"', text, count=1, flags=re.M)
    )
    assert rods(["plan", str(config)]) == EXIT_OK
    said = capsys.readouterr().out
    assert "train: base 100, long context 100, miss func 100, miss param 100" in said
    at = [said.index(stage) for stage in stages]
    assert at == sorted(at)


def small(name: str, folder: Path, **changes: dict[str, Any]) -> Path:
    """The curriculum of `name` on a few desk tasks, with the simulated policy."""
    recipe = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    values: dict[str, Any] = {
        "sync": "free",
        "data": {"tasks": "desk", "train": 48, "held_out": 24},
        "policy": {"kind": "simulated", "dialect": "tags", "skill": 0.3, "growth": 0.0001},
        "rollouts": {"rollouts_per_task": 4},
        "training": {"batch_tasks": 4, "steps": 400, "checkpoint_steps": 5},
        "curriculum": recipe["curriculum"],
        "pool": {"burn_in": True},
    }
    for section, keys in changes.items():
        values[section] = {**values[section], **keys}
    (folder / "c.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    return folder / "c.toml"


def test_a_run_passes_through_the_four_stages_and_says_why(tmp_path: Path) -> None:
    """The simulated policy learns slowly, so that each stage ends on its plateau."""
    config = small(ENVIRONMENT_TUNING, tmp_path, training={"steps": 110})
    assert run([str(tmp_path / "run"), "--config", str(config)]) == EXIT_OK
    said = [
        orjson.loads(line)
        for line in (tmp_path / "run/logs/trainer.jsonl").read_bytes().splitlines()
    ]
    over = [(line["stage"], line["why"]) for line in said if line["event"] == "stage over"]
    assert [stage for stage, _ in over] == [1, 2, 3]
    assert all(
        re.fullmatch(r"validation 0\.\d+ → 0\.\d+(, 0\.\d+){2}, gradient norms vary by 0\.00", why)
        for _, why in over
    )
    opened = Run.open(tmp_path / "run")
    shown: dict[int, set[tuple[str, str]]] = {}
    types: dict[int, set[str]] = {}
    for step in RunState(opened).steps():
        for group in step.groups:
            shown.setdefault(step.stage, set()).add((group.reward, group.interface))
            types.setdefault(step.stage, set()).add(opened.training[group.task].type)
    assert shown == {
        1: {("format", "identity")},
        2: {("progress", VERSION)},
        3: {("progress", VERSION)},
        4: {("progress", "identity")},
    }
    assert types[1] == types[2] == {"base"} and len(types[3]) == len(types[4]) == 4
    assert not verify(opened.path).problems
    assert (
        read_config(config).curriculum
        == read_config(FOLDER / f"{ENVIRONMENT_TUNING}.toml").curriculum
    )


@pytest.mark.slow
@pytest.mark.parametrize(("twin", "author"), [("rods-tuning", "procedural"), ("tuning", "llm")])
def test_the_third_stage_of_environment_tuning_gives_hints_and_with_rods_trains_on_variants_too(
    twin: str, author: str, tmp_path: Path
) -> None:
    """004 §4.1 and Appendix I, by trainer and daemon: its own stages, the first two shortened.
    Where nothing is written no model has to be named."""
    stages = read_config(FOLDER / f"qwen3-4b-{twin}.toml").curriculum.model_dump(mode="json")[
        "stages"
    ]
    stages[:2] = [{**stage, "until": "epochs", "epochs": 1} for stage in stages[:2]]
    values: dict[str, Any] = {
        "sync": "lockstep",
        "data": {"tasks": "desk", "train": 24, "held_out": 8},
        "policy": {"kind": "simulated", "dialect": "tags", "skill": 0.4, "growth": 0.01},
        "rollouts": {"rollouts_per_task": 8},
        "training": {"batch_tasks": 4, "steps": 32, "checkpoint_steps": 8},
        "curriculum": {"stages": stages},
        "pipeline": {"author": author},
        "operation": {"poll_seconds": 0.05},
    }
    (tmp_path / "c.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "rods.console",
        "up",
        str(tmp_path / "run"),
        "--config",
        str(tmp_path / "c.toml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == EXIT_OK, done.stderr
    opened = Run.open(tmp_path / "run")
    shown = {1: set[str](), 2: set[str](), 3: set[str]()}
    variants = set()
    for step in RunState(opened).steps():
        shown[step.stage] |= {group.interface for group in step.groups}
        variants |= {group.task for group in step.groups if group.task not in opened.training}
    assert shown == {1: {"identity"}, 2: {"identity"}, 3: {VERSION}}
    assert bool(variants) == (twin == "rods-tuning") and not verify(opened.path).problems
