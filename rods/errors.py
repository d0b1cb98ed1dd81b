"""The one vocabulary of errors.

Three families that are never mixed up:

- `UserError`: a person can mend it (configuration, task file, run folder). Its text says what,
  where and what to do; the consoles print it without a traceback and exit with `EXIT_USER`.
- `InfrastructureError`: the machinery broke (a dead worker, an endpoint, a disk). A rollout that
  meets one is recorded with the end reason `infrastructure` and never counts as the policy's
  failure.
- What a *policy* does wrong is never an exception: it is data in a trace (`Result.error`, `Reply`
  and end reasons)."""

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from rods.known_keys import without_keys

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import ValidationError

MOST_SAID = 8_000  # characters of a complaint: what it repeats may be a megabyte
EXIT_OK = 0
EXIT_FAILED = 1  # a check that was asked for found something wrong (verify, data check, replay)
EXIT_USER = 2  # bad input: the message says what to change
EXIT_REFUSED = 3  # another owner, another identity, a different step than the one recorded
EXIT_DEADLINE = 4  # lockstep: the other process did not reach its mark in time
EXIT_REQUEUE = 5  # stopped by a signal after a clean checkpoint: start the same command again
GONE = "check the path; a folder that was moved or removed is to be named where it is now"
IN_THE_WAY = "move aside what is there instead of a file or a folder"
DISK_ERRORS = (  # what a person can mend: numbers of errors, what is said, the remedy
    (
        (errno.ENOSPC, errno.EDQUOT),
        "the disk is full",
        "free some space and start the same command again",
    ),
    (
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "cannot be written ({})",
        "make the run folder writable for this user",
    ),
    ((errno.ENOENT,), "is not there", GONE),
    (
        (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP),
        "is not what it should be ({})",
        IN_THE_WAY,
    ),
    ((errno.ENAMETOOLONG,), "the name is too long", "choose a shorter one"),
)


class RodsError(Exception):
    """Base of everything that RODS raises on purpose. It repeats what others say, but no key."""

    exit_code = EXIT_FAILED

    def __init__(self, *words: object) -> None:
        super().__init__(*(without_keys(word) if type(word) is str else word for word in words))


class UserError(RodsError):
    """Bad input. `what` happened, `where` (file, line, key), and the `remedy`."""

    exit_code = EXIT_USER

    def __init__(self, what: str, *, where: "str | Path" = "", remedy: str = "") -> None:
        self.what = without_keys(what)
        self.where = without_keys(str(where))
        self.remedy = remedy
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text} → {remedy}" if remedy else text)


class RefusedError(UserError):
    """A legal request that this run folder must refuse: a second owner, another identity, a
    conflicting step."""

    exit_code = EXIT_REFUSED


class DeadlineError(RodsError):
    """In lockstep, the other process did not reach its mark in time."""

    exit_code = EXIT_DEADLINE


class CorruptLogError(UserError):
    """A bad record in the middle of a log. Never skipped; the message names file, line and byte
    offset."""


class InfrastructureError(RodsError):
    """The machinery broke, not the policy."""


class BudgetSpent(RodsError):
    """A limit that the user set on calls of language models is reached, of all calls of the run or
    of those of one variant."""


class BrokenEnvironment(InfrastructureError):
    """The code of an environment is at fault, and not what runs it: it raised, went over a limit,
    ended its process, or answered what is no answer. Who writes environments has it mended, or
    drops it."""


class Unsupported(RodsError):
    """An environment was asked for something that it declares it lacks (snapshot, fork, visible
    state)."""


class Finding(NamedTuple):
    """One question about something outside (an endpoint, a file system, an installation) and its
    answer. `ok` None: no fault, but good to know. `remedy` says what to do about it."""

    name: str
    ok: bool | None
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        mark = {True: "ok", None: "note", False: "FAIL"}[self.ok]
        return f"{mark:<4} {self.name}: {self.text}" + (f" → {self.remedy}" if self.remedy else "")

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def disk_error(error: OSError, path: "Path") -> RodsError:
    """The error of this module for what the operating system refused at `path`: UserError with a
    remedy for a full disk, a missing permission, something missing or something else in the way,
    InfrastructureError for the rest."""
    for numbers, what, remedy in DISK_ERRORS:
        if error.errno in numbers:
            where = str(path)[: 100 if error.errno == errno.ENAMETOOLONG else None]
            return UserError(what.format(error.strerror), where=where, remedy=remedy)
    return InfrastructureError(f"{path}: {error.strerror or error}")


def first_fault(error: "ValidationError") -> str:
    """The first thing that pydantic holds against a record: where in it, and what."""
    fault = error.errors(include_url=False)[0]
    place = ".".join(map(str, fault["loc"]))
    if fault["type"] == "unexpected_keyword_argument":
        return f"{place}: is no known field"
    what = fault["msg"].removeprefix("Value error, ")
    return f"{place}: {what}" if place else what


def plain(text: str) -> str:
    """`text` without keys, and with control characters but newline and tab replaced: what others
    say must not steer a terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else "�" for c in without_keys(text))


def say(text: str, *, aside: bool = False) -> None:
    """Text for a person on standard output or, `aside`, on standard error; of a long one the middle
    is left out, since a remedy stands at its end. All of the product prints through this, so that
    nothing foreign reaches a terminal unseen, or fills it."""
    text = plain(text)
    half = MOST_SAID // 2
    shown = text if len(text) <= MOST_SAID else f"{text[:half]} … {text[-half:]}"
    print(shown, file=sys.stderr if aside else sys.stdout, flush=True)


def complain(program: str, text: str) -> None:
    """One line for a person on standard error. Where it cannot be written (to a full disk), it is
    dropped: the exit code still says what happened."""
    try:
        say(f"{program}: {text}", aside=True)
    except OSError:
        mute_stderr()


def mute_stderr() -> None:
    """Sends standard error, and what is left in its buffer, nowhere: it cannot be written any
    more."""
    with contextlib.suppress(OSError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stderr.fileno())
        os.close(sink)
