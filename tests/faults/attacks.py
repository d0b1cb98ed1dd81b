"""What hostile code may try, and what stops it: reads attacks.txt, for test_sandbox_escapes.py and
the table in docs/sandbox.md, which `python -m tests.faults.attacks` prints.

An attack begins with `=== kind: what it tries | what stops it in bubblewrap | … in landlock`; the
lines below are its code. Code finds in `given` what an attacker could know: `secret` (a file
outside), `shared` (one that it may read), `parent` (the trainer's process), `port`, `abstract` and
`datagrams` (servers outside that would notice a message), `memory`, `queue`, `semaphore` and
`messages` (what processes outside share). It leaves in `got` what it has got.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

# What stops an attack: how that shows in its outcome, and what the table says.
STOPPERS = {
    "absent": (r"\[Errno 2\]|out of pty devices", "not in its world"),
    "Landlock": (r"\[Errno 13\]", "Landlock"),
    "seccomp": (r"\[Errno 1\]", "seccomp"),
    # or refused by the rights of another's file already
    "read-only": (r"\[Errno (13|30)\]", "read-only"),
    "memory limit": (r"MemoryError|more memory than allowed|\[Errno 12\]", "memory limit"),
    "limits": (r"\[Errno (24|27|28)\]|can't start new thread|not allowed to raise", "limit"),
    "deadline": (r"\(timeout\)", "deadline, worker replaced"),
    "replaced": (r"\(crashed\)", "worker replaced"),
    "size of answers": (r"\(too_large\)", "limit on answers, worker replaced"),
    "form of answers": (
        r"something else than the answer|more than it was asked",
        "answer refused, worker replaced",
    ),
    "no network": (r"gaierror|URLError", "seccomp: no sockets"),
    "no privilege": (r"\[Errno (1|25|38)\]", "seccomp"),
    "nothing there": (r"^nothing$", "gets nothing"),
}
PRELUDE = """
import ctypes, os, stat, struct, sys
def libc(): return ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result == -1: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    global got
    got = f'ESCAPED {result}'
def pipe():  # the socket to the trainer
    for n in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(n).st_mode): return n
        except OSError: pass
def reply(message):  # with the number of the request that is being answered
    frame = sys._getframe()
    while 'number' not in frame.f_locals: frame = frame.f_back
    return struct.pack('>II', len(message), frame.f_locals['number']) + message
"""


class Attack(NamedTuple):
    """`bubblewrap` and `landlock` name what stops it in that tier (a key of STOPPERS)."""

    kind: str
    name: str
    bubblewrap: str
    landlock: str
    code: str

    @property
    def by_number(self) -> bool:
        """Whether it calls the kernel by numbers that mean something else on another processor."""
        return "syscall(" in self.code or "int 0x80" in self.code


def _read() -> tuple[Attack, ...]:
    text = Path(__file__).with_name("attacks.txt").read_text(encoding="utf-8")
    found = []
    for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, code = part.split("\n", 1)
        title, bubblewrap, landlock = (each.strip() for each in head.split("|"))
        kind, name = title.split(": ", 1)
        found.append(Attack(kind, name, bubblewrap, landlock, f"{PRELUDE}\n{code}"))
    return tuple(found)


ATTACKS = _read()


def table() -> str:
    """The table of docs/sandbox.md: how many attacks each thing stops first, by tier."""
    bubblewrap = Counter(STOPPERS[attack.bubblewrap][1] for attack in ATTACKS)
    landlock = Counter(STOPPERS[attack.landlock][1] for attack in ATTACKS)
    rows = ["| stopped by | bubblewrap | landlock |", "|---|---|---|"]
    for name, _ in (bubblewrap | landlock).most_common():
        rows.append(f"| {name} | {bubblewrap[name] or ''} | {landlock[name] or ''} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
