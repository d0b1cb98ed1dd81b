"""EnvScaler's recipes and the rows of their studies."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import orjson
import pytest
import tomli_w

from rods.config import identity_diff, parse_config, read_config
from rods.console.main import application, run as rods
from rods.errors import EXIT_OK
from rods.family.planning import plan
from rods.family.planning.plan import launched
from tests.experiments.test_training import FOLDER as TRAINING, GPU, KEYS, ROOM
from tests.experiments.test_trustee import SIZES
from tests.family.environments.procedural.drawn import drawn_tasks

FOLDER = Path(__file__).parents[2] / "experiments" / "envscaler"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
RL = "qwen3-4b.toml"
SFT = "qwen3-4b-sft.toml"
SIZES_HERE = SIZES | {"Qwen3-1.7B": (2048, 28, 16, 8, 128, 6144, 151_936, True)}
ROWS = [(RL, ""), *re.findall(r"^\| (\S+\.toml) \| (`\w+\.\w+ = .*?`) \|", README, re.M)]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worlds")
    tasks = drawn_tasks(folder, 2, 80, held_out=1)
    assert sum(task.split == "train" for task in tasks) >= 64
    return folder


@pytest.mark.few(3, others="slow")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "keys"), ROWS)
def test_a_recipe_and_each_row_is_a_configuration_whose_plan_prints_and_whose_memory_fits(
    name: str,
    keys: str,
    worlds: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values: dict[str, Any] = tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))
    for path, value in re.findall(r"`([\w.]+) = (.*?)`", keys):
        section, key = path.split(".")
        values.setdefault(section, {})[key] = tomllib.loads(f"value = {value}")["value"]
    asked = parse_config(values, where="row")
    plain = read_config(FOLDER / name)
    different = identity_diff(plain.identity(), asked.identity())
    assert len(different) == bool(keys), "a row changes one thing"
    if name == SFT:
        return
    model = tmp_path / "model"
    model.mkdir()
    size = SIZES_HERE[Path(asked.policy.model).name.removesuffix("-sft")]
    (model / "config.json").write_bytes(orjson.dumps(dict(zip(KEYS, size, strict=True))))
    values["policy"]["model"], values["data"]["tasks"] = str(model), str(worlds / "tasks.jsonl")
    (tmp_path / "c.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    monkeypatch.chdir(worlds)
    options = ["--accelerate", str(TRAINING / "fsdp2.yaml")]
    assert rods(["plan", str(tmp_path / "c.toml"), *options]) == EXIT_OK
    said = capsys.readouterr().out
    assert "rollouts a step: 512" in said and "progress on base" in said
    start = launched(TRAINING / "fsdp2.yaml")
    shape = plan.model_shape(model)
    assert shape is not None
    needed = plan.estimate_memory(asked, shape, start.processes, start.sharding)["in all at most"]
    assert needed <= ROOM * GPU
    if not keys:
        assert f"({needed / 1e9:.0f} GB a GPU for qwen3-4b.toml" in README


def test_the_recipe_is_the_papers() -> None:
    """003 Appendix B.2."""
    config = read_config(FOLDER / RL)
    learnt = read_config(FOLDER / SFT)
    training = config.training
    rollouts = config.rollouts
    assert (training.batch_tasks, rollouts.rollouts_per_task, training.steps) == (64, 8, 200)
    assert (training.kl, training.advantage_baseline, training.advantage_scale) == (
        0.1,
        "batch",
        "batch",
    )
    assert (rollouts.max_context_tokens, rollouts.max_reply_tokens) == (32_768, 4096)
    assert learnt.rollouts.max_context_tokens == 32_768
    for told in (
        "--passes 3",
        "--sequences 256",
        "1e-6",
        "--rounds",
        "--worlds 140",
        "--worlds 51 --without sft.jsonl",
    ):
        assert told in README


def test_every_file_of_a_row_is_made_by_a_command_that_there_is() -> None:
    """The options of `rods data select` by name; what it selects:
    tests/family/environments/test_world_selection.py."""
    verb = application()["data"]["select"]
    options = {
        name
        for one in verb.assemble_argument_collection(parse_docstring=False)
        for name in one.names
    }
    commands = dict(re.findall(r"`rods data select \S+ (\S+\.jsonl)([^`]*)`", README))
    files = set(re.findall(r'`data\.tasks = "(\S+)"`', README))
    assert files == commands.keys()
    assert all(
        name in options for given in commands.values() for name in re.findall(r"--\w+", given)
    )
