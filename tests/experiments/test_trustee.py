"""TRUSTEE's recipe, its ablations, and the whole run on the stub that docs/trustee.md tells of."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import tomli_w

from bench.fixtures.llm_stub import Script, Stub
from rods.buffers.audit.verify import verify
from rods.buffers.log.tail import read
from rods.buffers.run.run import Run
from rods.buffers.run.runfolder import usage
from rods.buffers.state import RunState
from rods.config import identity_diff, parse_config, read_config
from rods.console.main import run as rods
from rods.errors import EXIT_OK
from rods.family.planning import plan
from rods.family.planning.plan import launched
from rods.family.simulation.settings import DRAWN
from rods.trainer.main import run
from tests.experiments.test_training import FOLDER as TRAINING, GPU, KEYS, QWEN3_8B, ROOM
from tests.family.simulation.conversations import ABLATIONS

FOLDER = Path(__file__).parents[2] / "experiments" / "trustee"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
SIZES = {
    "Qwen3-8B": QWEN3_8B,
    "Qwen3-8B-Base": QWEN3_8B,
    "Qwen3-4B": (2560, 36, 32, 8, 128, 9728, 151_936, True),
}
ROWS = ["", *re.findall(r"^\| (`\w+\.\w+ = .*?`) \|", README, re.M)]


def changed(keys: str) -> dict[str, Any]:
    """The recipe's values with the keys of a row."""
    values = tomllib.loads((FOLDER / "qwen3-8b.toml").read_text(encoding="utf-8"))
    for path, value in re.findall(r"`([\w.]+) = (.*?)`", keys):
        section, key = path.split(".")
        place = (
            values["curriculum"]["stages"][0]
            if section == "stages"
            else values.setdefault(section, {})
        )
        place[key] = tomllib.loads(f"value = {value}")["value"]
    return values


@pytest.mark.few(4, others="slow")
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(keys, marks=pytest.mark.needs("bfcl") if '"bfcl"' in keys else ())
        for keys in ROWS
    ],
)
def test_the_recipe_and_each_ablation_is_a_configuration_whose_plan_prints_and_whose_memory_fits(
    keys: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = changed(keys)
    asked = parse_config(values, where="row")
    plain = read_config(FOLDER / "qwen3-8b.toml")
    different = identity_diff(plain.identity(), asked.identity())
    assert len(different) == keys.count(" = "), "each key changes something"
    folder = tmp_path / Path(asked.policy.model).name
    folder.mkdir()
    (folder / "config.json").write_bytes(
        orjson.dumps(dict(zip(KEYS, SIZES[folder.name], strict=True)))
    )
    values["policy"]["model"] = str(folder)
    (tmp_path / "c.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    options = ["--accelerate", str(TRAINING / "fsdp2.yaml")]
    assert rods(["plan", str(tmp_path / "c.toml"), *options]) == EXIT_OK
    said = capsys.readouterr().out
    drawn = asked.training.batch_tasks - asked.pool_slots
    assert f"drawn tasks a step: {drawn} " in said and drawn == (8 if "drawn" in keys else 16)
    start = launched(TRAINING / "fsdp2.yaml")
    model = plan.model_shape(folder)
    assert model is not None
    needed = plan.estimate_memory(asked, model, start.processes, start.sharding)["in all at most"]
    assert needed <= ROOM * GPU
    if not keys:
        assert f"{needed / 1e9:.0f} GB a GPU" in README


def test_every_ablated_dimension_of_the_paper_has_a_row() -> None:
    given = [tuple(changed(row)["difficulty"]["hardest"]) for row in ROWS if "hardest" in row]
    assert given == list(ABLATIONS.values())


def test_the_recipe_is_the_papers() -> None:
    """001 Table 8, D.4.2 and Appendix C."""
    config = read_config(FOLDER / "qwen3-8b.toml")
    training = config.training
    rules = config.difficulty
    assert (training.batch_tasks, config.rollouts.rollouts_per_task, training.steps) == (16, 8, 200)
    assert (training.learning_rate, training.kl, training.clip_low, training.clip_high) == (
        1e-6,
        0.001,
        0.2,
        0.2,
    )
    assert (training.loss, config.rollouts.max_context_tokens) == ("token", 8192 + 16_384)
    assert (rules.step, rules.soft, rules.down_below, rules.up_above, rules.most_tools) == (
        3,
        0.5,
        0.0,
        0.5,
        10,
    )
    roles = config.roles
    assert {
        one.tokens for one in (roles.simulated_tool, roles.simulated_user, roles.simulated_verifier)
    } == {2048}
    assert config.operation.players[0].extra == {"frequency_penalty": 0.1}
    assert set(config.simulation.by_model) == {"tools", "user", "verifier", "generator"}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(Script(answer="bench.fixtures.llm_stub.players:answer")) as running:
        yield running


@pytest.mark.slow
def test_a_whole_run_asks_every_role_over_http_and_difficulty_rises(
    stub: Stub, tmp_path: Path
) -> None:
    values = tomllib.loads((FOLDER / "stub.toml").read_text(encoding="utf-8"))
    values["operation"]["players"][0]["urls"] = [stub.url]
    values["operation"]["trace_every"] = 1
    values["training"] |= {"batch_tasks": 4, "steps": 3}
    values["rollouts"]["rollouts_per_task"] = 4
    values["difficulty"] = {"step": 30}
    (tmp_path / "c.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    assert run([str(tmp_path / "run"), "--config", str(tmp_path / "c.toml")]) == EXIT_OK
    opened = Run.open(tmp_path / "run")
    state = RunState(opened)
    ends = [one.end for step in state.steps() for group in step.groups for one in group.rollouts]
    assert len(ends) == 3 * 4 * 4 and "infrastructure" not in ends
    assert [record["difficulty"] for record in read(opened.path / DRAWN)][::4][:2] == [1, 31]
    stages = {call["stage"] for call in read(opened.path / usage("trainer"))}
    assert stages == {"simulated_task", "simulated_tool", "simulated_user", "simulated_verifier"}
    found = verify(opened.path, replay=True)
    assert found.ok and found.counts["judged episodes"] == len(ends), list(found.lines())
