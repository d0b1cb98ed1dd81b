"""The system calls that a confined process may make (seccomp): all that seccomp.toml does not name
fail, from then on and for good, and so do those that later kernels add (docs/sandbox.md). The
tables are for x86-64 and 64-bit Arm; `available` says whether this machine is one of them."""

import ctypes
import errno
import os
import platform
import struct
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# column of the tables, audit's name of the machine
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_CALLS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_CLOCKS = tuple(range(12))
# From here on every machine has the same numbers, and a C library that meets one of these calls in
# vain takes an older one if it is told that there is none (clone3, whose flags cannot be seen, for
# one). On x86-64 the calls of the other set (x32) are above it too.
_NEWER = 435

_SECCOMP = (317, 277)
_SET_FILTER = 1
_NEW_LISTENER = 8
_LOAD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_JUMP_ANY_OF = 0x45
_RETURN = 0x06
# offsets of a call's number, its machine, and its arguments of 64 bits
_NUMBER = 0
_ARCHITECTURE = 4
_ARGUMENTS = 16
# an instruction sees 32 bits; the upper half lies behind (both machines are little-endian)
_UPPER = 4
# of two filters the stricter one counts
_ALLOW = 0x7FFF0000
_ASK = 0x7FC00000
_ERRNO = 0x00050000
_KILL = 0x80000000
# (operation, how many instructions to skip if so, if not, operand)
_Instruction = tuple[int, int, int, int]


def available() -> bool:
    return sys.platform == "linux" and platform.machine() in _MACHINES


def listen_for_threads() -> int:
    """From now on each `clone` of this process waits for an answer of whoever holds the descriptor
    that is returned (`count_threads`). Needs `no_new_privs`. Raises OSError when the kernel has no
    such thing, or somebody listens already."""
    column, machine = _MACHINES[platform.machine()]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 0, 3, machine),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_EQUAL, 0, 1, _CALLS["partly"]["clone"]["numbers"][column]),
        (_RETURN, 0, 0, _ASK),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return _install(program, _NEW_LISTENER)


def restrict(*, cutting: bool) -> None:
    """Installs the filter, for this process and for good. `cutting`: whether a file may be cut off
    as it is opened for reading. Needs `no_new_privs`. Raises OSError when it cannot."""
    _install(_program(cutting), 0)


def _install(instructions: list[_Instruction], flags: int) -> int:
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(buffer))
    call = _SECCOMP[_MACHINES[platform.machine()][0]]
    status: int = ctypes.CDLL(None, use_errno=True).syscall(
        call, _SET_FILTER, flags, ctypes.c_char_p(program)
    )
    if status < 0:
        raise OSError(ctypes.get_errno(), "seccomp refused the filter")
    return status


def _program(cutting: bool) -> list[_Instruction]:
    column, machine = _MACHINES[platform.machine()]
    without = _CALLS["without"] if cutting else _CALLS["without"] | _CALLS["without_cutting"]
    allowed = [
        call[column]
        for name, call in _CALLS["allowed"].items()
        if call[column] >= 0 and name not in without
    ]
    allow = (_RETURN, 0, 0, _ALLOW)
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_any_of(allowed, allow),
        *_any_of([call[column] for call in _CALLS["idle"].values()], (_RETURN, 0, 0, _ERRNO)),
    ]
    for call in _CALLS["partly"].values():
        checks = [
            check
            for place, values in call["arguments"].items()
            for check in _checks(int(place), values)
        ]
        program += [(_JUMP_EQUAL, 0, len(checks) + 1, call["numbers"][column]), *checks, allow]
    for call in without.values():
        if call["numbers"][column] >= 0:
            flags = (_LOAD, 0, 0, _ARGUMENTS + 8 * call["place"])
            check = [
                flags,
                (_JUMP_ANY_OF, 0, 2, call["flag"]),
                (_JUMP_ANY_OF, 1, 0, call["unless"]),
                refuse,
                allow,
            ]
            program += [(_JUMP_EQUAL, 0, len(check), call["numbers"][column]), *check]
    return [
        *program,
        (_JUMP_AT_LEAST, 0, 1, _NEWER),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        refuse,
    ]


def _any_of(values: list[int], then: _Instruction) -> list[_Instruction]:
    """Returns as `then` says for one of `values`, and goes on for any other."""
    jumps = [(_JUMP_EQUAL, len(values) - 1 - index, 0, value) for index, value in enumerate(values)]
    jumps[-1] = (_JUMP_EQUAL, 0, 1, values[-1])
    return [*jumps, then]


def _checks(place: int, values: list[int] | str) -> list[_Instruction]:
    """Goes on where argument `place` has one of `values`, and refuses the call otherwise."""
    offset = _ARGUMENTS + 8 * place
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    if isinstance(values, list):
        halves: dict[int, Sequence[int]] = {offset: values}
    elif values == "null":
        halves = {offset: (0,), offset + _UPPER: (0,)}
    else:
        halves = {offset: (0, os.getpid()) if values == "self" else _CLOCKS}
    checks: list[_Instruction] = []
    for half, legal in halves.items():
        checks.append((_LOAD, 0, 0, half))
        checks += [(_JUMP_EQUAL, len(legal) - index, 0, value) for index, value in enumerate(legal)]
        checks.append(refuse)
    return checks
