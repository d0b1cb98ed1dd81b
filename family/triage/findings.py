"""What triage has found, as a file of JSON lines, and for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from rods.buffers.log.disk import replace
from rods.buffers.run import runfolder
from rods.canonical import JsonMapping

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
    counts = Counter(finding["what"].partition(":")[0] for finding in findings)
    for name, count in counts.most_common():
        yield f"{count:6} {name}"
    for finding in findings:
        if finding["diagnosis"] not in ("sound", "solved"):
            seen = "; ".join(finding["evidence"])[:MOST_TEXT]
            yield f"{finding['task']} {finding['what']}" + (f" ({seen})" if seen else "")
