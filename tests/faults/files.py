"""Every change that a process makes to the files of one folder passes through here, to be counted,
cut short by a kill, refused, or taken down for a power cut. No privilege is needed: Python's own
functions are wrapped.

`Files(folder, plan).install()`, in a process that does nothing else. What C libraries write
(SQLite) is not seen.
"""

# This lies beneath pathlib.
# ruff: noqa: PTH100, PTH118, PTH202

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["create", "write", "truncate", "fsync", "rename", "unlink", "mkdir"]
KINDS: tuple[Kind, ...] = ("create", "write", "truncate", "fsync", "rename", "unlink", "mkdir")
Fault = Literal["", "kill", "torn", "full", "short", "eio", "eio_forever"]
WRAPPED = (
    *(
        "open",
        "close",
        "write",
        "pwrite",
        "ftruncate",
        "fsync",
        "fdatasync",
        "rename",
        "replace",
        "link",
    ),
    *("unlink", "remove", "rmdir", "mkdir"),
)


@dataclass(frozen=True)
class Plan:
    """`fault` strikes at the `at`-th change (from 1) of those of `kinds`.

    kill: the process dies before it. torn: it dies in the middle of that write. full: from that
    write on the disk is full, having taken half of it. short: the same, but the next but one finds
    room. eio: that fsync fails; eio_forever: so do all later ones.
    """

    fault: Fault = ""
    at: int = 0
    kinds: tuple[Kind, ...] = KINDS


@dataclass
class Change:
    """One change, for the model of a disk (tests.faults.power). Paths are relative to the
    folder."""

    kind: Kind | Literal["open", "ack"]
    path: str = ""
    to: str = ""  # of a rename
    file: int = 0  # tells open files apart
    offset: int = 0  # of a write; -1: at the end
    data: bytes = b""
    size: int = 0  # after a truncation


@dataclass
class Opened:
    path: str
    file: int
    append: bool
    position: int = 0


class Files:
    """The wrapped functions. `count` is that of changes of the plan's kinds; with `journal` all are
    kept in order."""

    def __init__(self, folder: Path, plan: Plan, *, journal: bool = False) -> None:
        self.folder = str(folder)
        self.plan = plan
        self.count = 0
        self.journal: list[Change] | None = [] if journal else None
        self.real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in WRAPPED}
        # is told what was acknowledged
        self.tell: Callable[[str, bytes], None] = lambda log, line: None
        self._open: dict[int, Opened] = {}
        self._files = 0
        self._lock = threading.RLock()

    def install(self) -> None:
        global installed
        installed = self
        for name in WRAPPED:
            setattr(os, name, self._wrapped(getattr(self, name)))
        io.open = builtins.open = self._opening(builtins.open)

    def acknowledged(self, log: str, line: bytes) -> None:
        """Takes down that `line` of `log` was promised to be durable."""
        self.tell(log, line)
        with self._lock:
            self._take_down(Change("ack", log, data=line))

    def open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        inside = self._inside(path, options.get("dir_fd"))
        if inside is None:
            return int(self.real["open"](path, flags, *arguments, **options))
        place = os.path.join(self.folder, inside)
        change: Change | None = None
        if flags & os.O_CREAT and not os.path.lexists(place):
            change = Change("create", inside)
        elif flags & os.O_TRUNC and os.path.lexists(place) and os.path.getsize(place):
            change = Change("truncate", inside, size=0)
        if change is not None:
            self._strike(change)
        descriptor = int(self.real["open"](path, flags, *arguments, **options))
        if change is not None:
            self._take_down(change)
        self._files += 1
        self._open[descriptor] = Opened(inside, self._files, bool(flags & os.O_APPEND))
        self._take_down(Change("open", inside, file=self._files))
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        self.real["close"](descriptor)

    def write(self, descriptor: int, data: Any) -> int:
        opened = self._open.get(descriptor)
        if opened is None:
            return int(self.real["write"](descriptor, data))
        where = -1 if opened.append else opened.position
        change = Change("write", opened.path, file=opened.file, offset=where, data=bytes(data))
        self._strike(change, lambda cut: self.real["write"](descriptor, cut))
        count = int(self.real["write"](descriptor, change.data))
        change.data = change.data[:count]
        self._take_down(change)
        opened.position += count
        return count

    def pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        opened = self._open.get(descriptor)
        if opened is None:
            return int(self.real["pwrite"](descriptor, data, offset))
        change = Change("write", opened.path, file=opened.file, offset=offset, data=bytes(data))
        self._strike(change, lambda cut: self.real["pwrite"](descriptor, cut, offset))
        count = int(self.real["pwrite"](descriptor, change.data, offset))
        change.data = change.data[:count]
        self._take_down(change)
        return count

    def ftruncate(self, descriptor: int, size: int) -> None:
        opened = self._open.get(descriptor)
        change = Change("truncate", opened.path, file=opened.file, size=size) if opened else None
        self._done(change, "ftruncate", descriptor, size)

    def fsync(self, descriptor: int) -> None:
        opened = self._open.get(descriptor)
        change = Change("fsync", opened.path, file=opened.file) if opened else None
        self._done(change, "fsync", descriptor)

    fdatasync = fsync

    def rename(self, source: Any, target: Any, **options: Any) -> None:
        before = self._inside(source, options.get("src_dir_fd"))
        after = self._inside(target, options.get("dst_dir_fd"))
        change = None if before is None or after is None else Change("rename", before, after)
        self._done(change, "replace", source, target, **options)

    replace = rename

    def link(self, source: Any, target: Any, **options: Any) -> None:
        raise NotImplementedError(
            "nothing here makes links; the model of a disk would have to learn them"
        )

    def unlink(self, path: Any, **options: Any) -> None:
        self._removed("unlink", path, **options)

    remove = unlink

    def rmdir(self, path: Any, **options: Any) -> None:
        self._removed("rmdir", path, **options)

    def mkdir(self, path: Any, *arguments: Any, **options: Any) -> None:
        inside = self._inside(path)
        change = None if inside is None or os.path.lexists(path) else Change("mkdir", inside)
        self._done(change, "mkdir", path, *arguments, **options)

    def _removed(self, name: str, path: Any, **options: Any) -> None:
        inside = self._inside(path, options.get("dir_fd"))
        there = inside is not None and os.path.lexists(os.path.join(self.folder, inside))
        self._done(Change("unlink", inside) if there and inside else None, name, path, **options)

    def _done(self, change: Change | None, name: str, *arguments: Any, **options: Any) -> None:
        """Carries out a change that is whole or not at all; None: it concerns nobody here."""
        if change is not None:
            self._strike(change)
        self.real[name](*arguments, **options)
        if change is not None:
            self._take_down(change)

    def _wrapped(self, ours: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                return ours(*arguments, **options)

        return call

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """`open`, whose files are written through `os.write`."""

        def call(
            file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **options: Any
        ) -> Any:
            if isinstance(file, int) or not set(mode) & set("wax+") or self._inside(file) is None:
                return real(file, mode, buffering, *arguments, **options)
            # others are not wrapped yet
            how = {"w": os.O_TRUNC, "a": os.O_APPEND, "x": os.O_EXCL}[mode.strip("bt")]
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o666)
            buffered = io.BufferedWriter(_Raw(descriptor))
            if "b" in mode:
                return buffered
            return io.TextIOWrapper(
                buffered, options.get("encoding"), line_buffering=buffering == 1
            )

        return call

    def _inside(self, path: Any, dir_fd: int | None = None) -> str | None:
        """`path` relative to the folder; None outside it."""
        if isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if dir_fd is not None:
            if dir_fd not in self._open:
                return None
            text = os.path.join(self.folder, self._open[dir_fd].path, text)
        text = os.path.abspath(text)
        if text == self.folder:
            return "."
        return text[len(self.folder) + 1 :] if text.startswith(self.folder + os.sep) else None

    def _strike(self, change: Change, cut: Callable[[bytes], Any] = lambda data: None) -> None:
        """Counts a change and lets the fault strike; `change.data` is then what may still be
        written. `cut` writes the first half of a write in which the process dies."""
        plan = self.plan
        if change.kind in plan.kinds:
            self.count += 1
            hit = self.count == plan.at
            later = 0 < plan.at < self.count
            half = change.data[: len(change.data) // 2]
            if hit and plan.fault in ("kill", "torn"):
                if plan.fault == "torn":
                    cut(half)
                os.kill(os.getpid(), signal.SIGKILL)
            if (hit and plan.fault in ("eio", "eio_forever")) or (
                later and plan.fault == "eio_forever"
            ):
                raise OSError(errno.EIO, os.strerror(errno.EIO), change.path)
            if hit and half and plan.fault in ("full", "short"):
                change.data = half
            elif (plan.fault == "full" and (hit or later)) or (
                plan.fault == "short" and self.count == plan.at + 1
            ):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), change.path)

    def _take_down(self, change: Change) -> None:
        if self.journal is not None:
            self.journal.append(change)


installed: Files | None = None  # those of this process


class _Raw(io.RawIOBase):
    """A file open for writing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        return os.write(self._descriptor, data)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
