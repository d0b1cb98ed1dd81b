"""A module has one name, below `rods`: a room that is imported as a folder of the checkout fails at
once with the right name, and `rods` itself does where its rooms are missing. Installed copies:
tests/package.sh."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROOMS = sorted(path.name for path in (ROOT / "rods").iterdir() if path.is_symlink())
REMEDY = "git config core.symlinks true; git checkout -- rods"


def python(folder: Path, path: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def module_names(room: str) -> list[str]:
    """Every module of a room, and every folder in it, by the name that it has seen from the
    checkout."""
    paths = [path for path in (ROOT / room).rglob("*") if path.suffix == ".py" or path.is_dir()]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths}
    return [room, *sorted(name.removesuffix(".__init__") for name in names)]


def test_every_folder_of_the_checkout_that_is_linked_into_the_package_is_tried() -> None:
    assert ROOMS == [
        "buffers",
        "console",
        "daemon",
        "evaluation",
        "family",
        "prompts",
        "trainer",
        "worlds",
    ]
    assert "trainer.policy" in module_names("trainer")


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_can_be_imported_by_a_second_name(room: str) -> None:
    for name in module_names(room):
        with pytest.raises(
            ImportError, match=rf"^{room} is rods\.{room}: import it and its modules by that name$"
        ):
            importlib.import_module(name)
        assert name not in sys.modules


@pytest.mark.parametrize("by_path", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [("-c", "from buffers.log import tail"), ("-m", "daemon"), ("-m", "daemon.stand_ins")],
    ids=" ".join,
)
def test_a_new_process_says_the_right_name(
    arguments: tuple[str, str], by_path: bool, tmp_path: Path
) -> None:
    done = python(tmp_path, ROOT, *arguments) if by_path else python(ROOT, None, *arguments)
    assert done.returncode == 1
    room = "buffers" if "buffers" in arguments[1] else "daemon"
    assert f"{room} is rods.{room}" in done.stderr


def test_a_package_of_the_user_with_the_name_of_a_room_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "daemon").mkdir()
    (tmp_path / "daemon" / "__init__.py").write_text("OWNER = 'user'\n")
    done = python(tmp_path, ROOT, "-c", "import daemon, rods.daemon; print(daemon.OWNER)")
    assert (done.returncode, done.stdout) == (0, "user\n"), done.stderr


def test_a_checkout_without_symbolic_links_says_how_to_get_them(tmp_path: Path) -> None:
    """Such a checkout is made by git here, of the files that the messages depend on, and mended as
    they say."""
    source = tmp_path / "source"
    for name in ("rods/__init__.py", "rods/prompts", "prompts/__init__.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    git = "git -c user.name=tests -c user.email=tests@localhost"
    commands = (
        f"git init -q && git add . && {git} commit -qm all && git clone -qc core.symlinks=false . "
        f"../flat"
    )
    subprocess.run(commands, shell=True, cwd=source, check=True)
    flat = tmp_path / "flat"
    assert (flat / "rods" / "prompts").is_file()
    done = python(flat, None, "-c", "import rods")
    assert done.returncode == 1
    assert REMEDY in done.stderr.splitlines()[-1]
    subprocess.run(REMEDY, shell=True, cwd=flat, check=True)
    done = python(flat, None, "-c", "import rods.prompts; print(rods.prompts.FOLDER)")
    assert (done.returncode, done.stdout) == (0, f"{flat}/rods/prompts\n"), done.stderr


def test_a_package_that_was_built_without_its_rooms_says_so(tmp_path: Path) -> None:
    (tmp_path / "rods").mkdir()
    shutil.copy(ROOT / "rods" / "__init__.py", tmp_path / "rods")
    done = python(tmp_path, None, "-c", "import rods")
    assert done.returncode == 1
    assert REMEDY in done.stderr.splitlines()[-1]
    (tmp_path / "rods" / "prompts").symlink_to("../prompts")  # a sandbox shows the link alone
    assert python(tmp_path, None, "-c", "import rods").returncode == 0
