"""The run that ships with the page, for who wants to look around before training: a recorded one of `make demo`.

`python -m console.dash.example RUN` records another: after a change of the protocol, or of what runs record.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

NAME = "example"
ARCHIVE = files("console.dash").joinpath("example.zip")
# Nothing that names a machine, and no weights.
RECORDED = ("config.toml", "manifest.json", "tracker.json", "[deoprst]*.jsonl", "logs/*.jsonl", "traces/*.gz", "eval/*")
LEFT_OUT = ("operation.", "usage.")


def unpacked(folder: Path) -> Path:
    """Writes the recorded run into `folder`; the run's own folder there."""
    with ARCHIVE.open("rb") as file, ZipFile(file) as archive:
        archive.extractall(folder / NAME)
    return folder / NAME


def pack(run: Path, target: Path) -> None:
    """Records a run. The same run gives the same bytes."""
    with ZipFile(target, "w", ZIP_LZMA) as archive:
        for file in sorted({found for pattern in RECORDED for found in run.glob(pattern)}):
            if not file.name.startswith(LEFT_OUT):
                archive.writestr(ZipInfo(str(file.relative_to(run))), file.read_bytes(), ZIP_LZMA)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(str(ARCHIVE)))
