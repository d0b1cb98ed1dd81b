"""What a process takes from itself, on kernels older than this one too."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from rods.family.trials.doctor import installation
from rods.worlds.sandbox import confining, seccomp
from tests.worlds.sandbox.tiers import require_tier

# The rights of an older Landlock are a part of this one's: what it does not handle, it lets
# through.
OLDER = """
import os, socket, sys
from rods.worlds.sandbox import confining
confining.landlock_version = lambda: {version}
ours, theirs = socket.socketpair()
readable = sys.path[:1] + ["/usr", "/lib"]
threads = theirs.detach()
confining.confine({{"readable": readable, "writable": [], "threads": threads}}, 1 << 30)
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
        [sys.executable, "-c", code, tmp_path / "file"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
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


def verdict(
    program: list[tuple[int, int, int, int]], machine: int, number: int, *arguments: int
) -> int:
    """What the kernel's interpreter would return for a call: the five instructions that the filter
    consists of."""
    data = struct.pack("<iIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    place = accumulator = 0
    while True:
        operation, if_so, if_not, operand = program[place]
        if operation == 0x06:
            return operand
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
            place += 1
            continue
        tests = {
            0x15: accumulator == operand,
            0x35: accumulator >= operand,
            0x45: bool(accumulator & operand),
        }
        place += 1 + (if_so if tests[operation] else if_not)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_allows_what_is_listed_and_nothing_else_on_both_machines(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that this machine is not has no kernel to try it here."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    column, audit = seccomp._MACHINES[machine]
    allow = seccomp._ALLOW
    idle = seccomp._ERRNO
    refuse = seccomp._ERRNO | 1
    absent = seccomp._ERRNO | 38
    program = seccomp._program(True)
    calls = seccomp._CALLS
    always = {numbers[column] for numbers in calls["allowed"].values()} - {-1}
    assert all(verdict(program, audit, number) == allow for number in always)
    assert all(
        verdict(program, audit, numbers[column]) == idle for numbers in calls["idle"].values()
    )
    partly = {
        name: call["numbers"][column] for name, call in (calls["partly"] | calls["without"]).items()
    }
    known = always | {numbers[column] for numbers in calls["idle"].values()} | {*partly.values()}
    for number in {*range(2000), 0x40000000, 0x40000029, 0x7FFFFFFF} - known:
        assert verdict(program, audit, number) == (absent if number >= 435 else refuse), number
    assert verdict(program, 0x40000003, 0) == seccomp._KILL  # 32-bit calls
    for name, legal, illegal in (
        ("clone", (0x3D0F00,), (17,)),
        ("clone", (0x7D0F00,), (0x10000,)),
        ("fcntl", (3, 3), (3, 1024)),
        ("ioctl", (3, 0x5401), (3, 0x40086602)),
        ("socketpair", (1, 0x80001), (1, 2)),
        ("sendto", (3, 0, 0, 0, 0), (3, 0, 0, 0, 1 << 32)),
        ("prlimit64", (0, 7, 0), (0, 7, 1 << 32)),
        ("prlimit64", (os.getpid(), 7, 0), (os.getppid(), 7, 0)),
        ("mmap", (0, 9, 3, 0x22), (0, 9, 3, 0x40022)),
        ("clock_gettime", (11,), (0xFFFFFFFF,)),
    ):
        assert verdict(program, audit, partly[name], *legal) == allow, name
        assert verdict(program, audit, partly[name], *illegal) == refuse, name
    uncut = seccomp._program(False)
    openat = calls["allowed"]["openat"][column]
    assert verdict(uncut, audit, openat, 0, 0, 0x200) == refuse
    assert all(verdict(uncut, audit, openat, 0, 0, flags) == allow for flags in (0, 0x241, 0x202))
