"""What every verb shares: the types of its arguments and the two ways to print, for people and for scripts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

RunFolder = Annotated[Path, Parameter(help="The run folder, for instance runs/demo.")]
ConfigFile = Annotated[Path | None, Parameter(name="--config", help="The TOML file of the run's configuration.")]


def print_json(value: Any) -> None:
    """One line of JSON on standard output. Numbers are exact; NaN becomes null."""
    sys.stdout.write(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode() + "\n")


def estimated(estimate: Mapping[str, Any], sign: str = "") -> str:
    """A mean with its 95 % interval; the mean alone where there is none, as that of one task. `sign` is "+" for
    differences."""
    mean = f"{estimate['mean']:{sign}.3f}"
    if estimate["interval"] is None:
        return mean
    low, high = estimate["interval"]
    return f"{mean} [{low:{sign}.3f}, {high:{sign}.3f}]"


def plain(text: str) -> str:
    """`text` without control characters: model text must not steer a reader's terminal. Newlines and tabs stay."""
    return "".join(c if c in "\n\t" or (c.isprintable()) else "�" for c in text)
