"""Local weights on BFCL: a tiny random model, through the trainer's rollout engine."""

import json
from pathlib import Path

import pytest
import torch

from evaluation.journal import episodes
from evaluation.main import run
from rods.environments import desk
from rods.environments.bfcl import fetch
from trainer.nano import model, tokenizer

TASKS = ("--tasks-per-type", "2", "--max-tokens", "8", "--max-context", "600", "--json")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fetch()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("weights")
    words = tokenizer.build(" " + word for word in desk.words())
    model.fresh(words, 0).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


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


def test_official_prompts_that_do_not_fit_the_context_are_told(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", str(tmp_path / "e"), "--weights", str(weights), *TASKS]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ends"] == {"context": 8}
    assert found["scores"]["held-out"]["all"]["official"]["mean"] == 0


def test_native_calls_need_a_server(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(tmp_path / "e"), "--weights", str(weights), "--calls", "native", *TASKS]) == 2
    assert "local weights have none" in capsys.readouterr().err
