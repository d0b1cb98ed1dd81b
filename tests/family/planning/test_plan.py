"""The plan of a run: what would be done, in numbers, without doing it, each number with where it
comes from."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from rods.config import parse_config
from rods.console.main import run
from rods.errors import EXIT_OK, EXIT_REQUEUE, EXIT_USER
from rods.family.planning.plan import Launch, plan
from rods.trainer.main import run as train_main
from rods.trainer.nano import model as network
from rods.worlds.sources import load_tasks
from tests.trainer.nano_parts import chat
from tests.trainer.runs import BRIEF, train, write_config

# Two processes and a server that roll out for 128 tasks of 4 rollouts in 100 steps, a model that
# writes.
LARGE: dict[str, Any] = {
    "policy.kind": "transformers",
    "policy.model": "model",
    "training.steps": 100,
    "training.batch_tasks": 8,
    "rollouts.max_context_tokens": 1000,
    "selection.seeds_per_step": 2,
    "pipeline.author": "llm",
    "operation.rollout_servers": [{"model": "policy", "urls": ["http://a:1/v1", "http://b:1/v1"]}],
    "operation.endpoints": [{"model": "writer", "urls": ["http://c:1/v1"]}],
}
RATES: dict[str, float] = {
    "rollout.read_tokens": 600,
    "rollout.generated_tokens": 200.0,
    "update.tokens_per_second": 320.0,
    "variant.read_tokens": 9000,
    "variant.generated_tokens": 1000,
    "policy.prompt_tokens_per_second": 1200,
    "policy.generated_tokens_per_second": 100.0,
    "policy.gpus": 2,
    "writer.prompt_tokens_per_second": 100,
    "writer.generated_tokens_per_second": 10,
    "writer.gpus": 4,
}


@pytest.fixture
def large(tmp_path: Path) -> Path:
    network.fresh(chat().tokenizer, 1).config.save_pretrained(tmp_path / "model")
    return write_config(tmp_path / "c.toml", LARGE)


def figures(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, dict[str, Any]]:
    assert run(["plan", *map(str, arguments), "--json"]) == EXIT_OK
    return {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)["figures"]}


def test_a_plan_prints_numbers_with_their_sources_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path / "c.toml", {"training.steps": 40, "training.batch_tasks": 8})
    before = sorted(tmp_path.rglob("*"))
    assert run(["plan", str(config)]) == EXIT_OK
    said = capsys.readouterr().out
    assert "rollouts a step: 32 (training.batch_tasks 8 × rollouts.rollouts_per_task 4)" in said
    assert (
        "rollouts: 1,280 (training.steps × " in said
        and "steps in the first epoch: 3 (24 tasks ÷ " in said
    )
    assert "nothing was started" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_hours_and_servers_come_from_measured_rates(
    large: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = tmp_path / "rates.toml"
    rates.write_text(tomli_w.dumps(RATES))
    found = figures(capsys, large, "--nodes", 2, "--gpus", 2, "--rates", rates)
    value = {name: figure["value"] for name, figure in found.items()}
    assert value["tokens of the policy"] == 100 * 32 * 800
    assert value["seconds of rollouts a step"] == 32 * (600 / 1200 + 200 / 100) / 2
    assert value["seconds of an update"] == 32 * 800 / 320 / 4
    assert value["hours"] == pytest.approx(hours := 100 * (40 + 20) / 3600, rel=1e-3)
    assert value["rollout servers that keep up"] == 4  # 80 s of one, 20 s of an update
    # of 200 picks as many as may be injected
    assert value["variants at most"] == round(100 * 0.2 * 8) == 160
    assert value["tokens of writers"] == 160 * 10_000
    assert (
        value["writing servers that keep up, writer"]
        == math.ceil(160 * (90 + 100) / 3600 / hours)
        == 6
    )
    assert value["GPU-hours"] == pytest.approx(hours * (4 + 2 * 2 + 1 * 4), rel=1e-3)
    sources = {name: figure["source"] for name, figure in found.items()}
    for name in (
        "tokens a rollout",
        "seconds of rollouts a step",
        "seconds of an update",
        "tokens a variant",
    ):
        assert str(rates) in sources[name], name
    assert all(sources.values())
    host = found["host memory of a node"]
    assert host["value"] == pytest.approx(
        max(2 * 4, 12) * value["parameters"] / 1e9, rel=1e-3
    ) and host["source"].startswith("2 proc")


def test_without_rates_hours_are_not_known_and_what_measures_them_is_named(
    large: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = figures(capsys, large)
    for name in ("hours", "GPU-hours", "seconds of an update", "rollout servers that keep up"):
        assert found[name]["value"] is None
    assert (
        "`rods doctor --rate http://a:1/v1 policy 64 > FILE`"
        in found["seconds of rollouts a step"]["source"]
    )
    assert (
        "doctor --rate http://c:1/v1 writer"
        in found["writing servers that keep up, writer"]["source"]
    )
    for name, value in {"tokens a rollout": 1000, "tokens a variant": 13_254}.items():
        assert found[name]["value"] == value and re.match(
            "assumed: .*--rates RUN", found[name]["source"]
        )
    assert run(["plan", str(large)]) == EXIT_OK
    assert "\nhours: not known (needs both of these times)\n" in capsys.readouterr().out


# The policy of LARGE, whose sizes a test can compute with, and a writer whose sizes are published.
SIZES = {
    "hidden_size": 1000,
    "num_attention_heads": 10,
    "num_key_value_heads": 2,
    "head_dim": 100,
    "num_hidden_layers": 10,
    "intermediate_size": 4000,
    "vocab_size": 20_000,
    "tie_word_embeddings": True,
}
PUBLISHED = {
    **LARGE,
    "policy.model": "elsewhere",
    "operation.endpoints": [{"model": "Qwen/Qwen3-32B", "urls": ["http://c:1/v1"]}],
}


def test_speeds_that_nobody_measured_come_from_what_makers_publish_and_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path / "c.toml", PUBLISHED)
    sizes = tmp_path / "config.json"
    sizes.write_text(json.dumps(SIZES))
    asked = [config, "--config-json", sizes, "--gpu", "H100"]
    counted = {"rollout.read_tokens": 600, "rollout.generated_tokens": 200}
    rates = tmp_path / "rates.toml"
    rates.write_text(tomli_w.dumps(counted))
    found = figures(capsys, *asked, "--price", 3, "--rates", rates)
    value = {name: figure["value"] for name, figure in found.items()}
    forward = 2 * value["parameters"] + 2 * 10 * 1000 * 800
    computing = 989.4e12 * 0.3
    # forward, once more for layers that are computed again, backward twice; kl asks a reference
    update = 32 * 800 * forward * (4 + (parse_config({}, where="").training.kl > 0)) / computing
    assert value["seconds of an update"] == pytest.approx(update, rel=1e-3)
    weights = 2 * value["parameters"]
    cache = 64 * 800 * 2 * 10 * 200 * 2
    step = max((weights + cache) / (3350e9 * 0.5), 64 * forward / computing)
    rolling = 32 * (600 * forward / computing + 200 * step / 64) / 2
    assert value["seconds of rollouts a step"] == pytest.approx(rolling, rel=1e-3)
    assert value["writing servers that keep up, Qwen/Qwen3-32B"] > 0
    assert value["cost"] == pytest.approx(3 * value["GPU-hours"], rel=1e-2)
    for name in ("seconds of an update", "seconds of rollouts a step"):
        assert "assumed: 30% of 989.4 TFLOP/s and 50% of 3,350 GB/s" in found[name]["source"]
        assert "NVIDIA" in found[name]["source"]

    # what a file of rates has wins, shares of a peak too
    rates.write_text(tomli_w.dumps({**counted, "gpu.compute_share": 0.15}))
    slower = figures(capsys, *asked, "--rates", rates)["seconds of an update"]["value"]
    assert slower == pytest.approx(2 * update, rel=1e-3)
    rates.write_text(tomli_w.dumps(RATES))
    measured = figures(capsys, *asked, "--rates", rates)
    assert measured["seconds of an update"]["value"] == 32 * 800 / 320
    assert measured["seconds of rollouts a step"]["value"] == 32 * (600 / 1200 + 200 / 100) / 2

    # without a kind of GPU a price alone makes no sum, and an unknown kind names those there are
    bare = figures(capsys, *asked[:3], "--price", 3)
    assert bare["cost"]["value"] is None and "--gpu" in bare["seconds of an update"]["source"]
    assert run(["plan", *map(str, asked[:3]), "--gpu", "H1000"]) == EXIT_USER
    assert "of H1000 no figures are known → one of A10, " in capsys.readouterr().err


def test_a_policy_of_which_sizes_are_published_needs_no_file_for_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hours = r"^hours: [\d.,]+ h"
    for name, known in (("Qwen3-4B", True), ("Own-4B", False)):
        config = write_config(tmp_path / "c.toml", {**PUBLISHED, "policy.model": f"models/{name}"})
        code = run(["plan", str(config), "--gpu", "H100"])
        out, err = capsys.readouterr()
        assert code == EXIT_USER and "--config-json FILE" in err, "of its memory nothing is known"
        assert bool(re.search(hours, out, re.MULTILINE)) == known, out


def test_a_model_that_has_no_room_on_a_gpu_gets_no_speed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path / "c.toml", PUBLISHED)
    sizes = tmp_path / "config.json"
    sizes.write_text(json.dumps(SIZES))
    asked = [config, "--config-json", sizes, "--gpu", "RTX-4090"]
    name = "writing servers that keep up, Qwen/Qwen3-32B"
    assert figures(capsys, *asked)[name]["value"] is None
    rates = tmp_path / "rates.toml"
    rates.write_text(tomli_w.dumps({"Qwen/Qwen3-32B.gpus": 4}))
    assert figures(capsys, *asked, "--rates", rates)[name]["value"]
    # 24 GB are those of the GPU, unless something else is said
    assert run(["plan", *map(str, asked), "--gpu-memory", "0.01"]) == EXIT_USER
    assert "a GPU has 0.01 GB" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        '"update.tokens_per_second" = 0',
        "[update]\ntokens_per_second = 1",
        'rollout = "fast"',
        "a = [",
        "x = inf",
    ],
)
def test_what_holds_no_rates_is_refused(
    wrong: str, large: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rates.toml").write_text(wrong)
    assert run(["plan", str(large), "--rates", str(tmp_path / "rates.toml")]) == EXIT_USER
    assert "rates.toml" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_has_steps_says_how_fast_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = BRIEF | {"training.steps": 4000, "operation.step_limit": 4}
    path = tmp_path / "run"
    config = write_config(tmp_path / "c.toml", changes)
    assert train(path, config).returncode == EXIT_REQUEUE
    said = figures(capsys, path)
    other = figures(capsys, config, "--rates", path)
    for found in (said, other):
        assert found["hours"]["value"] > 0
        assert f"{path}" in found["tokens a rollout"]["source"]
        assert found["tokens a rollout"]["value"] < 640
    bare = figures(capsys, config)
    assert bare["hours"]["value"] is None and bare["tokens a rollout"]["value"] == 640


def test_a_plan_refuses_what_the_start_would_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path / "c.toml", {"training.batch_tasks": 500})
    assert run(["plan", str(config)]) == EXIT_USER
    assert "a batch needs 500" in capsys.readouterr().err
    config = write_config(
        tmp_path / "c.toml", {"policy.kind": "transformers", "policy.model": "nowhere"}
    )
    assert run(["plan", str(config)]) == EXIT_USER
    assert "there is no model" in capsys.readouterr().err


def test_a_plan_needs_no_weights_and_without_a_model_says_what_needs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`config.json` alone, in the policy's folder or anywhere, gives parameters and memory."""
    folder = tmp_path / "model"
    apart = tmp_path / "config.json"
    network.fresh(chat().tokenizer, 1).config.save_pretrained(folder)
    apart.write_bytes((folder / "config.json").read_bytes())
    config = write_config(
        tmp_path / "c.toml", {"policy.kind": "transformers", "policy.model": "model"}
    )
    command = ["plan", str(config)]
    assert run(command) == EXIT_OK
    whole = capsys.readouterr().out
    assert "\nparameters: " in whole and "memory: weights: " in whole
    (folder / "config.json").unlink()
    assert run([*command, "--config-json", str(apart)]) == EXIT_OK
    alone = capsys.readouterr().out
    nested = tmp_path / "nested.json"  # as one has it that sees, too
    nested.write_text(json.dumps({"text_config": json.loads(apart.read_bytes())}))
    assert run([*command, "--config-json", str(nested)]) == EXIT_OK
    assert capsys.readouterr().out == alone == whole
    assert run(command) == EXIT_USER
    said = capsys.readouterr()
    assert "rollouts a step" in said.out and "memory" not in said.out
    assert "there is no model → " in said.err and "--config-json FILE" in said.err
    assert run([*command, "--config-json", str(tmp_path / "none")]) == EXIT_USER
    assert f"{tmp_path / 'none'}: there is no model" in capsys.readouterr().err


def test_a_name_on_a_hub_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(
        tmp_path / "c.toml", {"policy.kind": "transformers", "policy.model": "Qwen/Qwen3-4B"}
    )
    for start in (run, train_main):
        arguments = (
            ["plan", str(config)]
            if start is run
            else [str(tmp_path / "run"), "--config", str(config)]
        )
        assert start(arguments) == EXIT_USER
        said = capsys.readouterr().err
        assert (
            f"{tmp_path / 'Qwen' / 'Qwen3-4B'}: there is no model → " in said
            and "not a name on a hub" in said
        )


def test_memory_is_counted_from_the_model_itself(tmp_path: Path) -> None:
    made = network.fresh(chat().tokenizer, 1)
    made.save_pretrained(tmp_path / "model")
    values = {
        "data": {"tasks": "desk-small", "train": 8, "held_out": 4},
        "policy": {"kind": "transformers", "model": str(tmp_path / "model")},
        "training": {"batch_tasks": 4, "kl": 0.0},
        "rollouts": {"rollouts_per_task": 4},
    }
    config = parse_config(values, where="test")
    tasks = load_tasks(config.data, tmp_path)

    def of(config: Any, processes: int = 1) -> dict[str, Any]:
        return {
            figure.name: figure.value
            for figure in plan(config, tasks, Launch(processes), None, {})[1]
        }

    alone = of(config)
    shared = of(config, 2)
    stored = {id(parameter): parameter.numel() for parameter in made.parameters()}
    assert alone["parameters"] == sum(stored.values())
    assert shared["memory: in all at most"] < alone["memory: in all at most"]
    with_reference = config.model_copy(
        update={"training": config.training.model_copy(update={"kl": 0.1})}
    )
    more = of(with_reference)
    assert more["memory: reference policy"] == more["memory: weights"]


def test_tokens_are_those_of_the_tasks_and_ground_truths_without_room_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the policy's own template, where nothing was measured."""
    made = chat()
    network.fresh(made.tokenizer, 1).config.save_pretrained(tmp_path / "model")
    made.tokenizer.save_pretrained(tmp_path / "model")
    policy = {
        "policy.kind": "transformers",
        "policy.model": "model",
        "policy.dialect": "compact",
        "training.batch_tasks": 8,
    }
    wide = write_config(tmp_path / "wide.toml", policy)
    found = figures(capsys, wide)
    rollout = found["tokens a rollout"]
    assert 0 < rollout["value"] < 12_288
    assert "the ground truths of 24 tasks by the chat template" in rollout["source"]
    assert 0 < found["tokens of a first prompt"]["value"] < rollout["value"]
    assert run(["plan", str(wide)]) == EXIT_OK
    assert "rollouts.max_context_tokens" not in capsys.readouterr().out.partition("warning:")[2]
    # of a model that is not here: by characters, and by no more of them than the context holds
    away = write_config(tmp_path / "away.toml", {**policy, "policy.model": "away"})
    guessed = figures(capsys, away, "--config-json", tmp_path / "model" / "config.json")
    assert 0 < guessed["tokens a rollout"]["value"] < 12_288
    assert "assumed 3.5 characters a token" in guessed["tokens a rollout"]["source"]
    tight = write_config(tmp_path / "tight.toml", {**policy, "rollouts.max_context_tokens": 16})
    assert figures(capsys, tight)["tokens a rollout"]["value"] == 16
    assert run(["plan", str(tight)]) == EXIT_OK
    assert "warning: the ground truths of 24 of 24 training tasks" in capsys.readouterr().out, (
        "all of them"
    )
    rates = tmp_path / "rates.toml"
    rates.write_text(tomli_w.dumps({**RATES}))
    assert figures(capsys, wide, "--rates", rates)["tokens a rollout"]["value"] == 800
