"""Every recipe of the papers' tables, and what else trains large models, on one GPU and on eight
GPUs of 80 GB that share the policy: it fits, or `rods plan` says what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from rods.config import read_config, read_values
from rods.console.main import run as rods
from rods.errors import EXIT_OK, EXIT_USER
from rods.family.planning import plan
from tests.experiments.test_training import FOLDER, GPU, MODELS, ROOM, model_folder

EXPERIMENTS = FOLDER.parent
RECIPES = {
    f"{file.parent.name}/{file.stem}": file
    for name in ("ablations", "backbones", "environment-tuning", "seal", "training")
    for file in sorted((EXPERIMENTS / name).glob("*.toml"))
    if "warm-up" not in file.stem
} | {
    f"trustee/{name}": EXPERIMENTS / "trustee" / f"{name}.toml"
    for name in ("qwen3-8b", "tool-n1", "toolrl")
}
# Of the other three models no sizes are kept in MODELS.
RECIPES |= {
    f"native/{name}": EXPERIMENTS / "native" / f"{name}.toml"
    for name in ("qwen3-4b-instruct-2507", "qwen3-8b", "llama-3.1-8b")
}
# What trains all weights of billions of parameters needs eight GPUs: one cannot hold weights,
# gradients, optimizer and reference policy in float32, 20 bytes a parameter. LoRA keeps the weights
# whole on each GPU, which one holds; SmolLM2 needs no GPU at all.
ONE = {"training/one-gpu", "training/environment-tuning"}
ONE |= {name for name in RECIPES if name.startswith("environment-tuning/")}
SMALL = {"training/cpu", "training/cpu-bfcl"}


def needed(file: Path, folder: Path, processes: int) -> dict[str, float]:
    """GB a GPU by purpose."""
    config = read_config(file)
    shape = plan.model_shape(model_folder(folder, Path(config.policy.model).name))
    assert shape is not None
    whole = processes == 1 or bool(config.policy.lora_rank)
    how: plan.Sharding = "whole" if whole else "fsdp"
    return {
        purpose: size / 1e9
        for purpose, size in plan.estimate_memory(config, shape, processes, how).items()
    }


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_fits_one_gpu_or_eight_or_says_why_not(name: str, tmp_path: Path) -> None:
    most = ROOM * GPU / 1e9 - (32 if name == "training/one-gpu" else 0)
    eight = needed(RECIPES[name], tmp_path, 8)
    assert eight["in all at most"] <= most, eight
    one = needed(RECIPES[name], tmp_path, 1)
    if name in ONE | SMALL:
        assert one["in all at most"] <= most, one
    else:
        kept = ("weights", "gradients", "optimizer", "reference policy")
        assert sum(one[purpose] for purpose in kept) > most, one


@pytest.mark.slow
@pytest.mark.needs("bfcl", "feedback")
@pytest.mark.parametrize(
    "name",
    [name for name in RECIPES if name.startswith(("environment-tuning/", "seal/", "trustee/t"))],
)
def test_the_plan_of_a_baseline_or_an_ablation_prints(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values: dict[str, Any] = read_values(RECIPES[name])
    values["policy"]["model"] = str(model_folder(tmp_path, Path(values["policy"]["model"]).name))
    written = tmp_path / "c.toml"
    written.write_text(tomli_w.dumps(values), encoding="utf-8")
    shared = ["--accelerate", str(FOLDER / "fsdp2.yaml")]
    whole = name in ONE
    assert rods(["plan", str(written), *([] if whole else shared)]) == EXIT_OK
    printed = capsys.readouterr().out
    assert f"processes: {1 if whole else 8}" in printed and "steps in the first epoch" in printed


def test_training_rollouts_and_synthesis_share_eight_gpus(tmp_path: Path) -> None:
    """Four train; two hold the policy's weights and two the author's, in bfloat16."""
    file = RECIPES["training/eight-gpus"]
    config = read_config(file)
    assert needed(file, tmp_path, 4)["in all at most"] <= ROOM * GPU / 1e9
    servers = [*config.operation.rollout_servers, *config.operation.endpoints]
    addresses = [url for server in servers for url in server.urls]
    assert len(set(addresses)) == len(addresses) == 3
    assert all("localhost" in url for url in addresses)
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"--port {url.rpartition(':')[2].partition('/')[0]}" in page for url in addresses)
    assert f"| {needed(file, tmp_path, 4)['in all at most']:.0f} GB |" in page


def test_the_rods_of_table_2_is_that_of_table_1() -> None:
    one, other = RECIPES["training/qwen3-4b"], RECIPES["ablations/rods"]
    assert read_config(one) == read_config(other) == read_config(RECIPES["backbones/qwen3-32b"])


@pytest.mark.needs("bfcl")
def test_a_plan_that_does_not_fit_ends_with_an_error_that_says_what_is_too_large(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values: dict[str, Any] = read_values(RECIPES["ablations/rods"])
    values["policy"]["model"] = str(model_folder(tmp_path, Path(values["policy"]["model"]).name))
    written = tmp_path / "c.toml"
    written.write_text(tomli_w.dumps(values), encoding="utf-8")
    assert "Qwen3-4B-Instruct-2507" in MODELS
    assert rods(["plan", str(written)]) == EXIT_USER
    said = capsys.readouterr()
    assert "memory: in all at most" in said.out
    assert "a GPU has 80 GB" in said.err and "optimizer" in said.err and "→" in said.err
    shared = ["plan", str(written), "--accelerate", str(FOLDER / "fsdp2.yaml")]
    assert rods(shared) == EXIT_OK
    capsys.readouterr()
    assert rods([*shared, "--gpu-memory", "24"]) == EXIT_USER
    assert "a GPU has 24 GB" in capsys.readouterr().err
