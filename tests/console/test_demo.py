"""What `make demo` does with the folder of an earlier demo. The demo itself takes minutes and is
run by hand."""

import shutil
from pathlib import Path

import pytest

from rods.config import read_config
from rods.console import demo
from tests.console.conftest import CONFIG


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.toml").write_text(CONFIG)
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.mark.slow
def test_a_finished_demo_is_moved_aside(here: Path, finished_run: Path) -> None:
    for name in ("demo-1", "demo-2"):
        shutil.copytree(finished_run, here / "runs/demo")
        demo.move_aside(here / "demo.toml")
        assert not (here / "runs/demo").exists()
        assert (here / "runs" / name / "manifest.json").exists()


def test_an_interrupted_demo_is_left_where_it_is(here: Path, finished_run: Path) -> None:
    shutil.copytree(finished_run, here / "runs/demo")
    for log in ("observations.jsonl", "pool.jsonl"):
        (here / "runs/demo" / log).write_bytes(b"")
    demo.move_aside(here / "demo.toml")
    assert (here / "runs/demo/manifest.json").exists()


def test_a_demo_made_with_other_settings_is_moved_aside(here: Path, finished_run: Path) -> None:
    shutil.copytree(finished_run, here / "runs/demo")
    (here / "demo.toml").write_text(CONFIG.replace("steps = 14", "steps = 15"))
    demo.move_aside(here / "demo.toml")
    assert (here / "runs/demo-1/manifest.json").exists()


def test_the_demo_s_own_configuration_is_sound() -> None:
    config = read_config(Path(demo.__file__).with_name("demo.toml"))
    assert config.policy.kind == "nano"
    assert config.data.held_out >= 200  # the interval of the report rests on them
    assert config.training.batch_tasks <= config.data.train
