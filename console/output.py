"""What every verb shares: the types of its arguments and the two ways to print, for people and for scripts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

RunFolder = Annotated[Path, Parameter(help="The run folder, for instance runs/demo.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object instead of text.")]
ConfigFile = Annotated[Path | None, Parameter(name="--config", help="The TOML file of the run's configuration.")]


def print_json(value: Any) -> None:
    """One line of JSON on standard output. Numbers are exact; NaN becomes null."""
    sys.stdout.write(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode() + "\n")


def plain(text: str) -> str:
    """`text` without control characters: model text must not steer a reader's terminal. Newlines and tabs stay."""
    return "".join(c if c in "\n\t" or (c.isprintable()) else "�" for c in text)
