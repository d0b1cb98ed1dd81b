"""Generated worlds travel with the run whose tasks are in them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rods.buffers.audit.verify import verify
from rods.buffers.run.creation import bring
from rods.buffers.run.run import Run
from rods.console.main import run as rods
from rods.errors import UserError
from tests.worlds.small_tasks import small_tasks, small_worlds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was created somewhere else than its worlds lie, trained after these were deleted,
    and then moved."""
    home = tmp_path_factory.mktemp("home")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    config = small_tasks(home)
    assert rods(["trainer", "new", str(elsewhere / "run"), "--config", str(config)]) == 0
    shutil.rmtree(home)
    trained = [sys.executable, "-m", "rods.trainer", "run"]
    subprocess.run(
        trained, cwd=elsewhere, check=True, timeout=120, env={"PYTHONPATH": ":".join(sys.path)}
    )
    return (elsewhere / "run").rename(elsewhere / "moved")


@pytest.mark.needs("page")
def test_a_run_needs_no_file_but_its_own(moved: Path, tmp_path: Path) -> None:
    run = Run.open(moved)
    assert len(list((moved / "environments").iterdir())) == 2
    with run.environments:
        run.check_environments()
    found = verify(moved, replay=True)
    assert found.ok and found.counts["steps"] == 4, found.problems
    assert rods(["inspect", str(moved), run.tasks[0].id]) == 0
    assert rods(["trainer", "fork", str(moved), str(tmp_path / "fork")]) == 0
    assert rods(["data", "export", str(moved), str(tmp_path / "tables")]) == 0
    for copy in ("fork", "tables"):
        for file in moved.glob("environments/*/world.py"):
            assert (tmp_path / copy / file.relative_to(moved)).read_bytes() == file.read_bytes()


def test_a_world_that_is_damaged_or_gone_is_noticed(moved: Path, tmp_path: Path) -> None:
    shutil.copytree(moved, tmp_path / "run")
    one, other = sorted((tmp_path / "run").glob("environments/*/world.py"))
    one.write_text(one.read_text().replace("no such jar", "no jar"))
    other.unlink()
    told = {each["where"]: each["what"] for each in verify(tmp_path / "run").problems}
    assert told[str(one.relative_to(tmp_path / "run"))] == "is not the world that its address says"
    assert told[str(other.relative_to(tmp_path / "run"))] == "is missing"
    with pytest.raises(UserError, match="not the world that its address says"):
        Run.open(tmp_path / "run").environments.load(
            f"environments/{one.parent.name}/world.py:environment"
        )


def test_a_file_is_whole_when_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = small_worlds(tmp_path / "home")
    bring([*names, "desk"], [tmp_path / "home"], tmp_path)
    assert len(list((tmp_path / "environments").iterdir())) == 2
    bring(names, [], tmp_path)  # they are there: nothing is read
    shutil.rmtree(tmp_path / "environments")

    def killed(path: Path, content: bytes) -> None:
        path.write_bytes(content[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr("rods.buffers.run.creation.write", killed)
    with pytest.raises(KeyboardInterrupt):
        bring(names, [tmp_path / "home"], tmp_path)
    assert not list((tmp_path / "environments").iterdir())
