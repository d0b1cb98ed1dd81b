"""What a process takes from itself, on kernels older than this one too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from console.verbs.doctor import installation
from rods.environments.workers import confining
from tests.rods.environments.tiers import require_tier

# The rights of an older Landlock are a part of this one's: what it does not handle, it lets through.
OLDER = """
import os, socket, sys
from rods.environments.workers import confining
confining.landlock_version = lambda: {version}
ours, theirs = socket.socketpair()
confining.confine({{"readable": sys.path[:1] + ["/usr", "/lib"], "writable": [], "threads": theirs.detach()}}, 1 << 30)
for flags in (os.O_RDONLY, os.O_RDONLY | os.O_TRUNC):
    try:
        os.open(sys.argv[1], flags)
        print("opened")
    except PermissionError as error:
        print(error.errno)
"""


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_a_readable_file_is_not_cut_off_under_any_landlock(version: int, tmp_path: Path) -> None:
    """Before version 3 that needs no right but that to read."""
    require_tier("landlock")
    if version > confining.landlock_version():
        pytest.skip(f"this kernel's Landlock is older than {version}")
    (tmp_path / "file").write_text("whole", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{OLDER.format(version=version)}"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "file"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split()[0] == "opened" and done.stdout.split()[1] in ("1", "13")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "whole"


@pytest.mark.parametrize(
    ("version", "left"), [(7, None), (5, "abstract sockets"), (3, "TCP"), (0, "cutting files off")]
)
def test_doctor_says_what_this_kernel_leaves_to_a_single_lock(
    version: int, left: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_tier("landlock")
    monkeypatch.setattr(confining, "landlock_version", lambda: version)
    (found,) = (finding for finding in installation() if finding.name == "sandbox")
    assert (left is None) == ("seccomp alone" not in found.text) and (left or "tier") in found.text
