"""What triage has found, as a file of JSON lines, a table for people, and notes for the page."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from rods.buffers.log.disk import replace
from rods.buffers.run import runfolder
from rods.canonical import JsonMapping, JsonObject
from rods.errors import UserError
from rods.family.triage.extension import TRIAGE
from rods.files import BULK, read_regular

FINDINGS = "findings.jsonl"
OF_RUN = Path(runfolder.EVALUATION) / "triage"
MOST_TEXT = 300  # characters of evidence


def write(folder: Path, findings: Sequence[JsonMapping]) -> Path:
    """Writes the findings, one JSON object a task, and returns the file. Raises UserError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FINDINGS
    replace(file, b"".join(orjson.dumps(finding) + b"\n" for finding in findings))
    return file


def lines(findings: Sequence[JsonMapping]) -> Iterator[str]:
    """How many tasks are what, then those that are something, each with why."""
    counts = Counter(_name(finding) for finding in findings)
    for name, count in counts.most_common():
        yield f"{count:6} {name}"
    for finding in findings:
        if finding["diagnosis"] not in ("sound", "solved"):
            seen = "; ".join(finding["evidence"])[:MOST_TEXT]
            yield f"{finding['task']} {_name(finding)}: {finding['what']}" + (
                f" ({seen})" if seen else ""
            )


def _name(finding: JsonMapping) -> str:
    teachable = finding["diagnosis"] == "teachable"
    return f"teachable at rung {finding['rung']}" if teachable else str(finding["diagnosis"])


def tables(run: Path) -> Iterator[JsonObject]:
    """As the page's `TABLES` has them: what the command has found, and what the daemon has; nothing
    where nothing was triaged. A file that cannot be read is a note."""
    for title, source in (("Triage", OF_RUN / FINDINGS), ("Triage while idle", Path(TRIAGE))):
        try:
            content = read_regular(run / source, BULK)
            notes = [*lines([orjson.loads(line) for line in content.splitlines()])]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UserError, ValueError, KeyError, TypeError, AttributeError) as error:
            notes = [f"{source} cannot be read ({error}) → `rods triage` writes it again"]
        yield {"title": title, "source": str(source), "rows": [], "notes": notes}
