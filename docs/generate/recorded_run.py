"""Records the run that ships with the page (rods.console.verbs.dash), after a change of the protocol or of what runs
record: `python -m docs.generate.recorded_run RUN`.

RUN is a finished one that `rods score` has been over. Its configuration is console/demo.toml with
`pipeline.author = "llm"`, the stub's endpoint, and budgets.
"""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

import orjson

from rods.console.verbs.dash import ARCHIVE

# No weights, and nothing that names a machine: the records of starts are left out, and parts of the heartbeats.
RECORDED = (
    *("config.toml", "manifest.json", "tracker.json", "[deprstu]*.jsonl", "observations*.jsonl", "logs/*.jsonl"),
    *("traces/*.gz", "eval/*", "heartbeat.daemon.json", "heartbeat.trainer.json"),
)
MACHINE = ("host", "pid", "boot_id", "job", "servers")  # of a heartbeat and its endpoints


def pack(run: Path, target: Path) -> None:
    """Records a run. The same run gives the same bytes."""
    with ZipFile(target, "w", ZIP_LZMA) as archive:
        for file in sorted({found for pattern in RECORDED for found in run.glob(pattern)}):
            content = file.read_bytes()
            if file.match("heartbeat.*"):
                beat = orjson.loads(content)
                for part in (beat, *beat.get("endpoints", ())):
                    for name in MACHINE:
                        part.pop(name, None)
                content = orjson.dumps(beat)
            archive.writestr(ZipInfo(str(file.relative_to(run))), content, ZIP_LZMA)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(str(ARCHIVE)))
