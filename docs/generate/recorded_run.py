"""Records the run that ships with the page (rods.family.page.dash), after a change of the
protocol or of what runs record: `python -m docs.generate.recorded_run RUN`.

RUN is a finished one that `rods trainer score` has been over. Its configuration is
console/demo.toml with `pipeline.author = "llm"`, the stub's endpoint, and budgets. What extensions
add to a configuration is left out where it is their default, so that the run can be read where they
are taken out.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

import orjson
import tomli_w

from rods.config import Curriculum, Stage
from rods.config.sections import CURRICULUM, OPERATION, SECTIONS, STAGE
from rods.family.page.dash import ARCHIVE
from rods.section import Section

# No weights, and nothing that names a machine: the records of starts are left out, and parts of the
# heartbeats.
RECORDED = (
    *(
        "config.toml",
        "manifest.json",
        "tracker.json",
        "[deprstu]*.jsonl",
        "observations*.jsonl",
        "logs/*.jsonl",
    ),
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
            elif file.name == "config.toml":
                content = tomli_w.dumps(core(tomllib.loads(content.decode()))).encode()
            elif file.name == "manifest.json":
                manifest = orjson.loads(content)
                content = (
                    orjson.dumps(
                        {**manifest, "identity": core(manifest["identity"])},
                        option=orjson.OPT_INDENT_2,
                    )
                    + b"\n"
                )
            archive.writestr(ZipInfo(str(file.relative_to(run))), content, ZIP_LZMA)


def core(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration, whose values are JSON, without what extensions add to it and what is their
    default."""
    curriculum = config["curriculum"]
    stages = [_without(stage, Stage(), STAGE) for stage in curriculum["stages"]]
    curriculum = _without(curriculum, Curriculum(), CURRICULUM)
    kept = _used(config, SECTIONS)
    if "operation" in config:  # a manifest has the other half alone
        kept["operation"] = _used(config["operation"], OPERATION)
    return {**kept, "curriculum": {**curriculum, "stages": stages}}


def _used(half: dict[str, Any], added: Iterable[Mapping[str, Section]]) -> dict[str, Any]:
    default = {
        name: section.model_dump(mode="json")
        for sections in added
        for name, section in sections.items()
    }
    return {
        name: value for name, value in half.items() if name not in default or value != default[name]
    }


def _without(
    table: dict[str, Any], default: Section, added: Iterable[type[Section]]
) -> dict[str, Any]:
    keys = {key for part in added for key in part.model_fields}
    values = default.model_dump(mode="json")
    return {key: value for key, value in table.items() if key not in keys or value != values[key]}


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(str(ARCHIVE)))
