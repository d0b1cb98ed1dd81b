"""The memory cgroup of confined processes: where one is made, and what it ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rods.config import Sandbox
from rods.worlds.sandbox.confined import confined
from rods.worlds.sandbox.memory_group import joining, make
from tests.worlds.sandbox.tiers import require_tier

MADE = f"rods-sandbox-{os.getpid()}"
# Maps of a page each cost their process no address space to speak of, and the kernel 200 bytes a
# map.
MAPS = """
import mmap
kept = []
for place in range(60_000):
    kept.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ if place % 2 else mmap.PROT_WRITE))
print("made them all")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("memory/job/step", "user/app/ours", "bare/ours"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "user/app/cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "user/app/ours/cgroup.subtree_control").write_text("\n")
    (tmp_path / "bare/cgroup.subtree_control").write_text("cpu\n")
    return tmp_path


@pytest.mark.parametrize(
    ("own", "place", "limit"),
    [
        (
            "7:pids:/\n4:memory:/job/step\n0::/user/app/ours\n",
            "memory/job/step",
            "memory.limit_in_bytes",
        ),
        ("4:cpu,memory:/nowhere\n0::/user/app/ours\n", "user/app", "memory.max"),
        ("0::/user/app/ours\n", "user/app", "memory.max"),
        ("0::/user/app\n", "user/app", "memory.max"),
    ],
)
def test_a_group_is_made_where_memory_is_counted(
    tree: Path, own: str, place: str, limit: str
) -> None:
    (tree / "own").write_text(own)
    assert make(tree, tree / "own", 1 << 30) == tree / place / MADE
    assert (tree / place / MADE / limit).read_text() == str(1 << 30)


@pytest.mark.parametrize("own", ["0::/bare/ours\n", "0::/\n", "7:pids:/\n", ""])
def test_where_none_can_be_made_there_is_none(tree: Path, own: str) -> None:
    (tree / "own").write_text(own)
    assert make(tree, tree / "own", 1 << 30) is None
    assert make(tree, tree / "absent", 1 << 30) is None
    assert not list(tree.rglob("rods-*"))


def test_groups_of_programs_that_have_ended_are_removed(tree: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for number in (ended.pid, os.getppid()):
        (tree / f"memory/job/step/rods-sandbox-{number}").mkdir()
    (tree / "own").write_text("4:memory:/job/step\n")
    made = make(tree, tree / "own", 1 << 30)
    assert made is not None
    assert {path.name for path in made.parent.iterdir()} == {MADE, f"rods-sandbox-{os.getppid()}"}


def in_a_group(most: int, code: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a group of `most` bytes, made by a program of its own."""
    program = (
        f"import subprocess, sys; from rods.worlds.sandbox.memory_group import joining; head = "
        f"joining({most})\n"
    )
    program += (
        f"sys.exit(subprocess.run([*head, sys.executable, '-c', {code!r}]).returncode if head else "
        f"77)"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_what_the_kernel_keeps_for_a_process_is_counted() -> None:
    held = in_a_group(20 << 20, MAPS)
    if held.returncode == 77:
        pytest.skip("no memory cgroup can be made here")
    assert held.returncode == 256 - signal.SIGKILL, held
    assert "made them all" in in_a_group(1 << 30, MAPS).stdout


def test_confined_processes_are_in_it() -> None:
    require_tier("landlock")
    if not joining(1 << 40):
        pytest.skip("no memory cgroup can be made here")
    environment = confined(
        "tests.rods.toy_environment:environment", Sandbox(workers=1, seconds=30.0)
    )
    try:
        environment.reset(None)
        (cell,) = environment._cells
        assert MADE in Path(f"/proc/{cell.worker.pid}/cgroup").read_text()
        assert MADE not in Path("/proc/self/cgroup").read_text()
    finally:
        environment.close()
