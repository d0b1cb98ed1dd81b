"""The setup script says what is wrong in one sentence before it downloads anything, and costs
nothing when it is done.

The real installation is what `make demo` and CI do; here are its refusals and its quick way out.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the script reads."""
    (tmp_path / "console").mkdir()
    (tmp_path / "rods" / "prompts").mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt", "console/setup.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def fake_python(tree: Path, version: str, also: str = "exit 0") -> Path:
    """A program that says it is Python `version`; asked for anything else it runs `also`."""
    path = tree / f"python{version}"
    minor = version.split(".")[1]
    path.write_text(f'#!/bin/sh\ncase "$*" in *version_info*) echo {minor} ;; *) {also} ;; esac\n')
    path.chmod(0o755)
    return path


def setup(tree: Path, python: Path | str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", "console/setup.sh", "demo"],
        cwd=tree,
        env={**os.environ, "PYTHON": str(python), "TORCH_INDEX": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("version", ["3.10", "3.15"])
def test_a_python_without_torch_wheels_is_one_sentence_with_the_remedy(
    tree: Path, version: str
) -> None:
    done = setup(tree, fake_python(tree, version))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"={version}" in done.stderr
    assert "PYTHON=python3.12" in done.stderr


def test_a_missing_venv_module_is_one_sentence_with_the_remedy(tree: Path) -> None:
    done = setup(tree, fake_python(tree, "3.12", also="exit 1"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "python3-venv" in done.stderr


def test_a_checkout_without_symbolic_links_is_one_sentence_with_the_remedy(tree: Path) -> None:
    (tree / "rods" / "prompts").rmdir()
    (tree / "rods" / "prompts").write_text("../prompts")
    done = setup(tree, fake_python(tree, "3.12"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "git config core.symlinks true; git checkout -- rods" in done.stderr


def test_sizes_are_said_before_anything_is_downloaded(tree: Path) -> None:
    """The fake Python fails at `-m venv`, so all that is printed was printed before."""
    fails_late = 'case "$*" in *venv*clear*|*-m*) exit 9 ;; *) exit 0 ;; esac'
    done = setup(tree, fake_python(tree, "3.12", also=fails_late))
    assert done.returncode != 0
    assert "MB" in done.stdout
    assert "TORCH_INDEX" in done.stdout or "PyTorch" in done.stdout
    assert not (tree / ".venv").exists()


def test_a_second_run_does_nothing(tree: Path) -> None:
    (tree / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(fake_python(tree, "3.12"), tree / ".venv/bin/python")
    key = subprocess.run(
        "cat pyproject.toml constraints.txt console/setup.sh | cksum | tr ' ' -",
        shell=True,
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (tree / ".venv/rods-setup").write_text(f"{key} dev\n")
    done = setup(tree, "python-that-does-not-exist")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_constraints_pin_what_the_project_names_exactly() -> None:
    """pyproject's exact pins (torch, TRL and theirs) are those of the constraints file."""
    pins = {
        line.split("==")[0]: line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    text = (ROOT / "pyproject.toml").read_text()
    for name in ("torch", "trl", "transformers", "accelerate"):
        assert f'"{pins[name]}"' in text
