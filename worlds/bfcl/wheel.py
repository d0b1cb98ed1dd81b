"""The pinned `bfcl-eval` wheel (rods.wheels; docs/bfcl.md)."""

import json
from pathlib import Path

from rods.canonical import JsonObject
from rods.wheels import Wheel

PACKAGE = "bfcl-eval"
VERSION = "2026.3.23"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"
WHEEL = Wheel(PACKAGE, VERSION, SHA256, "rods data bfcl", "BFCL data")
path = WHEEL.path
fetch = WHEEL.fetch


def read(file: Path, member: str) -> bytes:
    """The bytes of `bfcl_eval/<member>` inside the wheel. Raises UserError when it is not there."""
    return WHEEL.read(file, f"bfcl_eval/{member}")


def read_json_lines(file: Path, member: str) -> list[JsonObject]:
    return [json.loads(line) for line in read(file, member).splitlines() if line.strip()]
