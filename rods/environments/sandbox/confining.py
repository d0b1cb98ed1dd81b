"""What a confined process lays on itself before anything foreign is imported. None of it can be taken back.

Limits on memory, files and their size; no privileges, not even root's; the end together with its parent; and as far as
the kernel has them, Landlock (files) and seccomp (`seccomp`). Runs inside bubblewrap and without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
from typing import Any

from rods.environments.sandbox import landlock, seccomp

OPEN_FILES = 64
PROCESSES = 64  # threads, really: seccomp refuses processes
FILE_BYTES = 10 << 20  # of one file
CPU_SECONDS = 3_600  # of one process: what burns time between calls is replaced now and then
_PDEATHSIG, _DROP_BOUNDING, _NO_NEW_PRIVILEGES, _AMBIENT = 1, 24, 38, 47
_CLEAR_ALL = 4
_CAPABILITIES = 64  # more than any kernel has
_VERSION_3 = 0x20080522


def confine(order: dict[str, Any], memory: int) -> None:
    """`order`: {"path": entries of sys.path, "readable": paths, "writable": paths}. Raises OSError for what this
    kernel should be able to do and refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PDEATHSIG, 9, 0, 0, 0)
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, PROCESSES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")
    _drop_privileges(libc)
    if landlock.version():
        landlock.restrict(order["readable"], order["writable"])
    if seccomp.available():
        seccomp.refuse()


def _drop_privileges(libc: ctypes.CDLL) -> None:
    """Root keeps its name and none of its powers."""
    for capability in range(_CAPABILITIES):
        libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0)  # refused to whoever has none anyway
    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header, nothing = struct.pack("Ii", _VERSION_3, 0), bytes(24)
    if libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(nothing)):
        raise OSError(ctypes.get_errno(), "capset was refused")
    with contextlib.suppress(OSError):
        os.setgroups([])
