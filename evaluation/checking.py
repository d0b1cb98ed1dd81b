"""`rods-eval check`: BFCL's own scorer over the result files of an evaluation, in its own process, task by task."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path
from typing import Any

from evaluation import report
from evaluation.bfcl import official_scorer, results
from evaluation.settings import load
from rods.environments.workers.worker import Worker
from rods.errors import UserError
from worlds.bfcl import wheel

_HOUR = 3_600.0
_VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)
SHOWN = 20


def check(folder: Path, wheel_file: Path | None = None) -> dict[str, Any]:
    """Both verdicts on every recorded episode: {"episodes", "valid", "equal", "different": [[id, sample, ours], …]}.

    `wheel_file` is the wheel whose scorer is asked (default: the pinned one); another version than the outputs belong
    to is refused (RefusedError). Raises UserError for a folder that is no evaluation.
    """
    settings = load(folder)
    file = known_wheel(wheel_file)
    form = settings.results_form
    ours = {key: judged.official for key, judged in report.verdicts(folder).items()}
    theirs: dict[tuple[str, int], bool] = {}
    scorer = Worker(official_scorer.TARGET, seconds=_HOUR, memory=1 << 33, reply_bytes=1 << 28)
    try:
        for sample, files in report.write_results(folder):
            for path in files:
                category = path.name.removeprefix("BFCL_v4_").removesuffix("_result.json")
                asked = {"form": form, "category": category, "file": str(path)}
                verdicts = scorer.call({"wheel": str(file), **asked})
                theirs.update({(name, sample): valid for name, valid in verdicts.items()})
    finally:
        scorer.close()
    different = [[*key, ours[key]] for key in sorted(ours) if ours[key] != theirs.get(key)]
    return {
        "data": results.data_version(),
        "episodes": len(ours),
        "valid": sum(theirs.values()),
        "equal": len(ours) - len(different),
        "different": different[:SHOWN],
    }


def known_wheel(file: Path | None) -> Path:
    """The wheel to ask, by default the pinned one in the cache. Raises RefusedError for another version, UserError for
    what is no wheel of BFCL."""
    if file is None:
        return wheel.path()
    try:
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            version = _VERSION.search(archive.read(names[0]).decode())
    except (OSError, zipfile.BadZipFile, IndexError) as error:
        raise UserError(f"is no wheel ({error})", where=str(file), remedy=f"give one of {wheel.PACKAGE}") from error
    stated = version[1] if version else "of no known version"
    results.check_version({"package": wheel.PACKAGE, "version": stated, "sha256": sha256}, file)
    return file
