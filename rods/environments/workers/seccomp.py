"""The system calls that a confined process may make (seccomp): all others fail, from then on and for good.

An environment computes, reads files, writes those that it may, and starts threads. What is not named here is refused:
sockets, other processes, signals, memory shared between processes, locks on files, whatever administers the machine,
and every call that later kernels add. The tables are for x86-64 and 64-bit Arm; `available` says whether this machine
is one of them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the tables, audit's name of the machine
# number on x86-64 and on 64-bit Arm (from the kernel's unistd.h); -1: the machine has no such call
_ALLOWED: Mapping[str, tuple[int, int]] = {
    # what is called most stands first: a kernel before 5.11 compares one by one
    "read": (0, 63), "write": (1, 64), "futex": (202, 98),
    # open files, and waiting for them
    "close": (3, 57), "close_range": (436, 436), "lseek": (8, 62), "readv": (19, 65), "writev": (20, 66),
    "pread64": (17, 67), "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286),
    "pwritev2": (328, 287), "dup": (32, 23), "dup2": (33, -1), "dup3": (292, 24), "pipe": (22, -1), "poll": (7, -1),
    "ppoll": (271, 73), "select": (23, -1), "pselect6": (270, 72), "epoll_create": (213, -1),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, -1), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441), "eventfd": (284, -1), "eventfd2": (290, 19), "recvfrom": (45, 207),
    "shutdown": (48, 210), "getsockname": (51, 204), "getpeername": (52, 205),
    # files and folders: which ones is for Landlock and the mounts to say
    "open": (2, -1), "openat": (257, 56), "stat": (4, -1), "fstat": (5, 80), "lstat": (6, -1), "newfstatat": (262, 79),
    "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44), "access": (21, -1), "faccessat": (269, 48),
    "faccessat2": (439, 439), "readlink": (89, -1), "readlinkat": (267, 78), "getdents64": (217, 61),
    "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50), "umask": (95, 166), "mkdir": (83, -1),
    "mkdirat": (258, 34), "rmdir": (84, -1), "unlink": (87, -1), "unlinkat": (263, 35), "rename": (82, -1),
    "renameat": (264, 38), "renameat2": (316, 276), "symlink": (88, -1), "symlinkat": (266, 36), "link": (86, -1),
    "linkat": (265, 37), "ftruncate": (77, 46),
    # memory, within the limit
    "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216), "brk": (12, 214),
    # its own threads, signal handlers, timers and end
    "exit": (60, 93), "exit_group": (231, 94), "set_tid_address": (218, 96), "set_robust_list": (273, 99),
    "rseq": (334, 293), "sched_yield": (24, 124), "restart_syscall": (219, 128), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132), "pause": (34, -1),
    "alarm": (37, -1), "getitimer": (36, 102), "setitimer": (38, 103), "nanosleep": (35, 101),
    # questions about itself, and randomness
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getpgrp": (111, -1), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158), "uname": (63, 160), "sysinfo": (99, 179), "times": (100, 153),
    "getrusage": (98, 165), "getrlimit": (97, 163), "getcpu": (309, 168), "gettimeofday": (96, 169),
    "time": (201, -1), "getrandom": (318, 278),
}  # fmt: skip
# Calls that do nothing here and say that they did: in a private /tmp, which is memory, there is nothing to sync, and on
# a file from outside they would keep its disk busy.
_IDLE: Mapping[str, tuple[int, int]] = {"fsync": (74, 82), "fdatasync": (75, 83), "msync": (26, 227)}

_CLOEXEC_OR_NONBLOCK = (0, 0x800, 0x80000, 0x80800)
_NULL = (0,)
_SELF = "self"  # this process's own number, or 0
_CLOCKS = tuple(range(12))  # the machine's, and the one of this process: other processes' have other numbers
# Calls of which only some are allowed: name, numbers, and for each argument that matters its place and the values that
# it may have, of which the kernel takes the lower 32 bits; of a pointer (None) only the null one.
_PARTLY: tuple[tuple[str, tuple[int, int], Mapping[int, tuple[int, ...] | str | None]], ...] = (
    # threads as the C libraries start them (glibc's flags, musl's); no processes
    ("clone", (56, 220), {0: (0x3D0F00, 0x7D0F00)}),
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ: no leases, locks, owners and signals
    ("fcntl", (72, 25), {1: (0, 1, 2, 3, 4, 1030, 1032)}),
    # TCGETS (whether it is a terminal), TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS2
    ("ioctl", (16, 29), {1: (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)}),
    ("pipe2", (293, 59), {1: _CLOEXEC_OR_NONBLOCK}),
    # AF_UNIX, SOCK_STREAM: two ends within this process, and nobody else to send to
    ("socketpair", (53, 199), {0: (1,), 1: tuple(1 | flags for flags in _CLOEXEC_OR_NONBLOCK)}),
    ("sendto", (44, 206), {4: None}),
    # of the socket itself, SO_TYPE, SO_ERROR, SO_SNDBUF, SO_RCVBUF, SO_PROTOCOL, SO_DOMAIN: not who is at the other end
    ("getsockopt", (55, 209), {1: (1,), 2: (3, 4, 7, 8, 38, 39)}),
    ("madvise", (28, 233), {2: (0, 1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 102, 103)}),  # no swapping out
    # its own limits can be asked for, and nobody's changed
    ("prlimit64", (302, 261), {0: _SELF, 2: None}),
    ("sched_getaffinity", (204, 123), {0: _SELF}),
    ("getpgid", (121, 155), {0: _SELF}),
    ("getsid", (124, 156), {0: _SELF}),
    ("clock_gettime", (228, 113), {0: _CLOCKS}),
    ("clock_getres", (229, 114), {0: _CLOCKS}),
    ("clock_nanosleep", (230, 115), {0: _CLOCKS}),
)  # fmt: skip
# Calls of which those with a flag are refused: name, numbers, place of the flags, flag, flags with which it is allowed
# all the same. MAP_HUGETLB: huge pages are the whole machine's. O_TRUNC, where asked for: it cuts off a file that is
# opened to be read; with O_WRONLY or O_RDWR Landlock looks.
_WITHOUT = (("mmap", (9, 222), 3, 0x40000, 0),)
_WITHOUT_CUTTING = (("open", (2, -1), 1, 0x200, 3), ("openat", (257, 56), 2, 0x200, 3))
# From here on every machine has the same numbers, and a C library that meets one of these calls in vain takes an older
# one if it is told that there is none (clone3, whose flags cannot be seen, for one). On x86-64 the calls of the other
# set (x32) are above it too.
_NEWER = 435

_SECCOMP, _SET_FILTER, _NEW_LISTENER = (317, 277), 1, 8
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets of a call's number, its machine, and its arguments of 64 bits
_UPPER = 4  # an instruction sees 32 bits; the upper half lies behind (both machines are little-endian)
_ALLOW, _ASK, _ERRNO, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000  # of two filters the stricter one counts
_Instruction = tuple[int, int, int, int]  # (operation, how many instructions to skip if so, if not, operand)


def available() -> bool:
    return sys.platform == "linux" and platform.machine() in _MACHINES


def listen_for_threads() -> int:
    """From now on each `clone` of this process waits for an answer of whoever holds the descriptor that is returned
    (`threads`). Needs `no_new_privs`. Raises OSError when the kernel has no such thing, or somebody listens already."""
    column, machine = _MACHINES[platform.machine()]
    numbers = next(numbers for name, numbers, _ in _PARTLY if name == "clone")
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 0, 3, machine),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_EQUAL, 0, 1, numbers[column]),
        (_RETURN, 0, 0, _ASK),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return _install(program, _NEW_LISTENER)


def restrict(*, cutting: bool) -> None:
    """Installs the filter, for this process and for good. `cutting`: whether a file may be cut off as it is opened for
    reading. Needs `no_new_privs`. Raises OSError when it cannot."""
    _install(_program(cutting), 0)


def _install(instructions: list[_Instruction], flags: int) -> int:
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(buffer))
    call = _SECCOMP[_MACHINES[platform.machine()][0]]
    found: int = ctypes.CDLL(None, use_errno=True).syscall(call, _SET_FILTER, flags, ctypes.c_char_p(program))
    if found < 0:
        raise OSError(ctypes.get_errno(), "seccomp refused the filter")
    return found


def _program(cutting: bool) -> list[_Instruction]:
    column, machine = _MACHINES[platform.machine()]
    without = _WITHOUT if cutting else (*_WITHOUT, *_WITHOUT_CUTTING)
    by_flag = [name for name, *_ in without]
    allowed = [numbers[column] for name, numbers in _ALLOWED.items() if numbers[column] >= 0 and name not in by_flag]
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_any_of(allowed, allow),
        *_any_of([numbers[column] for numbers in _IDLE.values()], (_RETURN, 0, 0, _ERRNO)),
    ]
    for _, numbers, arguments in _PARTLY:
        checks = [check for place, values in arguments.items() for check in _checks(place, values)]
        program += [(_JUMP_EQUAL, 0, len(checks) + 1, numbers[column]), *checks, allow]
    for _, numbers, place, flag, unless in without:
        if numbers[column] >= 0:
            flags = (_LOAD, 0, 0, _ARGUMENTS + 8 * place)
            check = [flags, (_JUMP_ANY_OF, 0, 2, flag), (_JUMP_ANY_OF, 1, 0, unless), refuse, allow]
            program += [(_JUMP_EQUAL, 0, len(check), numbers[column]), *check]
    return [*program, (_JUMP_AT_LEAST, 0, 1, _NEWER), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS), refuse]


def _any_of(values: list[int], then: _Instruction) -> list[_Instruction]:
    """Returns as `then` says for one of `values`, and goes on for any other."""
    jumps = [(_JUMP_EQUAL, len(values) - 1 - index, 0, value) for index, value in enumerate(values)]
    jumps[-1] = (_JUMP_EQUAL, 0, 1, values[-1])
    return [*jumps, then]


def _checks(place: int, values: tuple[int, ...] | str | None) -> list[_Instruction]:
    """Goes on where argument `place` has one of `values`, and refuses the call otherwise."""
    offset, refuse = _ARGUMENTS + 8 * place, (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    halves: list[tuple[int, tuple[int, ...]]]
    if values is None:
        halves = [(offset, _NULL), (offset + _UPPER, _NULL)]
    else:
        halves = [(offset, (0, os.getpid()) if isinstance(values, str) else values)]
    found: list[_Instruction] = []
    for half, legal in halves:
        found.append((_LOAD, 0, 0, half))
        found += [(_JUMP_EQUAL, len(legal) - index, 0, value) for index, value in enumerate(legal)]
        found.append(refuse)
    return found
