"""What is asked of a disk besides appending, and its errors in the project's vocabulary."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rods.errors import disk_error
from rods.files import descriptor_of


def open_file(path: Path, flags: int) -> int:
    """A descriptor, closed when another program is started. Raises what `disk_error` makes of a refusal."""
    try:
        return os.open(path, flags | os.O_CLOEXEC) if flags & os.O_DIRECTORY else descriptor_of(path, flags)
    except OSError as error:
        raise disk_error(error, path) from error


def write(path: Path, data: bytes) -> None:
    """A file with this content, durable but for its name. Raises OSError, and leaves what it has written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Puts new content into the place of the old, so that a reader, a kill or a power cut finds the one or the other,
    never less. Raises UserError (full disk, no permission) and leaves the old content."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(fresh, data)
        fresh.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise disk_error(error, path) from error


def sync_file(path: Path) -> None:
    """Makes what is in `path` durable, whoever wrote it; nothing to do where there is no file. Called before a record
    is written that names what stands there."""
    try:
        descriptor = descriptor_of(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    _sync(descriptor, os.fdatasync, path)


def sync_folder(folder: Path) -> None:
    """Makes names in `folder` durable (creations and renames)."""
    _sync(open_file(folder, os.O_RDONLY | os.O_DIRECTORY), os.fsync, folder)


def _sync(descriptor: int, sync: Callable[[int], None], path: Path) -> None:
    try:
        sync(descriptor)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        os.close(descriptor)
