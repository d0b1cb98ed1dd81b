"""The configurations for large models are valid, their plans print, and what they need fits the GPUs they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from rods.config import read_config
from rods.errors import EXIT_OK, UserError
from trainer import plan
from trainer.main import run
from trainer.plan import launched

FOLDER = Path(__file__).parents[2] / "experiments" / "training"
FILES = sorted(FOLDER.glob("*.toml"))
README = (FOLDER / "README.md").read_text(encoding="utf-8")
GPU = 80e9
ROOM = 0.9  # of a GPU; the rest is for what the estimate does not count
# Sizes as the models' own config.json has them.
MODELS = {
    "Qwen3-4B-Instruct-2507": (2560, 36, 32, 8, 128, 9728, 151_936, True),
    "Qwen2.5-7B-Instruct": (3584, 28, 28, 4, 128, 18_944, 152_064, False),
    "Llama-3.1-8B-Instruct": (4096, 32, 32, 8, 128, 14_336, 128_256, False),
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
    "environment-tuning": ("", 0.0),
    "one-gpu": ("", 0.4),
}
TWINS = {  # of each model, and in what they differ from RODS
    "static": {"curriculum.stages.2.expand": False},
    "tuning": {"curriculum.stages.2.expand": False, "curriculum.stages.2.feedback": "hints"},
    "rods-tuning": {"curriculum.stages.2.feedback": "hints"},
}
GRPO = [file for file in FILES if "warm-up" not in file.stem]


def model_folder(tmp_path: Path, model: str) -> Path:
    folder = tmp_path / "models" / model
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_bytes(orjson.dumps(dict(zip(KEYS, MODELS[model], strict=True))))
    return folder


@pytest.mark.parametrize("file", GRPO, ids=lambda file: file.stem)
def test_a_dry_run_accepts_a_recipe_and_prints_its_plan(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = read_config(file)
    folder = model_folder(tmp_path, Path(config.policy.model).name)
    written = tmp_path / "c.toml"
    text = file.read_text(encoding="utf-8")
    written.write_text(re.sub(r'^model = "[/~].*?"', f'model = "{folder}"', text, count=1, flags=re.M))
    how, _ = LAUNCHES.get(file.stem, ("", 0.0))
    options = ["--accelerate", str(FOLDER / f"{how}.yaml")] if how else []
    assert run([str(tmp_path / "run"), "--config", str(written), "--dry-run", *options]) == EXIT_OK
    said = capsys.readouterr().out
    assert all(word in said for word in ("steps in the first epoch", "rollouts a step", "tokens a step", "disk gb"))
    assert "processes: 8" in said if how else "processes: 1" in said
    assert re.search(r"memory gb a process: weights .*, in all at most \d", said)
    assert str(folder) in said and not (tmp_path / "run").exists()
    for server in config.operation.rollout_servers:
        assert server.urls[0] in said


@pytest.mark.parametrize("name", LAUNCHES)
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


def test_the_ways_to_share_a_policy_are_told_apart() -> None:
    found = {file.stem: launched(file) for file in FOLDER.glob("*.yaml")}
    assert {name: one.sharding for name, one in found.items()} == {"fsdp2": "fsdp", "zero2": "zero2", "zero3": "zero3"}
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
    return {key: leaf for name, item in items for key, leaf in flat(item, f"{path}.{name}".strip(".")).items()}


@pytest.mark.parametrize("model", ["qwen3-4b", "qwen2.5-7b", "llama-3.1-8b"])
def test_twins_differ_in_what_they_are_named_for_and_in_nothing_else(model: str) -> None:
    rods = read_config(FOLDER / f"{model}.toml")
    assert rods.preset == "rods-paper" and flat(rods.identity())["curriculum.stages.2.expand"] is True
    for twin, named in TWINS.items():
        other = read_config(FOLDER / f"{model}-{twin}.toml")
        ours, theirs = flat(rods.identity()), flat(other.identity())
        assert {key: theirs.get(key) for key in ours | theirs if ours.get(key) != theirs.get(key)} == named
        writers = rods.operation.endpoints if "rods" in twin else ()  # nobody writes without expansion
        assert other.operation == rods.operation.model_copy(update={"endpoints": writers})
