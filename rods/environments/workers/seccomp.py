"""The system calls that a confined process is refused (seccomp): from then on, for good, they fail with EPERM.

An environment computes: it needs no sockets, other processes, signals, or calls that administer kernel and machine.
Threads are allowed. The tables are for x86-64 and 64-bit Arm; `available` says whether this machine is one of them.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from collections.abc import Mapping

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the tables, audit's name of the machine
# number on x86-64 and on 64-bit Arm (from the kernel's unistd.h); -1: the machine has no such call
_REFUSED: Mapping[str, tuple[int, int]] = {
    # network
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242),
    # other processes and programs
    "fork": (57, -1), "vfork": (58, -1), "execve": (59, 221), "execveat": (322, 281),
    # the group of processes that it is ended with
    "setpgid": (109, 154), "setsid": (112, 157),
    # signals, and looking into or changing others
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "setpriority": (141, 140), "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274), "sched_setaffinity": (203, 122), "ioprio_set": (251, 30),
    # memory that no limit counts, and what outlives the process
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219),
    # what administers or programs the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "io_uring_setup": (425, 425), "userfaultfd": (323, 282),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "iopl": (172, -1), "ioperm": (173, -1), "modify_ldt": (154, -1),
    "personality": (135, 92), "fanotify_init": (300, 262),
    # the machine itself: mounts, clocks, names, power
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268),
    "unshare": (272, 97), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "mknod": (133, -1), "mknodat": (259, 33),
    # what Landlock leaves open of files: rights, owners, dates, labels
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, -1),
    "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54), "utime": (132, -1), "utimes": (235, -1),
    "futimesat": (261, -1), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "truncate": (76, 45),
    # its own limits
    "setrlimit": (160, 164), "prctl": (157, 167), "seccomp": (317, 277), "capset": (126, 91),
}  # fmt: skip
_CLONE, _CLONE3, _PRLIMIT = (56, 220), 435, (302, 261)
# calls of which only some are refused, by argument 1: signals to others (fcntl's owner and signal, the same of ioctl),
# and typing into a terminal
_REFUSED_PARTLY: tuple[tuple[tuple[int, int], tuple[int, ...]], ...] = (
    ((72, 25), (8, 10, 15)),
    ((16, 29), (0x8901, 0x8902, 0x5412, 0x541C)),
)
_CLONE_THREAD = 0x10000
_X32 = 0x40000000  # from here on x86-64 counts the calls of another set

_PR_SET_SECCOMP, _FILTER = 22, 2
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# offsets of a call's number, its machine, and its arguments 0, 1 and 2
_NUMBER, _ARCHITECTURE, _FLAGS, _COMMAND, _NEW_LIMIT = 0, 4, 16, 24, 32
# An instruction sees 32 bits. Of flags and commands the kernel takes no more than these either; an address has another
# half, which lies behind (both machines are little-endian: one of the other kind has another name for audit).
_UPPER = 4
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


def available() -> bool:
    return sys.platform == "linux" and platform.machine() in _MACHINES


def refuse() -> None:
    """Installs the filter, for this process and for good. Needs `no_new_privs`. Raises OSError when it cannot."""
    instructions = _program()
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp refused the filter")


def _program() -> list[tuple[int, int, int, int]]:
    """BPF: (operation, how many instructions to skip if so, if not, operand)."""
    column, machine = _MACHINES[platform.machine()]
    refused = sorted(numbers[column] for numbers in _REFUSED.values() if numbers[column] >= 0)
    tests: list[tuple[int, int]] = [(_JUMP_EQUAL, number) for number in refused]
    if column == 0:
        tests.insert(0, (_JUMP_AT_LEAST, _X32))
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_EQUAL, 0, 1, _CLONE3),  # its flags cannot be seen: the C library then takes clone
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_JUMP_EQUAL, 0, 4, _CLONE[column]),
        (_LOAD, 0, 0, _FLAGS),
        (_JUMP_ANY_OF, 0, 1, _CLONE_THREAD),
        allow,
        refuse,
        (_JUMP_EQUAL, 0, 6, _PRLIMIT[column]),
        (_LOAD, 0, 0, _NEW_LIMIT),
        (_JUMP_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, _NEW_LIMIT + _UPPER),
        (_JUMP_EQUAL, 0, 1, 0),  # a question, and no new limit
        allow,
        refuse,
    ]
    for numbers, commands in _REFUSED_PARTLY:
        program += [(_JUMP_EQUAL, 0, len(commands) + 3, numbers[column]), (_LOAD, 0, 0, _COMMAND)]
        program += [(_JUMP_EQUAL, len(commands) - index, 0, command) for index, command in enumerate(commands)]
        program += [allow, refuse]
    program += [(operation, len(tests) - index, 0, operand) for index, (operation, operand) in enumerate(tests)]
    return [*program, allow, refuse]
