"""Without the libraries that train weights: said at once, with the command that installs them,
before a run is made."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rods import commands
from rods.console.main import run
from rods.errors import EXIT_OK, EXIT_USER
from rods.trainer.main import run as train
from tests.console.conftest import CONFIG

REMEDY = "pip install '.[train]' in the clone"
FIND = importlib.util.find_spec


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of a policy with weights, where an installed package has no PyTorch beside
    it."""

    def find(name: str, package: str | None = None) -> object:
        return None if name in commands.LIBRARIES else FIND(name, package)

    monkeypatch.setattr(commands, "find_spec", find)
    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.setattr(commands, "CHECKOUT", tmp_path)
    path = tmp_path / "run.toml"
    path.write_text(CONFIG.replace('kind = "simulated"', 'kind = "nano"'))
    return path


def test_up_and_train_refuse_before_they_make_a_run(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    for start in (lambda *given: run(["up", *given]), lambda *given: train(list(given))):
        assert start(str(path), "--config", str(config)) == EXIT_USER and not path.exists()
        told = capsys.readouterr().err
        assert told.count("\n") <= 2 and "torch" in told and REMEDY in told


def test_a_run_that_another_machine_may_train_is_made_and_the_rest_told(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    assert run(["trainer", "new", str(path), "--config", str(config)]) == EXIT_OK
    assert REMEDY in capsys.readouterr().out
    assert run(["up", str(path)]) == EXIT_USER and train([str(path)]) == EXIT_USER


def test_the_doctor_names_the_command_that_fits(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rods.family.trials")
    run(["doctor"])
    told = capsys.readouterr().out
    assert REMEDY in told and "make demo" not in told
