"""The plan of a run: what would be done, in numbers, without doing it."""

from pathlib import Path

import pytest

from rods.config import parse_config
from rods.errors import EXIT_OK, EXIT_USER
from rods.trainer.main import run
from rods.trainer.nano import model as network
from rods.trainer.plan import Launch, plan
from rods.worlds.sources import load_tasks
from tests.trainer.nano_parts import chat
from tests.trainer.runs import write_config


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path / "c.toml", {"training.steps": 40, "training.batch_tasks": 8})
    before = sorted(tmp_path.rglob("*"))
    assert run([str(tmp_path / "run"), "--config", str(config), "--dry-run"]) == EXIT_OK
    said = capsys.readouterr().out
    assert "rollouts a step 32, rollouts 1,280" in said and "steps in the first epoch 3" in said
    assert "nothing was started" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_refuses_what_the_start_would_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path / "c.toml", {"training.batch_tasks": 500})
    assert run([str(tmp_path / "run"), "--config", str(config), "--dry-run"]) == EXIT_USER
    assert "a batch needs 500" in capsys.readouterr().err
    config = write_config(tmp_path / "c.toml", {"policy.kind": "transformers", "policy.model": "nowhere"})
    assert run([str(tmp_path / "run"), "--config", str(config), "--dry-run"]) == EXIT_USER
    assert "there is no model" in capsys.readouterr().err


def test_a_dry_run_needs_no_weights_and_without_a_model_says_what_needs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`config.json` alone, in the policy's folder or anywhere, gives parameters and memory."""
    folder, apart = tmp_path / "model", tmp_path / "config.json"
    network.fresh(chat().tokenizer, 1).config.save_pretrained(folder)
    apart.write_bytes((folder / "config.json").read_bytes())
    config = write_config(tmp_path / "c.toml", {"policy.kind": "transformers", "policy.model": "model"})
    command = [str(tmp_path / "run"), "--config", str(config), "--dry-run"]
    assert run(command) == EXIT_OK
    whole = capsys.readouterr().out
    assert ", parameters " in whole and "memory gb a process: weights" in whole
    (folder / "config.json").unlink()
    assert run([*command, "--config-json", str(apart)]) == EXIT_OK
    assert capsys.readouterr().out == whole
    assert run(command) == EXIT_USER
    said = capsys.readouterr()
    assert "rollouts a step" in said.out and "memory gb" not in said.out
    assert "there is no model → policy.model must be" in said.err
    for wrong in ([*command, "--config-json", str(tmp_path / "none")], [*command[:-1], "--config-json", str(apart)]):
        assert run(wrong) == EXIT_USER
        assert "--dry-run" in capsys.readouterr().err


def test_a_name_on_a_hub_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path / "c.toml", {"policy.kind": "transformers", "policy.model": "Qwen/Qwen3-4B"})
    for more in (["--dry-run"], []):
        assert run([str(tmp_path / "run"), "--config", str(config), *more]) == EXIT_USER
        said = capsys.readouterr().err
        assert f"{tmp_path / 'Qwen' / 'Qwen3-4B'}: there is no model → " in said and "not a name on a hub" in said


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
    alone, shared = (plan(tmp_path / "run", config, tasks, [], Launch(processes)) for processes in (1, 2))
    stored = {id(parameter): parameter.numel() for parameter in made.parameters()}
    assert alone["policy"]["parameters"] == sum(stored.values())
    assert shared["memory_gb_a_process"]["in all at most"] < alone["memory_gb_a_process"]["in all at most"]
    with_reference = config.model_copy(update={"training": config.training.model_copy(update={"kl": 0.1})})
    more = plan(tmp_path / "run", with_reference, tasks, [], Launch())["memory_gb_a_process"]
    assert more["reference policy"] == more["weights"]
