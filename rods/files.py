"""Reads what a user or another process put there: regular files only (a FIFO would be waited for, a
device may never end), and no more of them than a bound, since a megabyte of gzip, or of a sparse
file, holds gigabytes."""

import errno
import gzip
import hashlib
import os
import re
import shutil
import stat
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from rods.canonical import JsonObject
from rods.errors import UserError

# Bounds in bytes. A document is parsed as a whole: a manifest, a heartbeat, a configuration, a file
# of code.
DOCUMENT = 16 << 20
LINE = 64 << 20  # of a log, a task file or traces: no record is longer, writers refuse it
TASKS = 4 << 30  # a file of tasks, read line by line; a million tasks of desk are 3.3e9
# what grows with a run and is read as a whole: tracker, snapshots, scores, a part to be repaired
BULK = 1 << 30


def descriptor_of(path: str | Path, flags: int) -> int:
    """A descriptor of a regular file, closed when another program is started. Raises UserError for
    what is neither, OSError as `os.open` does."""
    remedy = "put a regular file there"
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno != errno.ENXIO:  # nobody reads the FIFO, or nobody listens at the socket
            raise
        raise UserError(
            "is a FIFO or a socket, where a file is expected", where=str(path), remedy=remedy
        ) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = (
        "a FIFO"
        if stat.S_ISFIFO(mode)
        else "a device"
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
        else "no file"
    )
    raise UserError(f"is {kind}, where a file is expected", where=str(path), remedy=remedy)


def open_regular(path: Path) -> BufferedReader:
    """A regular file, open for reading; errors as `descriptor_of`."""
    return os.fdopen(descriptor_of(path, os.O_RDONLY), "rb")


@contextmanager
def explained(what: str, where: Path | str, remedy: str) -> Iterator[None]:
    """Raises UserError that says `what`, and why, for an OSError in what is done there, at a path
    or an address, and for the errors in which torch, safetensors and tokenizers wrap one."""
    try:
        yield
    except Exception as error:
        match = re.search(r"(\w[\w ]*) \(os error|inline_container", str(error))
        if not match and not isinstance(error, OSError):
            raise
        why = (
            (match and match[1])
            or getattr(error, "strerror", "")
            or "the disk is full, or it fails"
        )
        raise UserError(f"{what} ({why})", where=str(where), remedy=remedy) from error


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A new folder, to be filled, which then takes the name of `folder`, where nothing or an empty
    one may be. Where filling it fails, nothing is left of it."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # what a kill has left
    try:
        part.mkdir(parents=True)
        yield part
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def read_toml(path: Path, what: str = "cannot read", remedy: str = "check the path") -> JsonObject:
    """What a TOML file holds. Raises UserError: that it is no TOML, or `what` and `remedy` where it
    cannot be read."""
    with explained(what, path, remedy):
        content = read_regular(path)
    try:
        return tomllib.loads(content.decode("utf-8"))
    # TOMLDecodeError is one; so is a number of thousands of digits
    except (ValueError, RecursionError) as error:
        raise UserError(f"not TOML: {error}", where=str(path), remedy="mend that line") from error


def module_table(module: str, name: str = "") -> dict[str, Any]:
    """What the TOML file beside a module holds (`__file__`), which is called as the module is, or
    `name`."""
    file = Path(module)
    return read_toml(file.with_name(name) if name else file.with_suffix(".toml"))


def user_cache() -> Path:
    """Where the program keeps what saves time and may be deleted: `$RODS_CACHE`, else
    `~/.cache/rods`."""
    return Path(os.environ.get("RODS_CACHE") or Path.home() / ".cache" / "rods")


def read_regular(path: Path, most: int = DOCUMENT) -> bytes:
    """The content of a regular file; errors as `descriptor_of`. Raises UserError for one of more
    than `most` bytes."""
    with _bounded(path, most) as file:
        return file.read()


def sha256_of(path: Path, most: int) -> str:
    """The hash of the content, in hex digits; errors as `read_regular`."""
    with _bounded(path, most) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _bounded(path: Path, most: int) -> Iterator[BufferedReader]:
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise _too_large(path, "is a file", most)
        yield file


def bounded_lines(file: IO[bytes] | gzip.GzipFile, path: Path, most: int) -> Iterator[bytes]:
    """The lines of `file`, opened at `path`. Raises UserError at one that is longer than a line may
    be, and where all of them together are more than `most` bytes."""
    read = 0
    while text := file.readline(LINE + 1):
        read += len(text)
        if len(text) > LINE or read > most:
            raise _too_large(
                path, *("holds a line", LINE) if len(text) > LINE else ("holds lines", most)
            )
        yield text


def unpacked_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that was compressed with gzip. Raises UserError where it is cut short, no
    gzip or larger than a bound; what stands before is yielded."""
    with open_regular(path) as file, gzip.open(file) as unpacked:
        try:
            yield from bounded_lines(unpacked, path, 4 * BULK)
        except (OSError, EOFError, zlib.error) as error:
            remedy = "restore it from a copy, or move it aside"
            raise UserError(
                f"cannot be unpacked ({error})", where=str(path), remedy=remedy
            ) from error


def _too_large(path: Path, what: str, most: int) -> UserError:
    remedy = "nothing here writes that much: restore it from a copy, or move it aside"
    return UserError(f"{what} of more than {most >> 20} MiB", where=str(path), remedy=remedy)
