"""How well this machine can lock a process in: what it offers was tried, not looked up.

- `bubblewrap`: a world of its own (files, processes, network, users), and inside it what the next tier has.
- `landlock`: no world of its own, but the kernel refuses all files that are not named, sockets, other programs and
  processes, and signals. Nothing can be written.
- `limits`: memory, files and time are bounded, and nothing else. No place for code that nobody vouches for.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from rods.environments.sandbox import landlock, seccomp

Tier = Literal["limits", "landlock", "bubblewrap"]
TIERS: tuple[Tier, ...] = ("limits", "landlock", "bubblewrap")  # from the lowest to the highest
SCRATCH_BYTES = 64 << 20  # of the private /tmp, which bubblewrap has in memory
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")


class Offer(NamedTuple):
    """A tier of this machine, and for each higher one why it is not to be had."""

    tier: Tier
    missing: dict[str, str]


@cache
def probe() -> Offer:
    missing: dict[str, str] = {}
    if (why := _without_bubblewrap()) is None:
        return Offer("bubblewrap", missing)
    missing["bubblewrap"] = why
    if landlock.version() and seccomp.available():
        return Offer("landlock", missing)
    missing["landlock"] = "needs Linux 5.13 with Landlock enabled, and a processor whose system calls are known here"
    return Offer("limits", missing)


def reaches(tier: Tier, lowest: Tier) -> bool:
    return TIERS.index(tier) >= TIERS.index(lowest)


def system_paths() -> tuple[Path, ...]:
    """What programs need of the system, to be read."""
    return tuple(path for path in map(Path, _SYSTEM) if path.exists())


def bubblewrap(readable: Sequence[Path]) -> list[str]:
    """The command that goes before another one: a new world with nothing in it but `readable` (system paths among
    them), devices, and a small /tmp in memory."""
    command = [
        shutil.which("bwrap") or "bwrap",
        *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"),
        *("--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--dev", "/dev"),
        *("--size", str(SCRATCH_BYTES), "--tmpfs", "/tmp"),
    ]
    if not (landlock.version() and seccomp.available()):
        # A terminal is out of reach by these two already, and the scheduler of a busy machine treats another session as
        # a group of its own: calls between two sessions took three times as long there.
        command.append("--new-session")
    for path in readable:
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        else:
            command += ["--ro-bind", str(path), str(path)]
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]


def _without_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used, or None: it is started for real, since user namespaces may be forbidden."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed (package bubblewrap)"
    try:
        done = subprocess.run(
            [*bubblewrap(system_paths()), "/usr/bin/true"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap cannot be started: {error}"
    return None if done.returncode == 0 else f"bwrap is refused: {done.stderr.strip()[:200]}"
