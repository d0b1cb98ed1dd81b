"""Makes a confined environment in the highest tier that this machine offers, or refuses where
that is too low. What the three tiers lock stands in docs/sandbox.md; which of them there are is
tried, not looked up. In the two higher ones the threads of a process are counted here
(`count_threads`)."""

import contextlib
import errno
import fcntl
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from rods.config import Sandbox
from rods.environments.workers.worker import Confinement
from rods.errors import Finding, UserError
from rods.worlds.sandbox import confining, memory_group, seccomp
from rods.worlds.sandbox.environment import Sandboxed
from rods.worlds.sandbox.process_pool import Pool, Spares

Tier = Literal["limits", "landlock", "bubblewrap"]
TIERS: tuple[Tier, ...] = ("limits", "landlock", "bubblewrap")  # from the lowest to the highest
WORLDS = "rods.worlds"
CONFINE = "rods.worlds.sandbox.confining:confine"
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
# of one process; where several of its threads start one at the same instant, up to twice as many
THREADS = 64
# ioctl: the next question, an answer
_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_QUESTION = struct.Struct("QI68x")  # its number, and the thread that asks
_ANSWER = struct.Struct("QqiI")  # the question's number, a value, an error, flags
_GO_ON = 1
# seconds between answers: who asks without end takes no more than a twentieth of a processor here
_PAUSE = 0.001


class Confiner:
    """Confines the environments of one program or run as `settings` say; their processes share one
    pool."""

    def __init__(self, settings: Sandbox) -> None:
        self._settings = settings
        self._pool = Pool(settings.processes)
        # for generated worlds, whichever is next
        self._spares = Spares(settings.workers, self._pool, ahead=True)

    def confine(self, factory: str, source: str | None = None) -> Sandboxed:
        """See `confined`; a `source` is the text of a generated world."""
        spares = Spares(self._settings.workers, self._pool) if source is None else self._spares
        return confined(factory, self._settings, source=source, spares=spares)


def confined(
    factory: str,
    settings: Sandbox,
    *,
    source: str | None = None,
    spares: Spares | None = None,
    tier: Tier | None = None,
) -> Sandboxed:
    """The environment made by `factory` ("package.module:function"), locked in as well as this
    machine can, or just as well as `tier` says. With `source`, the text of its file, no such file
    is read. Raises UserError when the tier is below the lowest of the `settings`, or there is no
    such module."""
    offer = offered()
    tier = tier or offer.tier
    if not reaches(tier, settings.lowest_tier):
        reasons = "; ".join(f"{name}: {why}" for name, why in offer.missing.items())
        raise UserError(
            f"the sandbox of this machine is only of tier {tier!r} ({reasons})",
            where=f"environment {factory!r}",
            remedy="install bubblewrap, or accept that the code can do what this user can: "
            f"lowest_tier = {tier!r}",
        )
    kept_in = confinement(factory if source is None else None, tier, settings.readable)
    if tier != "limits":
        kept_in = replace(
            kept_in, command=(*memory_group.joining(_together(settings)), *kept_in.command)
        )
    return Sandboxed(factory, kept_in, settings, source=source, spares=spares)


def _together(settings: Sandbox) -> int:
    """Bytes that all confined processes of a program may take, with what the kernel keeps for
    them."""
    return settings.processes * (settings.memory_bytes + memory_group.KERNEL)


def confinement(factory: str | None, tier: Tier, readable: Sequence[str] = ()) -> Confinement:
    """What a process for `factory` may read: the system's libraries, Python and its packages, this
    package, and the top-level package, module or file (whole path) of the factory, if it has one
    (with `readable`), and nothing else."""
    own = [_place("rods")]
    if factory is not None:
        module = factory.rpartition(":")[0]
        own.append(Path(module) if module.endswith(".py") else _place(module.partition(".")[0]))
    linked = _place(WORLDS).resolve()  # where `rods/worlds` leads in a checkout
    libraries = [Path(entry) for entry in sys.path if _is_library(Path(entry))]
    path = dict.fromkeys(map(str, [*libraries, *(place.parent for place in own)]))
    more = [Path(entry).absolute() for entry in readable]
    places = _outermost([*system_paths(), Path(sys.base_prefix), *libraries, *own, linked, *more])
    command: list[str] = []
    if tier == "bubblewrap":
        command = bubblewrap(places)
    files = {"readable": [*map(str, places), *_DEVICES], "writable": ["/dev/null"]}
    return Confinement(
        tuple(command), tuple(path), None if tier == "limits" else files, CONFINE, count_threads
    )


def _place(name: str) -> Path:
    """The folder or file of a top-level package or module, found without running any of it."""
    spec = PathFinder.find_spec(name) or find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).absolute()
    if spec is None or not spec.origin or not Path(spec.origin).exists():
        raise UserError(f"no module {name!r}", where="sandbox", remedy="install it beside rods")
    return Path(spec.origin).absolute()


def _is_library(entry: Path) -> bool:
    """Whether an entry of sys.path holds Python's own modules, or installed packages."""
    if entry.name in ("site-packages", "dist-packages"):
        return entry.exists()
    return entry.exists() and entry.resolve().is_relative_to(Path(sys.base_prefix).resolve())


def _outermost(places: Sequence[Path]) -> list[Path]:
    """Without what lies below another one."""
    outermost: list[Path] = []
    for place in sorted(set(places), key=lambda place: len(place.parts)):
        if not any(place.is_relative_to(above) for above in outermost):
            outermost.append(place)
    return outermost


class Offer(NamedTuple):
    """A tier of this machine, and for each higher one why it is not to be had."""

    tier: Tier
    missing: dict[str, str]


@cache
def offered() -> Offer:
    """What this machine can do. Tried once a process, not looked up."""
    missing: dict[str, str] = {}
    if (why := _without_bubblewrap()) is None:
        return Offer("bubblewrap", missing)
    missing["bubblewrap"] = why
    if confining.landlock_version() and seccomp.available():
        return Offer("landlock", missing)
    missing["landlock"] = (
        "needs Linux 5.13 with Landlock enabled, and a processor whose system calls are known here"
    )
    return Offer("limits", missing)


def finding() -> Finding:
    """For `rods doctor`: the best tier of this machine, what a better one lacks, and what this
    kernel leaves to a single lock (docs/sandbox.md)."""
    tier, missing = offered()
    text = f"tier {tier!r}" + "".join(f"; no {name}: {why}" for name, why in missing.items())
    if tier != "limits" and not seccomp.available():
        text += (
            "; no seccomp for this processor: namespaces alone keep it from sockets and other "
            "processes"
        )
    elif tier != "limits" and (single := confining.left_to_seccomp()):
        text += (
            f"; Landlock {confining.landlock_version()} leaves to seccomp alone: "
            f"{', '.join(single)}"
        )
    if tier != "limits" and not memory_group.joining(_together(Sandbox())):
        text += (
            "; no memory cgroup can be made here: what the kernel keeps for a process is bounded a "
            "process alone"
        )
    remedy = "install bubblewrap, or ask for user namespaces" if missing else ""
    return Finding("sandbox", None if missing else True, text, remedy)


def reaches(tier: Tier, lowest: Tier) -> bool:
    return TIERS.index(tier) >= TIERS.index(lowest)


def system_paths() -> tuple[Path, ...]:
    """What programs need of the system, to be read."""
    return tuple(path for path in map(Path, _SYSTEM) if path.exists())


def bubblewrap(readable: Sequence[Path]) -> list[str]:
    """The command that goes before another one: a new world with nothing in it but `readable`
    (system paths among them) and devices. Nothing can be written: the files of a /tmp in memory
    would count for nobody's limit."""
    command = [
        shutil.which("bwrap") or "bwrap",
        *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"),
        *(
            "--cap-drop",
            "ALL",
            "--uid",
            "65534",
            "--gid",
            "65534",
            "--hostname",
            "sandbox",
            "--dev",
            "/dev",
        ),
        *("--dir", "/tmp"),
    ]
    if not (confining.landlock_version() and seccomp.available()):
        # A terminal is out of reach by these two already, and the scheduler of a busy machine
        # treats another session as a group of its own: calls between two sessions took three times
        # as long there.
        command.append("--new-session")
    for path in readable:
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        else:
            command += ["--ro-bind", str(path), str(path)]
    return [*command, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]


def _without_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used, or None: it is started for real, since user namespaces may be
    forbidden."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed (package bubblewrap)"
    try:
        done = subprocess.run(
            [*bubblewrap(system_paths()), "/usr/bin/true"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap cannot be started: {error}"
    return None if done.returncode == 0 else f"bwrap is refused: {done.stderr.strip()[:200]}"


def count_threads() -> socket.socket:
    """One end of a socket for a new child, which sends its listener through it
    (`seccomp.listen_for_threads`). The kernel then asks here before each new thread (seccomp's user
    notification): a limit on processes (RLIMIT_NPROC) does not bind root, and counts all programs
    of a user. One thread of this process answers for all children."""
    ours, theirs = socket.socketpair()
    _counter(os.getpid()).add(ours)
    return theirs


class _ThreadCounter:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handovers: dict[int, socket.socket] = {}
        threading.Thread(target=self._run, name="threads-of-workers", daemon=True).start()

    def add(self, handover: socket.socket) -> None:
        self._handovers[handover.fileno()] = handover
        self._epoll.register(handover, select.EPOLLIN)

    def _run(self) -> None:
        while True:
            for descriptor, events in self._epoll.poll():
                with contextlib.suppress(OSError):  # a child that has ended meanwhile
                    if descriptor in self._handovers:
                        self._take_over(self._handovers.pop(descriptor))
                    elif events & select.EPOLLIN:
                        _answer_thread(descriptor)
                        time.sleep(_PAUSE)
                    else:
                        self._epoll.unregister(descriptor)
                        os.close(descriptor)

    def _take_over(self, handover: socket.socket) -> None:
        self._epoll.unregister(handover)
        with handover:
            for listener in socket.recv_fds(handover, 1, 1)[1]:
                self._epoll.register(listener, select.EPOLLIN)


def _answer_thread(listener: int) -> None:
    question = bytearray(_QUESTION.size)
    fcntl.ioctl(listener, _RECEIVE, question)
    number, thread = _QUESTION.unpack(question)
    few = False  # if nothing can be known
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{thread}/status").read_bytes()
        few = int(status.partition(b"\nThreads:")[2].split(maxsplit=1)[0]) < THREADS
    if few:
        with contextlib.suppress(OSError):  # a kernel before 5.5 can refuse only
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, 0, _GO_ON))
            return
    fcntl.ioctl(listener, _SEND, _ANSWER.pack(number, 0, -errno.EAGAIN, 0))


@cache
def _counter(pid: int) -> _ThreadCounter:
    return _ThreadCounter()
