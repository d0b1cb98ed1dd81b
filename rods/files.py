"""Opens what a user or another process put there: regular files only. A FIFO would be waited for, a device may never
end."""

import errno
import os
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rods.errors import UserError


def descriptor_of(path: str | Path, flags: int) -> int:
    """A descriptor of a regular file, closed when another program is started. Raises UserError for what is neither,
    OSError as `os.open` does."""
    remedy = "put a regular file there"
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno != errno.ENXIO:  # nobody reads the FIFO, or nobody listens at the socket
            raise
        raise UserError("is a FIFO or a socket, where a file is expected", where=str(path), remedy=remedy) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = "a FIFO" if stat.S_ISFIFO(mode) else "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "no file"
    raise UserError(f"is {kind}, where a file is expected", where=str(path), remedy=remedy)


def open_regular(path: Path) -> BinaryIO:
    """A regular file, open for reading; errors as `descriptor_of`."""
    return os.fdopen(descriptor_of(path, os.O_RDONLY), "rb")


@contextmanager
def explained(what: str, where: Path | str, remedy: str) -> Iterator[None]:
    """Raises UserError that says `what`, and why, for an OSError in what is done there: at a path, or an address."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{what} ({error.strerror})", where=str(where), remedy=remedy) from error


def read_toml(path: Path, what: str = "cannot read", remedy: str = "check the path") -> dict[str, Any]:
    """What a TOML file holds. Raises UserError: that it is no TOML, or `what` and `remedy` where it cannot be read."""
    with explained(what, path, remedy):
        content = read_regular(path)
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is one; so is a number of thousands of digits
        raise UserError(f"not TOML: {error}", where=str(path), remedy="mend that line") from error


def user_cache() -> Path:
    """Where the program keeps what saves time and may be deleted: `$RODS_CACHE`, else `~/.cache/rods`."""
    return Path(os.environ.get("RODS_CACHE") or Path.home() / ".cache" / "rods")


def read_regular(path: Path) -> bytes:
    """The content of a regular file; errors as `descriptor_of`."""
    with open_regular(path) as file:
        return file.read()
