"""Takes a worker process's rights away, for good, before any code that is not trusted is imported
into it.

Limits on memory, open files and their size; no privileges, not even root's; SIGKILL when the parent
ends; and as far as the kernel has them, Landlock (which files can be read; from its version 4 on no
TCP, from 6 on no signals and abstract sockets outside the process) and `seccomp` (which system
calls there are). Works inside bubblewrap and without it.
"""

import contextlib
import ctypes
import os
import resource
import socket
import stat
import struct
import sys
from collections.abc import Iterable

from rods.canonical import JsonObject
from rods.worlds.sandbox import seccomp

OPEN_FILES = 64
PROCESSES = 64  # of the whole user, where `threads` are not counted
FILE_BYTES = 10 << 20  # of one file
CPU_SECONDS = 3_600  # of one process: what burns time between calls is replaced now and then
_PDEATHSIG = 1
_DROP_BOUNDING = 24
_NO_NEW_PRIVILEGES = 38
_AMBIENT = 47
_CLEAR_ALL = 4
_CAPABILITIES = 64  # more than any kernel has
_VERSION_3 = 0x20080522
# the same number on every machine
_LANDLOCK_CREATE = 444
_LANDLOCK_ADD = 445
_LANDLOCK_RESTRICT = 446
_LANDLOCK_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE = 1 << 2
_READ_FOLDER = 1 << 3
_WRITE_FILE = 1 << 1 | 1 << 14  # and cut it off
# remove and make folders, files and symbolic links
_CHANGE_FOLDER = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12
_OF_FILES = _READ_FILE | _WRITE_FILE
# all rights to files that each version knows: what is not granted below is refused
_FILE_RIGHTS = {
    1: (1 << 13) - 1,
    2: (1 << 14) - 1,
    3: (1 << 15) - 1,
    4: (1 << 15) - 1,
    5: (1 << 16) - 1,
}
_SEES_CUTTING = 3  # from this version on Landlock notices that a file is cut off as it is opened
_LATER = {
    _SEES_CUTTING: "cutting files off",
    4: "TCP",
    5: "ioctl of devices",
    6: "signals and abstract sockets",
}
_TCP = 0b11  # bind and connect
_SCOPES = 0b11  # abstract sockets and signals


def confine(limits: JsonObject, memory: int) -> None:
    """`limits`: {"readable": paths, "writable": paths, "threads": a socket to `count_threads` in
    the parent}. Raises OSError for what this kernel should be able to do and refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PDEATHSIG, 9, 0, 0, 0)
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _limit(kind, value)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")
    _drop_privileges(libc)
    if landlock_version():
        _restrict_files(limits["readable"], limits["writable"])
    if not _have_threads_counted(limits["threads"]):
        _limit(resource.RLIMIT_NPROC, PROCESSES)
    if seccomp.available():
        seccomp.restrict(cutting=landlock_version() >= _SEES_CUTTING)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _have_threads_counted(handover: int) -> bool:
    """Whether the parent is asked about each new thread from now on (`count_threads`), through
    `handover`."""
    with socket.socket(fileno=handover) as parent:
        try:
            listener = seccomp.listen_for_threads() if seccomp.available() else -1
        # a kernel before 5.0, or another program listens to all processes of this machine
        except OSError:
            return False
        if listener >= 0:
            socket.send_fds(parent, [b"-"], [listener])
            os.close(listener)
        return listener >= 0


def _drop_privileges(libc: ctypes.CDLL) -> None:
    """Root keeps its name and none of its powers."""
    for capability in range(_CAPABILITIES):
        libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0)  # refused to whoever has none anyway
    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = struct.pack("Ii", _VERSION_3, 0)
    nothing = bytes(24)
    if libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(nothing)):
        raise OSError(ctypes.get_errno(), "capset was refused")
    with contextlib.suppress(OSError):
        os.setgroups([])


def landlock_version() -> int:
    """The version of Landlock in this kernel; 0 without one."""
    if sys.platform != "linux":
        return 0
    version: int = ctypes.CDLL(None, use_errno=True).syscall(
        _LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION
    )
    return max(version, 0)


def left_to_seccomp() -> list[str]:
    """What the Landlock of this kernel does not lock: seccomp alone refuses it then."""
    return [
        f"{what} (from version {version} on)"
        for version, what in _LATER.items()
        if version > landlock_version()
    ]


def _restrict_files(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Lays the restriction on this process, for good. Needs `no_new_privs`. Paths that do not exist
    are left out. Raises OSError when the kernel refuses."""
    version = landlock_version()
    rights = _FILE_RIGHTS[min(version, max(_FILE_RIGHTS))]
    attributes = struct.pack(
        "QQQ", rights, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    libc = ctypes.CDLL(None, use_errno=True)
    rules = _checked(libc.syscall(_LANDLOCK_CREATE, ctypes.c_char_p(attributes), size, 0))
    try:
        for path in readable:
            _allow(libc, rules, path, rights & (_READ_FILE | _READ_FOLDER))
        for path in writable:
            _allow(
                libc,
                rules,
                path,
                rights & (_READ_FILE | _READ_FOLDER | _WRITE_FILE | _CHANGE_FOLDER),
            )
        _checked(libc.syscall(_LANDLOCK_RESTRICT, rules, 0))
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, place)
        _checked(libc.syscall(_LANDLOCK_ADD, rules, _PATH_BENEATH, ctypes.c_char_p(rule), 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return result
