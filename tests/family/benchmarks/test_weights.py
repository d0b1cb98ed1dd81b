"""Local weights on BFCL: a tiny random model, through the trainer's rollout engine."""

import json
from pathlib import Path
from shutil import copytree

import pytest
import torch

from rods.buffers.checkpoints import Checkpoints, Position
from rods.buffers.run.creation import create_run
from rods.config import Config, PolicySettings, Training
from rods.family.benchmarks.folder import episodes
from rods.family.benchmarks.main import run
from rods.trainer.nano import model
from rods.worlds import desk
from rods.worlds.bfcl import fetch

TASKS = ("--tasks-per-type", "2", "--max-tokens", "8", "--max-context", "600", "--json")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fetch()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("weights")
    words = model.build_tokenizer(
        " ".join((*task.script, *task.tools)) for task in desk.generate(5, 60, 0)
    )
    model.fresh(words, 0).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_folder_of_weights_is_evaluated_in_a_training_dialect(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--weights", str(weights), "--protocol", "compact", *TASKS]
    assert run(["run", str(tmp_path / "e"), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["complete"] and found["episodes"] == 8
    assert {episode.form for episode in episodes(tmp_path / "e")} == {"native"}
    assert run(["check", str(tmp_path / "e"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["equal"] == 8


def test_weights_with_another_context_or_number_format_are_another_evaluation(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "run",
        str(tmp_path / "e"),
        "--weights",
        str(weights),
        "--protocol",
        "compact",
        "--types",
        "base",
    ]
    arguments += ["--precision", "float32", *TASKS]
    assert run(arguments) == 0
    policy = json.loads(capsys.readouterr().out)["settings"]["policy"]
    assert (policy["precision"], policy["max_context"]) == ("float32", 600)
    assert run([*arguments, "--threads", "1", "--in-flight", "3"]) == 0
    for another in (["--max-context", "700"], ["--precision", "bf16"]):
        capsys.readouterr()
        assert run([*arguments, *another]) == 3
        assert "was made with other settings: policy is" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert run([*arguments, "--precision", "auto"]) == 0


def test_official_prompts_that_do_not_fit_the_context_are_told(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", str(tmp_path / "e"), "--weights", str(weights), *TASKS]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ends"] == {"context": 8}
    assert found["scores"]["held-out"]["all"]["official"]["mean"] == 0


def test_native_calls_need_a_server(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["run", str(tmp_path / "e"), "--weights", str(weights), "--calls", "native", *TASKS])
        == 2
    )
    assert "local weights have none" in capsys.readouterr().err


def test_a_run_s_checkpoint_is_evaluated_in_the_dialect_that_it_was_trained_in(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = PolicySettings(kind="transformers", model=str(weights), dialect="compact")
    create_run(
        tmp_path / "run",
        Config(policy=policy, training=Training(batch_tasks=2)),
        desk.generate(3, 2, 2),
    )
    position = Position(
        attempt=1, step=0, epoch=0, cursor=0, order_hash="", pool_seq=0, curriculum={}, random={}
    )
    Checkpoints(tmp_path / "run").write(
        position, lambda folder: copytree(weights, folder, dirs_exist_ok=True)
    )
    assert run(["run", str(tmp_path / "e"), "--run", str(tmp_path / "run"), *TASKS]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["protocol"], settings["policy"]["name"]) == ("compact", "run_step_0")


@pytest.mark.slow
def test_a_suite_plays_a_run_s_first_and_newest_checkpoint(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Conversations before questions and the questions, too, in batches; what does not fit the
    context fails."""
    policy = PolicySettings(kind="transformers", model=str(weights), dialect="compact")
    made = create_run(
        tmp_path / "run",
        Config(policy=policy, training=Training(batch_tasks=2)),
        desk.generate(3, 2, 2),
    )
    for step in (0, 3):
        position = Position(
            attempt=1,
            step=step,
            epoch=0,
            cursor=0,
            order_hash="",
            pool_seq=0,
            curriculum={},
            random={},
        )
        Checkpoints(made.path).write(
            position, lambda folder: copytree(weights, folder, dirs_exist_ok=True)
        )
    told = ["suite", str(made.path), "--benchmarks", "bfcl", "bfcl_memory", *TASKS]
    assert run(told) == 0
    suite = json.loads(capsys.readouterr().out)
    for name in ("bfcl", "bfcl_memory"):
        assert (
            suite["rows"][name]["kinds"]["all"]["difference"]["mean"] == 0
            and not suite["rows"][name]["cards_differ"]
        )
        folders = sorted((made.path / "eval" / "suite" / name).iterdir())
        assert [folder.name for folder in folders] == ["step_00000000.a1", "step_00000003.a1"]
        assert [len(list(episodes(folder))) for folder in folders] == (
            [8, 8] if name == "bfcl" else [34, 34]
        )
    assert run(told) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == suite["rows"]
