"""The configurations for large models are valid, their plans print, and what they need fits the
GPUs they name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import orjson
import pytest
import tomli_w

from rods.config import identity_diff, parse_config, read_config, read_values
from rods.console.main import run as rods
from rods.errors import EXIT_OK, UserError
from rods.family.planning import plan
from rods.family.planning.plan import launched
from rods.family.seal import weights
from rods.family.seal.settings import CUES
from rods.trainer.advantages import load_hook

FOLDER = Path(__file__).parents[2] / "experiments" / "training"
FILES = sorted(FOLDER.glob("*.toml"))
README = (FOLDER / "README.md").read_text(encoding="utf-8")
GPU = 80e9
ROOM = 0.9  # of a GPU; the rest is for what the estimate does not count
QWEN3_8B = (4096, 36, 32, 8, 128, 12_288, 151_936, False)
LLAMA = (4096, 32, 32, 8, 128, 14_336, 128_256, False)
# Sizes as the models' own config.json has them.
MODELS = {
    "Qwen3-4B-Instruct-2507": (2560, 36, 32, 8, 128, 9728, 151_936, True),
    "Qwen2.5-7B-Instruct": (3584, 28, 28, 4, 128, 18_944, 152_064, False),
    "Qwen3-8B": QWEN3_8B,
    "Qwen2.5-3B-Instruct": (2048, 36, 16, 2, 128, 11_008, 151_936, True),
    "Llama-3.1-8B-Instruct": LLAMA,
    "ToolACE-2-Llama-3.1-8B": LLAMA,
    "watt-tool-8B": LLAMA,
    "smollm2-135m-desk": (576, 30, 9, 3, 64, 1536, 49_152, True),
}
KEYS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "tie_word_embeddings",
)
# How each is started, and what else takes a share of the GPU (a server beside the trainer).
LAUNCHES = {
    "qwen3-4b": ("fsdp2", 0.0),
    "qwen2.5-7b": ("fsdp2", 0.0),
    "llama-3.1-8b": ("fsdp2", 0.0),
    "seal": ("fsdp2", 0.0),
    "environment-tuning": ("", 0.0),
    "one-gpu": ("", 0.4),
}
TWINS = {  # of each model, and in what they differ from RODS
    "static": {"curriculum.stages.2.expand": False},
    "tuning": {"curriculum.stages.2.expand": False, "curriculum.stages.2.feedback": "hints"},
    "rods-tuning": {"curriculum.stages.2.feedback": "hints"},
}


def launch_of(recipe: str) -> str:
    """The configuration of accelerate that `recipe`, or the file that it is a twin of, takes."""
    if recipe == "eight-gpus":
        return "fsdp2"
    name = re.sub("(-rods)?-tuning$|-static$", "", recipe)
    return LAUNCHES.get(recipe, LAUNCHES.get(name, ("", 0.0)))[0]


GRPO = [file for file in FILES if "warm-up" not in file.stem]
# Rows of the README's tables of variants: the file, the keys as TOML, what stands last.
ROWS = re.findall(r"^\| ([\w.-]+)\.toml \| (`.*?`) \| (.*?) \|$", README, re.M)


def needing(name: str, *values: Any, planned: bool = True) -> Any:
    """These values, or `name`, for a test of the recipe `name`, which may show feedback and, where
    a run is `planned`, reads its tasks."""
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    has = {"feedback": "\nfeedback = " in text, "bfcl": planned and '\ntasks = "desk' not in text}
    needed = [part for part, needs in has.items() if needs]
    return pytest.param(*(values or (name,)), marks=pytest.mark.needs(*needed) if needed else ())


def changed(name: str, keys: str) -> dict[str, Any]:
    """The values of a row: a copy of the file with its keys."""
    values: dict[str, Any] = read_values(FOLDER / f"{name}.toml")
    for path, value in re.findall(r"`([\w.]+) = (.*?)`", keys):
        section, _, key = path.rpartition(".")
        place = values["curriculum"]["stages"][-1] if section == "stages" else values[section]
        place[key] = tomllib.loads(f"value = {value}")["value"]
    return values


def model_folder(tmp_path: Path, model: str) -> Path:
    folder = tmp_path / "models" / model
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_bytes(orjson.dumps(dict(zip(KEYS, MODELS[model], strict=True))))
    return folder


@pytest.mark.few(4, others="slow")
@pytest.mark.parametrize(
    "file", [needing(file.stem, file) for file in GRPO], ids=lambda file: file.stem
)
def test_a_recipe_is_accepted_and_its_plan_printed(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = read_config(file)
    folder = model_folder(tmp_path, Path(config.policy.model).name)
    written = tmp_path / "c.toml"
    values: dict[str, Any] = read_values(file)
    values["policy"]["model"] = str(folder)
    written.write_text(tomli_w.dumps(values), encoding="utf-8")
    how = launch_of(file.stem)
    options = ["--accelerate", str(FOLDER / f"{how}.yaml")] if how else []
    assert rods(["plan", str(written), *options]) == EXIT_OK
    said = capsys.readouterr().out
    assert all(
        word in said
        for word in ("steps in the first epoch", "rollouts a step", "tokens a step", "disk: ")
    )
    assert "processes: 8" in said if how else "processes: 1" in said
    assert re.search(r"memory: weights: \d.* GB \(.*\n(.*\n)*memory: in all at most: \d", said)
    assert str(folder) in said and not (tmp_path / "run").exists()
    for server in config.operation.rollout_servers:
        assert server.urls[0] in said


@pytest.mark.parametrize("name", [needing(name, planned=False) for name in LAUNCHES])
def test_what_a_recipe_needs_fits_its_gpus(name: str, tmp_path: Path) -> None:
    config = read_config(FOLDER / f"{name}.toml")
    how, taken = LAUNCHES[name]
    start = launched(FOLDER / f"{how}.yaml") if how else None
    model = plan.model_shape(model_folder(tmp_path, Path(config.policy.model).name))
    assert model is not None
    processes, sharding = (start.processes, start.sharding) if start else (1, "whole")
    needed = plan.estimate_memory(config, model, processes, sharding)["in all at most"]
    assert needed <= ROOM * GPU - taken * GPU
    assert f"| {name}.toml |" in README and f"{needed / 1e9:.0f} GB" in README


@pytest.mark.few(4, others="slow")
@pytest.mark.parametrize(
    ("name", "keys", "last"),
    [needing(row[0], *row) for row in ROWS],
    ids=lambda value: value.replace("/shared/models/", ""),
)
def test_a_row_of_the_readme_is_a_configuration_whose_plan_prints_and_whose_memory_fits(
    name: str, keys: str, last: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = changed(name, keys)
    asked = parse_config(values, where=name)
    plain = read_config(FOLDER / f"{name}.toml")
    count = len(re.findall(r" = ", keys))
    if "policy.model" not in keys:  # of a path, only the folder's name is identity
        assert len(identity_diff(plain.identity(), asked.identity())) == count, (
            "each key changes something"
        )
    folder = model_folder(tmp_path, Path(asked.policy.model).name)
    values["policy"]["model"] = str(folder)
    (tmp_path / "c.toml").write_text(tomli_w.dumps(values), encoding="utf-8")
    how, taken = LAUNCHES[name.removesuffix("-static")]
    options = ["--accelerate", str(FOLDER / f"{how}.yaml")] if how else []
    assert rods(["plan", str(tmp_path / "c.toml"), *options]) == EXIT_OK
    assert "steps in the first epoch" in capsys.readouterr().out
    start = launched(FOLDER / f"{how}.yaml") if how else None
    model = plan.model_shape(folder)
    assert model is not None
    processes, sharding = (start.processes, start.sharding) if start else (1, "whole")
    needed = plan.estimate_memory(asked, model, processes, sharding)["in all at most"]
    assert needed <= ROOM * GPU - taken * GPU
    if "policy.model" in keys:
        assert last == f"{needed / 1e9:.0f} GB"


def test_seal_is_the_papers() -> None:
    """002 §4.1 and Table 4; its static twin, vanilla RL, has neither interface nor hook."""
    seal = read_config(FOLDER / "seal.toml")
    (stage,) = seal.curriculum.stages
    assert (seal.training.batch_tasks, seal.rollouts.rollouts_per_task) == (32, 8)
    assert (seal.training.learning_rate, seal.training.kl, seal.policy.lora_rank) == (
        1e-6,
        0.001,
        0,
    )
    assert (stage.reward, stage.components, stage.evolving, stage.expand) == (
        "binary",
        CUES,
        (),
        False,
    )
    assert load_hook(seal.training.advantage_hook) is weights.seal
    told = {
        (name, Path(keys.split('"')[1]).name) for name, keys, _ in ROWS if "policy.model" in keys
    }
    of_seal = {"Qwen2.5-3B-Instruct", "ToolACE-2-Llama-3.1-8B"}
    of_tuning = {"Llama-3.1-8B-Instruct", "ToolACE-2-Llama-3.1-8B", "watt-tool-8B"}
    assert told == {("seal", one) for one in of_seal} | {
        ("environment-tuning", one) for one in of_tuning
    }


def test_the_ways_to_share_a_policy_are_told_apart() -> None:
    found = {file.stem: launched(file) for file in FOLDER.glob("*.yaml")}
    assert {name: one.sharding for name, one in found.items()} == {
        "fsdp2": "fsdp",
        "zero2": "zero2",
        "zero3": "zero3",
    }
    assert {one.processes for one in found.values()} == {8}
    assert all(f"{name}.yaml" in README for name in found)
    with pytest.raises(UserError, match="not a configuration of accelerate"):
        launched(FOLDER / "README.md")


def test_every_recipe_is_listed() -> None:
    assert FILES and all(file.name in README for file in FILES)


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict | list):
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {
        key: leaf
        for name, item in items
        for key, leaf in flat(item, f"{path}.{name}".strip(".")).items()
    }


@pytest.mark.needs("feedback")
@pytest.mark.parametrize("model", ["qwen3-4b", "qwen2.5-7b", "llama-3.1-8b"])
def test_twins_differ_in_what_they_are_named_for_and_in_nothing_else(model: str) -> None:
    rods = read_config(FOLDER / f"{model}.toml")
    assert (
        rods.preset == "rods-paper" and flat(rods.identity())["curriculum.stages.2.expand"] is True
    )
    for twin, named in TWINS.items():
        other = read_config(FOLDER / f"{model}-{twin}.toml")
        ours = flat(rods.identity())
        theirs = flat(other.identity())
        assert {
            key: theirs.get(key) for key in ours | theirs if ours.get(key) != theirs.get(key)
        } == named
        # nobody writes without expansion
        writers = rods.operation.endpoints if "rods" in twin else ()
        assert other.operation == rods.operation.model_copy(update={"endpoints": writers})
