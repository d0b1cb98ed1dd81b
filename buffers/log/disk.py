"""What is asked of a disk besides appending, and its errors in the project's vocabulary."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from rods.errors import disk_error
from rods.files import descriptor_of, open_regular


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Raises what `disk_error` makes of an OSError in what is done at `path`."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def open_file(path: Path, flags: int) -> int:
    """A descriptor of a regular file, closed when another program is started. Raises what
    `disk_error` makes of a refusal."""
    with refusals(path):
        return descriptor_of(path, flags)


def write(path: Path, data: bytes) -> None:
    """A file with this content, durable but for its name. Raises OSError, and leaves what it has
    written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Puts new content into the place of the old, so that a reader, a kill or a power cut finds the
    one or the other, never less. Raises UserError (full disk, no permission) and leaves the old
    content."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(fresh, data)
        fresh.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise disk_error(error, path) from error


def free_name(path: Path, first: int = 1) -> Path:
    """`path`, or with the first number from `first` on behind its name of which there is none."""
    names = chain([path.name], (f"{path.name}.{number}" for number in count(first)))
    return next(free for name in names if not (free := path.with_name(name)).exists())


def sync_file(path: Path) -> None:
    """Makes what is in `path` durable, whoever wrote it; nothing to do where there is no file.
    Called before a record is written that names what stands there."""
    with suppress(FileNotFoundError), open_regular(path) as file, refusals(path):
        os.fdatasync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes names in `folder` durable (creations and renames)."""
    with refusals(folder):
        fsync(folder)


def fsync(path: Path) -> None:
    """Makes a file or a folder durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
