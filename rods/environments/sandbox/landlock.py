"""Which files a confined process sees (Landlock): those below some folders, to be read and nothing else.

Needs no privilege and cannot be taken back. From the kernel's fourth version of it on TCP is refused too, from the
sixth on signals and abstract sockets outside the process.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same number on every machine
_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_WRITE_FILE = 1 << 1 | 1 << 14  # and cut it off
_CHANGE_FOLDER = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 12  # remove and make folders, files and symbolic links
_OF_FILES = _READ_FILE | _WRITE_FILE
# all rights to files that each version knows: what is not granted below is refused
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_TCP = 0b11  # bind and connect
_SCOPES = 0b11  # abstract sockets and signals


def version() -> int:
    """0 where there is no Landlock."""
    if sys.platform != "linux":
        return 0
    found: int = ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, 0, _VERSION)
    return max(found, 0)


def restrict(readable: Iterable[str], writable: Iterable[str] = ()) -> None:
    """Lays the restriction on this process, for good. Needs `no_new_privs`. Paths that do not exist are left out.
    Raises OSError when the kernel refuses."""
    known = version()
    rights = _FILE_RIGHTS[min(known, max(_FILE_RIGHTS))]
    attributes = struct.pack("QQQ", rights, _TCP if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    libc = ctypes.CDLL(None, use_errno=True)
    rules = _checked(libc.syscall(_CREATE, ctypes.c_char_p(attributes), size, 0))
    try:
        for path in readable:
            _allow(libc, rules, path, rights & (_READ_FILE | _READ_FOLDER))
        for path in writable:
            _allow(libc, rules, path, rights & (_READ_FILE | _READ_FOLDER | _WRITE_FILE | _CHANGE_FOLDER))
        _checked(libc.syscall(_RESTRICT, rules, 0))
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
        _checked(libc.syscall(_ADD, rules, _PATH_BENEATH, ctypes.c_char_p(rule), 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return result
