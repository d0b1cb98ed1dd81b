"""Replacing a file so that a reader, a kill or a power cut finds the old content or the new, never less."""

from __future__ import annotations

import os
from pathlib import Path

from buffers.log import disk_error, sync_folder


def replace(path: Path, data: bytes) -> None:
    """Writes a temporary file, syncs it, renames it over `path` and syncs the folder. Raises UserError (full disk, no
    permission) and leaves the old content."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        fresh.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise disk_error(error, path) from error
